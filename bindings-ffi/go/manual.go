package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"runtime"
)

// ManualCall is a call that the program runs itself, and whose start and end it reports.
type ManualCall struct {
	handle *C.callweir_manual
}

// StartToolCall starts a manual call inside the scope of ctx and queues its start event; it never waits. The context that
// it returns is inside the call.
func StartToolCall(ctx context.Context, name string, args any, options ...CallOption) (context.Context, *ManualCall, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return ctx, nil, err
	}
	var o callOptions
	for _, option := range options {
		option(&o)
	}
	more := map[string]any{}
	if o.id != "" {
		more["tool_call_id"] = o.id
	}
	if o.metadata != nil {
		more["metadata"] = o.metadata
	}
	written, err := encode(more)
	if err != nil {
		return ctx, nil, err
	}
	value := toValue(args)
	defer C.callweir_value_free(value)
	scope := CurrentScope(ctx)
	var out *C.callweir_manual
	failed := C.callweir_tool_call(owner.handle, text(name), value, scope.c(), text(string(written)), &out)
	runtime.KeepAlive(scope)
	if failed != nil {
		return ctx, nil, fromC(failed)
	}
	call := &ManualCall{out}
	runtime.AddCleanup(call, func(handle *C.callweir_manual) { C.callweir_manual_free(handle) }, out)
	return WithScope(ctx, newScope(C.callweir_manual_scope(out))), call, nil
}

// End ends the call with a result, or with the error that it failed with; a second end is ErrAlreadyEnded.
func (c *ManualCall) End(result any, err error) error {
	defer runtime.KeepAlive(c)
	if err != nil {
		failed := toC(err)
		defer C.callweir_error_free(failed)
		return fromC(C.callweir_tool_call_end(c.handle, nil, failed, C.callweir_text{}))
	}
	value := toValue(result)
	defer C.callweir_value_free(value)
	return fromC(C.callweir_tool_call_end(c.handle, value, nil, C.callweir_text{}))
}
