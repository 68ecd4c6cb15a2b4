// What Go gives the library: callbacks by numbers, objects by numbers, and structs that are built in C so that no Go
// memory is ever referred to from other memory.
#ifndef CALLWEIR_GO_BRIDGE_H
#define CALLWEIR_GO_BRIDGE_H

#include <callweir.h>

extern const callweir_class callweir_go_class;

callweir_callback callweir_go_callback(uint64_t number, const callweir_host *host);
callweir_error *callweir_go_failure(callweir_text type_name, callweir_text message, uint64_t object, bool control);
callweir_error *callweir_go_with_object(const callweir_error *error, uint64_t object);
callweir_error *callweir_go_register(const callweir_runtime *runtime, uint32_t family, callweir_text name, uint64_t number,
                                     const callweir_host *host, int32_t priority, bool break_chain,
                                     const callweir_scope *scope, callweir_text component);
callweir_error *callweir_go_subscribe(const callweir_runtime *runtime, callweir_text name, uint64_t number,
                                      const callweir_host *host, const callweir_scope *scope);
callweir_error *callweir_go_subscribe_calls(const callweir_runtime *runtime, callweir_text name, uint64_t number,
                                            const callweir_host *host, const callweir_scope *scope);
callweir_error *callweir_go_include(const callweir_registry *registry, callweir_registry *inner);
callweir_error *callweir_go_execute(const callweir_runtime *runtime, callweir_text name, const callweir_value *arguments,
                                    uint64_t number, const callweir_host *host, const callweir_context *context,
                                    const callweir_scope *scope, callweir_text metadata, callweir_text tool_call_id,
                                    callweir_task **out);
callweir_error *callweir_go_context(callweir_text caller_id, const callweir_value *metadata, const callweir_token *token,
                                    uint64_t deadline_us, callweir_context **out);
callweir_error *callweir_go_tool(const callweir_registry *registry, callweir_text name, callweir_text description,
                                 callweir_text parameters, bool read_only, bool idempotent, uint64_t number,
                                 const callweir_host *host);
callweir_error *callweir_go_use(const callweir_registry *registry, callweir_text name, uint64_t run, uint64_t refused,
                                const callweir_host *host);
callweir_error *callweir_go_dispatch(const callweir_registry *registry, callweir_text tool,
                                     const callweir_value *arguments, callweir_text text, const callweir_context *context,
                                     const callweir_scope *scope, callweir_task **out);

static inline uint64_t callweir_go_number(const callweir_step *step) { return (uint64_t)(uintptr_t)step->userdata; }

#endif
