#include "bridge.h"
#include "_cgo_export.h"

static void released(void *userdata) { callweirGoCallbackFree((uint64_t)(uintptr_t)userdata); }

const callweir_class callweir_go_class = {callweirGoObjectJSON, callweirGoObjectCopy, callweirGoObjectRelease};

callweir_callback callweir_go_callback(uint64_t number, const callweir_host *host) {
    callweir_callback callback = {CALLWEIR_STEPPED, NULL, (void *)(uintptr_t)number, released, host};
    return callback;
}

callweir_error *callweir_go_failure(callweir_text type_name, callweir_text message, uint64_t object, bool control) {
    callweir_failure failure = {type_name, message, object, callweirGoObjectRelease, control};
    return callweir_error_host(&failure);
}

callweir_error *callweir_go_with_object(const callweir_error *error, uint64_t object) {
    return callweir_error_with_object(error, object, callweirGoObjectRelease);
}

callweir_error *callweir_go_register(const callweir_runtime *runtime, uint32_t family, callweir_text name, uint64_t number,
                                     const callweir_host *host, int32_t priority, bool break_chain,
                                     const callweir_scope *scope, callweir_text component) {
    callweir_callback callback = callweir_go_callback(number, host);
    callweir_register_options options = {priority, break_chain, scope, component};
    return callweir_register(runtime, family, name, &callback, &options);
}

callweir_error *callweir_go_subscribe(const callweir_runtime *runtime, callweir_text name, uint64_t number,
                                      const callweir_host *host, const callweir_scope *scope) {
    callweir_callback callback = callweir_go_callback(number, host);
    return callweir_subscribe(runtime, name, &callback, scope);
}

callweir_error *callweir_go_execute(const callweir_runtime *runtime, callweir_text name, const callweir_value *arguments,
                                    uint64_t number, const callweir_host *host, const callweir_context *context,
                                    const callweir_scope *scope, callweir_text metadata, callweir_text tool_call_id,
                                    callweir_task **out) {
    callweir_callback work = callweir_go_callback(number, host);
    callweir_call_options options = {context, scope, metadata, tool_call_id};
    return callweir_execute(runtime, name, arguments, &work, &options, out);
}

callweir_error *callweir_go_context(callweir_text caller_id, const callweir_value *metadata, const callweir_token *token,
                                    uint64_t deadline_us, callweir_context **out) {
    callweir_context_options options = {caller_id, metadata, token, deadline_us, NULL};
    return callweir_context_new(&options, out);
}

callweir_error *callweir_go_tool(const callweir_registry *registry, callweir_text name, callweir_text description,
                                 callweir_text parameters, bool read_only, bool idempotent, uint64_t number,
                                 const callweir_host *host) {
    callweir_tool tool = {name, description, parameters, read_only, idempotent, callweir_go_callback(number, host)};
    return callweir_registry_add(registry, &tool, 1, NULL, 0);
}

callweir_error *callweir_go_use(const callweir_registry *registry, callweir_text name, uint64_t run, uint64_t refused,
                                const callweir_host *host) {
    callweir_callback around = callweir_go_callback(run, host), hook = callweir_go_callback(refused, host);
    return callweir_registry_use(registry, name, &around, refused ? &hook : NULL);
}

callweir_error *callweir_go_dispatch(const callweir_registry *registry, callweir_text tool,
                                     const callweir_value *arguments, callweir_text text, const callweir_context *context,
                                     const callweir_scope *scope, callweir_task **out) {
    callweir_call_options options = {context, scope, {NULL, 0}, {NULL, 0}};
    return arguments ? callweir_dispatch(registry, tool, arguments, &options, out)
                     : callweir_dispatch_text(registry, tool, text, &options, out);
}

callweir_error *callweir_go_subscribe_calls(const callweir_runtime *runtime, callweir_text name, uint64_t number,
                                            const callweir_host *host, const callweir_scope *scope) {
    callweir_callback callback = callweir_go_callback(number, host);
    return callweir_subscribe_calls(runtime, name, &callback, scope);
}

callweir_error *callweir_go_include(const callweir_registry *registry, callweir_registry *inner) {
    return callweir_registry_add(registry, NULL, 0, &inner, 1);
}
