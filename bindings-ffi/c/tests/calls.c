// Managed calls from C, with blocking callbacks.
#include "test.h"

static int works;

static void work(void *userdata, callweir_request *request) {
    works++;
    echo(userdata, request);
}

static void allow(void *userdata, callweir_request *request) {
    (void)userdata;
    CHECK(callweir_request_stage(request) == CALLWEIR_STAGE_GATE);
    CHECK(callweir_request_family(request) == CALLWEIR_TOOL_CONDITIONAL_EXECUTION);
    CHECK(fine(callweir_request_allow(request)));
}

static void reject(void *userdata, callweir_request *request) {
    CHECK(fine(callweir_request_reject(request, callweir_str(userdata))));
}

static void answer_json(void *userdata, callweir_request *request) {
    callweir_value *value = json(userdata);
    CHECK(fine(callweir_request_answer(request, value)));
    callweir_value_free(value);
}

static void forget(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_request_free(request);
}

static int released;
static void release(uint64_t object) {
    CHECK(object == 77);
    released++;
}

static void fail(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_failure failure = {callweir_str("Broken"), callweir_str("the disk is full"), 77, release, false};
    callweir_error *error = callweir_error_host(&failure);
    CHECK(fine(callweir_request_fail(request, error)));
    callweir_error_free(error);
}

static void call_1_a_bare_call_gives_what_the_work_gave(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    CHECK(fine(call(runtime, "{\"z\":1.50,\"a\":[1e400]}", work, NULL, NULL, &value)));
    CHECK(reads(value, "{\"z\":1.50,\"a\":[1e400]}"));
    runtime_end(runtime);
}

static void a_gate_has_three_results(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    works = 0;
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "a", allow, NULL);
    CHECK(fine(call(runtime, "{}", work, NULL, NULL, &value)));
    callweir_value_free(value);
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "b", reject, "too much");
    callweir_error *error = call(runtime, "{}", work, NULL, NULL, &value);
    CHECK(callweir_error_is(error, CALLWEIR_ERROR_DENIED));
    callweir_string text;
    CHECK(fine(callweir_error_for_model(error, &text)));
    CHECK(strcmp(text.data, "{\"error\":\"denied: too much\"}") == 0);
    callweir_string_free(text);
    CHECK(fails(error, CALLWEIR_ERROR_CALL_REJECTED));
    bool there = false;
    CHECK(fine(callweir_deregister(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, callweir_str("b"), NULL, &there)));
    CHECK(there);
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "c", fail, NULL);
    error = call(runtime, "{}", work, NULL, NULL, &value);
    uint64_t object = 0;
    CHECK(callweir_error_kind(error) == CALLWEIR_ERROR_HOST && callweir_error_object(error, &object) && object == 77);
    callweir_error_free(error);
    CHECK(released == 1 && works == 1);
    runtime_end(runtime);
}

static void err_1_a_wrong_or_missing_answer_fails_closed(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    works = 0;
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "g", answer_json, "true");
    CHECK(fails(call(runtime, "{}", work, NULL, NULL, &value), CALLWEIR_ERROR_INVALID_RETURN));
    CHECK(fine(callweir_deregister(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, callweir_str("g"), NULL, NULL)));
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "g", forget, NULL);
    CHECK(fails(call(runtime, "{}", work, NULL, NULL, &value), CALLWEIR_ERROR_INVALID_RETURN));
    CHECK(works == 0);
    runtime_end(runtime);
}

static void fam_4_break_chain_skips_later_request_intercepts(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    callweir_callback first = blocking(answer_json, "{\"first\":1}");
    callweir_register_options options = {-5, true, NULL, {NULL, 0}};
    CHECK(fine(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("z"), &first, &options)));
    register_entry(runtime, CALLWEIR_TOOL_REQUEST, "a", answer_json, "{\"second\":2}");
    CHECK(fine(call(runtime, "{}", work, NULL, NULL, &value)));
    CHECK(reads(value, "{\"first\":1}"));
    runtime_end(runtime);
}

static void twice(void *userdata, callweir_request *request) {
    callweir_next *next = callweir_request_next(request);
    for (int use = 0; use < 2; use++) {
        callweir_task *task;
        callweir_value *value;
        CHECK(fine(callweir_next_run(next, NULL, NULL, &task)));
        CHECK(fine(callweir_task_run(task, &value)));
        callweir_value_free(value);
        callweir_task_free(task);
    }
    *(callweir_next **)userdata = next;
    answer_json("\"twice\"", request);
}

static void fam_5_next_runs_as_often_as_asked_and_expires(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    callweir_next *kept = NULL;
    works = 0;
    register_entry(runtime, CALLWEIR_TOOL_EXECUTION, "twice", twice, &kept);
    CHECK(fine(call(runtime, "{}", work, NULL, NULL, &value)));
    CHECK(reads(value, "\"twice\""));
    CHECK(works == 2);
    callweir_task *task;
    CHECK(fine(callweir_next_run(kept, NULL, NULL, &task)));
    CHECK(fails(callweir_task_run(task, &value), CALLWEIR_ERROR_EXPIRED));
    callweir_task_free(task);
    callweir_next_free(kept);
    CHECK(works == 2);
    runtime_end(runtime);
}

