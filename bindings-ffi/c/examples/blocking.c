// A tool behind a guard: who may call it, and what the model reads when somebody may not.
#include <callweir.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program at an error that should not be; returns otherwise.
static void must(callweir_error *error) {
    callweir_string text;
    if (!error) return;
    if (!callweir_error_message(error, &text)) fprintf(stderr, "%s\n", text.data);
    exit(1);
}

static void lookup(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_value *stock;
    must(callweir_value_json(callweir_str("{\"sku\":\"AB-12\",\"stock\":7}"), &stock));
    must(callweir_request_answer(request, stock));
    callweir_value_free(stock);
}

// Lets support through to the tool and denies everybody else.
static void callers(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_context *context = callweir_request_context(request);
    callweir_string caller;
    must(callweir_context_caller_id(context, &caller));
    callweir_context_free(context);
    callweir_error *error = NULL;
    if (caller.data && strcmp(caller.data, "support") == 0) {
        callweir_next *next = callweir_request_next(request);
        callweir_task *rest;
        callweir_value *result = NULL;
        must(callweir_next_run(next, NULL, NULL, &rest));
        error = callweir_task_run(rest, &result);
        if (!error) must(callweir_request_answer(request, result));
        callweir_value_free(result);
        callweir_task_free(rest);
        callweir_next_free(next);
    } else {
        error = callweir_error_new(CALLWEIR_ERROR_TOOL_CALL_DENIED, callweir_str(NULL),
                                   callweir_str("{\"tool\":\"lookup\",\"reason\":\"unknown caller\"}"),
                                   callweir_str(NULL));
    }
    if (error) must(callweir_request_fail(request, error));
    callweir_error_free(error);
    callweir_string_free(caller);
}

static void dispatch(callweir_registry *registry, const char *caller) {
    callweir_context_options who = {callweir_str(caller), NULL, NULL, 0, NULL};
    callweir_context *context;
    must(callweir_context_new(&who, &context));
    callweir_call_options options = {context, NULL, callweir_str(NULL), callweir_str(NULL)};
    callweir_task *call;
    must(callweir_dispatch_text(registry, callweir_str("lookup"), callweir_str("{\"sku\":\"AB-12\"}"), &options,
                                &call));
    callweir_value *result;
    callweir_string text;
    callweir_error *error = callweir_task_run(call, &result);
    if (error) {
        must(callweir_error_for_model(error, &text));
        callweir_error_free(error);
    } else {
        must(callweir_value_result(result, &text));
        callweir_value_free(result);
    }
    printf("%s: %s\n", caller, text.data);
    callweir_string_free(text);
    callweir_task_free(call);
    callweir_context_free(context);
}

int main(void) {
    callweir_runtime *runtime;
    callweir_registry *registry;
    must(callweir_runtime_default(CALLWEIR_ABI_VERSION, &runtime));
    must(callweir_registry_new(runtime, &registry));
    callweir_tool tool = {callweir_str("lookup"), callweir_str("Looks up the stock of a SKU."),
                          callweir_str("{\"type\":\"object\",\"properties\":{\"sku\":{\"type\":\"string\"}}}"),
                          true, true, {CALLWEIR_BLOCKING, lookup, NULL, NULL, NULL}};
    must(callweir_registry_add(registry, &tool, 1, NULL, 0));
    callweir_callback guard = {CALLWEIR_BLOCKING, callers, NULL, NULL, NULL};
    must(callweir_registry_use(registry, callweir_str("callers"), &guard, NULL));
    dispatch(registry, "support");
    dispatch(registry, "marketing");
    callweir_registry_free(registry);
    must(callweir_shutdown(runtime, NULL, 5000, NULL));
    callweir_runtime_free(runtime);
    return 0;
}
