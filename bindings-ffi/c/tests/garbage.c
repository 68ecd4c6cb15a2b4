// Wrong handles, pointers and texts: typed errors, never a crash.
#include "test.h"

static callweir_runtime *runtime;
static callweir_value *value;

static void a_header_of_another_version_is_refused(void) {
    callweir_runtime *none = NULL;
    CHECK(callweir_abi_version() == CALLWEIR_ABI_VERSION);
    CHECK(wrong(callweir_runtime_new(CALLWEIR_ABI_VERSION + 1, NOTHING, &none)));
    CHECK(wrong(callweir_runtime_default(0, &none)));
    CHECK(none == NULL);
}

// Every kind of handle that is none: NULL, an address, a number, one of another kind, one that was freed.
static void handles_that_are_none_are_found_out(void) {
    callweir_value *freed = json("1");
    callweir_value_free(freed);
    callweir_value_free(freed);
    int here = 0;
    void *wrongs[] = {NULL, &here, (void *)(uintptr_t)UINT64_MAX, (void *)1, freed, runtime};
    for (size_t index = 0; index < sizeof wrongs / sizeof *wrongs; index++) {
        void *bad = wrongs[index];
        callweir_string text;
        callweir_task *task;
        callweir_value *out;
        callweir_step step;
        bool flag;
        CHECK(wrong(callweir_value_text(bad, &text)));
        CHECK(wrong(callweir_value_result(bad, &text)));
        CHECK(wrong(callweir_task_run(bad, &out)));
        CHECK(wrong(callweir_task_step(bad, &step)));
        CHECK(wrong(callweir_task_start(bad, (callweir_completion){NULL, NULL})));
        CHECK(wrong(callweir_request_allow(bad)));
        CHECK(wrong(callweir_request_answer(bad, value)));
        CHECK(wrong(callweir_request_value(bad, &out)));
        CHECK(wrong(callweir_next_run(bad, NULL, NULL, &task)));
        CHECK(wrong(callweir_scope_close(bad, NOTHING)));
        CHECK(wrong(callweir_context_caller_id(bad, &text)));
        CHECK(wrong(callweir_error_message(bad, &text)));
        CHECK(wrong(callweir_registry_manifest(bad, NOTHING, &text)));
        CHECK(wrong(callweir_tool_call_end(bad, NULL, NULL, NOTHING)));
        if (bad != runtime) {
            CHECK(wrong(callweir_runtime_counts(bad, &text)));
            CHECK(wrong(callweir_flush(bad, NULL, 0, NULL)));
            CHECK(wrong(callweir_mark(bad, callweir_str("m"), NULL, NOTHING)));
            CHECK(wrong(callweir_deregister(bad, 1, callweir_str("m"), NULL, &flag)));
        }
        CHECK(callweir_error_kind(bad) == 0 && callweir_error_clone(bad) == NULL && callweir_request_stage(bad) == 0);
        CHECK(callweir_host_fd(bad) == -1 && !callweir_host_take(bad, &step) && callweir_request_next(bad) == NULL);
        callweir_value_free(bad);
        callweir_task_free(bad);
        callweir_request_free(bad);
        callweir_token_cancel(bad);
        callweir_token_free(bad);
        callweir_scope_free(bad);
        callweir_error_free(bad);
    }
}

static void pointers_to_out_values_may_not_be_null(void) {
    CHECK(wrong(callweir_value_json(callweir_str("1"), NULL)));
    CHECK(wrong(callweir_value_text(value, NULL)));
    CHECK(wrong(callweir_token_new(NULL)));
    CHECK(wrong(callweir_context_new(NULL, NULL)));
    CHECK(wrong(callweir_execute(runtime, callweir_str("pay"), value, NULL, NULL, NULL)));
    CHECK(wrong(callweir_runtime_counts(runtime, NULL)));
    CHECK(wrong(callweir_registry_new(runtime, NULL)));
    CHECK(wrong(callweir_error_host(NULL)));
    CHECK(wrong(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("x"), NULL, NULL)));
    CHECK(!callweir_host_take(NULL, NULL));
}

static void texts_are_checked(void) {
    callweir_value *out;
    callweir_text latin = {"\"\xe9\"", 3};
    CHECK(wrong(callweir_value_json(latin, &out)));
    CHECK(wrong(callweir_value_json(NOTHING, &out)));
    CHECK(wrong(callweir_value_json(callweir_str("{"), &out)));
    callweir_text huge = {"x", SIZE_MAX};
    CHECK(wrong(callweir_value_json(huge, &out)));
    // A NUL inside a name is a letter like others: texts carry their length.
    callweir_text name = {"a\0b", 3};
    callweir_scope *scope;
    callweir_string text;
    CHECK(fine(callweir_scope_open(runtime, name, NOTHING, NULL, NOTHING, &scope)));
    CHECK(fine(callweir_scope_json(scope, &text)) && strstr(text.data, "a\\u0000b"));
    callweir_string_free(text);
    callweir_scope_free(scope);
    CHECK(wrong(callweir_runtime_configure(runtime, callweir_str("{\"queue_event\":1}"))));
    CHECK(wrong(callweir_runtime_configure(runtime, callweir_str("{\"queue_events\":-1}"))));
    callweir_error *error = callweir_error_new(9999, NOTHING, NOTHING, NOTHING);
    CHECK(wrong(error));
    error = callweir_error_new(CALLWEIR_ERROR_TOOL_NOT_FOUND, NOTHING, callweir_str("{\"nope\":1}"), NOTHING);
    CHECK(wrong(error));
}

static void callbacks_are_checked(void) {
    callweir_callback callback = {7, echo, NULL, NULL, NULL};
    CHECK(wrong(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("x"), &callback, NULL)));
    callback.mode = CALLWEIR_BLOCKING;
    callback.function = NULL;
    CHECK(wrong(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("x"), &callback, NULL)));
    // A stepped callback without a host cannot run outside a step.
    callweir_task *task;
    callweir_value *out;
    callback.mode = CALLWEIR_STEPPED;
    CHECK(fine(callweir_execute(runtime, callweir_str("pay"), value, &callback, NULL, &task)));
    CHECK(wrong(callweir_task_run(task, &out)));
    callweir_task_free(task);
}

int main(void) {
    runtime = runtime_new();
    value = json("{}");
    RUN(a_header_of_another_version_is_refused);
    RUN(handles_that_are_none_are_found_out);
    RUN(pointers_to_out_values_may_not_be_null);
    RUN(texts_are_checked);
    RUN(callbacks_are_checked);
    callweir_value_free(value);
    runtime_end(runtime);
    return test_end();
}