static void err_2_a_failure_keeps_its_object_through_sixteen_intercepts(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    int passed = 0;
    char name[8];
    released = 0;
    for (int place = 0; place < 16; place++) {
        snprintf(name, sizeof name, "i%02d", place);
        register_entry(runtime, CALLWEIR_TOOL_EXECUTION, name, pass_on, &passed);
    }
    callweir_error *error = call(runtime, "{}", fail, NULL, NULL, &value);
    uint64_t object = 0;
    CHECK(callweir_error_object(error, &object) && object == 77 && released == 0 && passed == 16);
    callweir_string text;
    CHECK(fine(callweir_error_for_model(error, &text)));
    CHECK(strcmp(text.data, "{\"error\":\"failed: Broken\"}") == 0);
    callweir_string_free(text);
    callweir_error_free(error);
    CHECK(released == 1);
    runtime_end(runtime);
}

static void fire(void *userdata, callweir_request *request) {
    callweir_token_cancel(userdata);
    fail(NULL, request);
}

static void call_3_tokens_and_deadlines(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    callweir_token *token;
    CHECK(fine(callweir_token_new(&token)));
    callweir_context_options limits = {callweir_str("support"), NULL, token, 0, NULL};
    callweir_context *context;
    CHECK(fine(callweir_context_new(&limits, &context)));
    callweir_call_options options = {context, NULL, NOTHING, NOTHING};
    callweir_error *error = call(runtime, "{}", fire, token, &options, &value);
    callweir_error *cause = callweir_error_cause(error);
    CHECK(callweir_error_kind(cause) == CALLWEIR_ERROR_HOST);
    callweir_error_free(cause);
    CHECK(fails(error, CALLWEIR_ERROR_CANCELLED));
    works = 0;
    CHECK(fails(call(runtime, "{}", work, NULL, &options, &value), CALLWEIR_ERROR_CANCELLED));
    callweir_context_free(context);
    limits.token = NULL;
    limits.deadline_us = UINT64_MAX;
    CHECK(fine(callweir_context_new(&limits, &context)));
    options.context = context;
    error = call(runtime, "{}", work, NULL, &options, &value);
    CHECK(callweir_error_is(error, CALLWEIR_ERROR_TOOL_CALL_FAILED));
    CHECK(fails(error, CALLWEIR_ERROR_TIMED_OUT));
    CHECK(works == 0);
    callweir_context_free(context);
    callweir_token_free(token);
    runtime_end(runtime);
}

static void inner(void *userdata, callweir_request *request) {
    callweir_runtime *runtime = userdata;
    callweir_scope *scope = callweir_request_scope(request);
    callweir_call_options options = {NULL, scope, NOTHING, NOTHING};
    callweir_value *value;
    CHECK(fine(call(runtime, "{\"inner\":1}", work, NULL, &options, &value)));
    CHECK(fine(callweir_request_answer(request, value)));
    callweir_value_free(value);
    callweir_scope_free(scope);
}

static void call_5_a_call_inside_a_call(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    CHECK(fine(call(runtime, "{}", inner, runtime, NULL, &value)));
    CHECK(reads(value, "{\"inner\":1}"));
    runtime_end(runtime);
}

static void phases_alone(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *arguments = json("{}"), *value;
    callweir_task *task;
    register_entry(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, "g", reject, "");
    register_entry(runtime, CALLWEIR_TOOL_REQUEST, "r", answer_json, "{\"r\":1}");
    CHECK(fine(callweir_conditional_execution(runtime, callweir_str("pay"), arguments, NULL, &task)));
    CHECK(fails(callweir_task_run(task, &value), CALLWEIR_ERROR_CALL_REJECTED));
    callweir_task_free(task);
    CHECK(fine(callweir_request_intercepts(runtime, callweir_str("pay"), arguments, NULL, &task)));
    CHECK(fine(callweir_task_run(task, &value)));
    CHECK(reads(value, "{\"r\":1}"));
    callweir_task_free(task);
    callweir_value_free(arguments);
    runtime_end(runtime);
}

static int freed;
static void count_free(void *userdata) {
    (void)userdata;
    freed++;
}

static void fam_7_a_taken_name_is_an_error_and_frees_what_it_was_given(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_callback callback = {CALLWEIR_BLOCKING, allow, NULL, count_free, NULL};
    callweir_text name = callweir_str("g");
    freed = 0;
    CHECK(fine(callweir_register(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, name, &callback, NULL)));
    CHECK(fails(callweir_register(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, name, &callback, NULL),
                CALLWEIR_ERROR_ALREADY_EXISTS));
    CHECK(freed == 1);
    CHECK(wrong(callweir_register(runtime, 999, name, &callback, NULL)));
    CHECK(freed == 2);
    CHECK(fine(callweir_deregister(runtime, CALLWEIR_TOOL_CONDITIONAL_EXECUTION, name, NULL, NULL)));
    CHECK(freed == 3);
    runtime_end(runtime);
}

int main(void) {
    RUN(call_1_a_bare_call_gives_what_the_work_gave);
    RUN(a_gate_has_three_results);
    RUN(err_1_a_wrong_or_missing_answer_fails_closed);
    RUN(fam_4_break_chain_skips_later_request_intercepts);
    RUN(fam_5_next_runs_as_often_as_asked_and_expires);
    RUN(err_2_a_failure_keeps_its_object_through_sixteen_intercepts);
    RUN(call_3_tokens_and_deadlines);
    RUN(call_5_a_call_inside_a_call);
    RUN(phases_alone);
    RUN(fam_7_a_taken_name_is_an_error_and_frees_what_it_was_given);
    return test_end();
}
