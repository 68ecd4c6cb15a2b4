// Scopes, marks, subscribers, sanitizers, and registries.
#include "test.h"

static int events;
static char seen[16][4096];

static void note(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_string text;
    CHECK(callweir_request_stage(request) == CALLWEIR_STAGE_EVENT);
    CHECK(fine(callweir_request_event(request, &text)));
    if (events < 16) snprintf(seen[events], sizeof seen[0], "%s", text.data);
    callweir_string_free(text);
    events++;
    CHECK(fine(callweir_request_nothing(request)));
}

static void subscribe(callweir_runtime *runtime, function run, void *userdata) {
    callweir_callback callback = blocking(run, userdata);
    events = 0;
    CHECK(fine(callweir_subscribe(runtime, callweir_str("notes"), &callback, NULL)));
}

static void flush(callweir_runtime *runtime) {
    uint64_t pending = 1;
    CHECK(fine(callweir_flush(runtime, NULL, 5000, &pending)));
    CHECK(pending == 0);
}

static void scp_3_scopes_open_mark_and_close(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_scope *outer, *inner;
    subscribe(runtime, note, NULL);
    CHECK(fine(callweir_scope_open(runtime, callweir_str("run"), callweir_str("agent"), NULL,
                                   callweir_str("{\"input\":{\"q\":1},\"attributes\":[\"parallel\"]}"), &outer)));
    CHECK(fine(callweir_scope_open(runtime, callweir_str("part"), NOTHING, outer, NOTHING, &inner)));
    CHECK(fine(callweir_mark(runtime, callweir_str("note"), inner, callweir_str("{\"data\":7}"))));
    CHECK(fine(callweir_scope_close(outer, callweir_str("{\"output\":2}"))));
    CHECK(fine(callweir_scope_close(inner, NOTHING)));
    flush(runtime);
    CHECK(events == 5);
    CHECK(strstr(seen[0], "\"data\":{\"q\":1}") && strstr(seen[0], "\"attributes\":[\"parallel\"]"));
    CHECK(strstr(seen[2], "\"kind\":\"mark\"") && strstr(seen[2], "\"data\":7"));
    CHECK(strstr(seen[3], "\"abandoned\"") && strstr(seen[4], "\"data\":2"));
    CHECK(wrong(callweir_scope_open(runtime, callweir_str("x"), callweir_str("nope"), NULL, NOTHING, &inner)));
    CHECK(wrong(callweir_mark(runtime, callweir_str("note"), NULL, callweir_str("{\"dat\":7}"))));
    callweir_scope_free(outer);
    callweir_scope_free(inner);
    runtime_end(runtime);
}

static void scp_5_a_scope_crosses_a_process(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_scope *scope, *there;
    callweir_string text;
    CHECK(fine(callweir_scope_open(runtime, callweir_str("run"), NOTHING, NULL, NOTHING, &scope)));
    CHECK(fine(callweir_scope_propagation(scope, &text)));
    callweir_text given = {text.data, text.len};
    CHECK(fine(callweir_scope_attach(runtime, given, &there)));
    CHECK(strstr(text.data, "\"traceparent\":\"00-"));
    callweir_string_free(text);
    callweir_scope_free(scope);
    callweir_scope_free(there);
    runtime_end(runtime);
}

static void hide(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_value *value = json("{\"card\":\"hidden\"}");
    CHECK(fine(callweir_request_answer(request, value)));
    callweir_value_free(value);
}

static void evt_2_sanitizers_change_only_what_observers_see(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    subscribe(runtime, note, NULL);
    register_entry(runtime, CALLWEIR_TOOL_SANITIZE_REQUEST, "hide", hide, NULL);
    CHECK(fine(call(runtime, "{\"card\":1234}", echo, NULL, NULL, &value)));
    CHECK(reads(value, "{\"card\":1234}"));
    flush(runtime);
    CHECK(events == 2 && strstr(seen[0], "\"card\":\"hidden\"") && !strstr(seen[0], "1234"));
    runtime_end(runtime);
}

static void manual_calls_end_once(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value = json("{\"a\":1}");
    callweir_manual *call;
    subscribe(runtime, note, NULL);
    CHECK(fine(callweir_tool_call(runtime, callweir_str("pay"), value, NULL, callweir_str("{\"tool_call_id\":\"t\"}"),
                                  &call)));
    CHECK(fine(callweir_tool_call_end(call, value, NULL, NOTHING)));
    CHECK(fails(callweir_tool_call_end(call, value, NULL, NOTHING), CALLWEIR_ERROR_ALREADY_ENDED));
    flush(runtime);
    CHECK(events == 2 && strstr(seen[0], "\"tool_call_id\":\"t\""));
    callweir_manual_free(call);
    callweir_value_free(value);
    runtime_end(runtime);
}

static callweir_runtime *shared;

static void flush_inside(void *userdata, callweir_request *request) {
    callweir_scope *scope = callweir_request_scope(request);
    CHECK(fails(callweir_flush(shared, scope, 100, NULL), CALLWEIR_ERROR_WOULD_DEADLOCK));
    // A mark for each event would feed itself for ever.
    CHECK(fine(callweir_mark(shared, callweir_str("again"), scope, NOTHING)));
    callweir_scope_free(scope);
    note(userdata, request);
}

static void evt_10_a_subscriber_cannot_wait_for_or_feed_itself(void) {
    shared = runtime_new();
    subscribe(shared, flush_inside, NULL);
    CHECK(fine(callweir_mark(shared, callweir_str("first"), NULL, NOTHING)));
    // A flush waits for what was emitted before it: each goes one mark further.
    for (int turn = 0; turn < 10; turn++) flush(shared);
    CHECK(events > 1 && events < 10);
    runtime_end(shared);
}

static int refusals;

static void refused(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_error *refusal = callweir_request_refusal(request);
    CHECK(callweir_error_is(refusal, CALLWEIR_ERROR_TOOL_NOT_FOUND));
    callweir_error_free(refusal);
    refusals++;
    CHECK(fine(callweir_request_nothing(request)));
}

static void deny(void *userdata, callweir_request *request) {
    callweir_context *context = callweir_request_context(request);
    callweir_string caller;
    CHECK(fine(callweir_context_caller_id(context, &caller)));
    callweir_context_free(context);
    if (caller.data && strcmp(caller.data, "support") == 0) {
        pass_on(userdata, request);
    } else {
        callweir_error *denial =
            callweir_error_new(CALLWEIR_ERROR_TOOL_CALL_DENIED, NOTHING,
                               callweir_str("{\"tool\":\"lookup\",\"reason\":\"unknown caller\"}"), NOTHING);
        CHECK(fine(callweir_request_fail(request, denial)));
        callweir_error_free(denial);
    }
    callweir_string_free(caller);
}

static callweir_error *dispatch(callweir_registry *registry, const char *tool, const char *arguments,
                                const char *caller, callweir_value **value) {
    callweir_context_options who = {callweir_str(caller), NULL, NULL, 0, NULL};
    callweir_context *context;
    callweir_task *task;
    CHECK(fine(callweir_context_new(&who, &context)));
    callweir_call_options options = {context, NULL, NOTHING, NOTHING};
    CHECK(fine(callweir_dispatch_text(registry, callweir_str(tool), callweir_str(arguments), &options, &task)));
    callweir_error *error = callweir_task_run(task, value);
    callweir_task_free(task);
    callweir_context_free(context);
    return error;
}

static void reg_4_to_7_a_registry_with_middleware_and_subsets(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_registry *registry, *subset;
    callweir_value *value;
    CHECK(fine(callweir_registry_new(runtime, &registry)));
    callweir_text schema = callweir_str("{\"type\":\"object\",\"properties\":{\"sku\":{\"type\":\"string\"}},"
                                        "\"required\":[\"sku\"]}");
    callweir_tool tools[] = {
        {callweir_str("lookup"), callweir_str("Looks up."), schema, true, true, blocking(echo, NULL)},
        {callweir_str("buy"), NOTHING, NOTHING, false, false, blocking(echo, NULL)},
    };
    CHECK(fine(callweir_registry_add(registry, tools, 2, NULL, 0)));
    CHECK(fails(callweir_registry_add(registry, tools, 1, NULL, 0), CALLWEIR_ERROR_ALREADY_EXISTS));
    callweir_callback around = blocking(deny, NULL), on_refused = blocking(refused, NULL);
    CHECK(fine(callweir_registry_use(registry, callweir_str("callers"), &around, &on_refused)));
    CHECK(fine(dispatch(registry, "lookup", "{\"sku\":\"AB\"}", "support", &value)));
    callweir_string text;
    CHECK(fine(callweir_value_result(value, &text)) && strcmp(text.data, "{\"result\":{\"sku\":\"AB\"}}") == 0);
    callweir_string_free(text);
    callweir_value_free(value);
    CHECK(fails(dispatch(registry, "lookup", "{\"sku\":\"AB\"}", NULL, &value), CALLWEIR_ERROR_TOOL_CALL_DENIED));
    CHECK(wrong(dispatch(registry, "lookup", "{}", "support", &value)));
    CHECK(wrong(dispatch(registry, "lookup", "{", "support", &value)));
    CHECK(fails(dispatch(registry, "nope", "{}", "support", &value), CALLWEIR_ERROR_TOOL_NOT_FOUND));
    callweir_text names[] = {callweir_str("lookup")};
    CHECK(fine(callweir_registry_subset(registry, names, 1, &subset)));
    CHECK(fails(dispatch(subset, "buy", "{}", "support", &value), CALLWEIR_ERROR_TOOL_NOT_PERMITTED));
    CHECK(refusals == 2);
    CHECK(fine(callweir_registry_manifest(registry, callweir_str("anthropic"), &text)));
    CHECK(strstr(text.data, "input_schema"));
    callweir_string_free(text);
    callweir_registry_free(subset);
    callweir_registry_free(registry);
    runtime_end(runtime);
}

int main(void) {
    RUN(scp_3_scopes_open_mark_and_close);
    RUN(scp_5_a_scope_crosses_a_process);
    RUN(evt_2_sanitizers_change_only_what_observers_see);
    RUN(manual_calls_end_once);
    RUN(evt_10_a_subscriber_cannot_wait_for_or_feed_itself);
    RUN(reg_4_to_7_a_registry_with_middleware_and_subsets);
    return test_end();
}
