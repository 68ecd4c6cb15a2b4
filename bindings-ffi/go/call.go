package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
)

func isOwn(err error, own **Error) bool { return errors.As(err, own) }

func typeName(err error) string { return fmt.Sprintf("%T", err) }

type callerKey struct{}

type caller struct {
	id       string
	metadata any
}

// WithCaller returns a context that says who calls, and metadata of the run, such as a tenant; nil for none.
func WithCaller(ctx context.Context, id string, metadata any) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{id, metadata})
}

// limits makes the context of a call, and the token that fires when ctx ends; both may be nil.
func limits(ctx context.Context) (made *C.callweir_context, token *C.callweir_token, free func()) {
	who, known := ctx.Value(callerKey{}).(caller)
	at, timed := ctx.Deadline()
	if !known && !timed && ctx.Done() == nil {
		return nil, nil, func() {}
	}
	if ctx.Done() != nil {
		C.callweir_error_free(C.callweir_token_new(&token))
		// A deadline that has passed tells itself; what else has ended ctx is a cancellation.
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			C.callweir_token_cancel(token)
		}
	}
	var left C.uint64_t
	if timed {
		left = math.MaxUint64
		if until := time.Until(at); until > 0 {
			left = C.uint64_t(max(1, until.Microseconds()))
		}
	}
	var metadata *C.callweir_value
	if who.metadata != nil {
		metadata = toValue(who.metadata)
	}
	C.callweir_error_free(C.callweir_go_context(maybe(who.id), metadata, token, left, &made))
	C.callweir_value_free(metadata)
	return made, token, func() {
		C.callweir_context_free(made)
		C.callweir_token_free(token)
	}
}

// CallOption says more of a call.
type CallOption func(*callOptions)

type callOptions struct {
	id       string
	metadata any
}

// ToolCallID is the id that the model gave the call.
func ToolCallID(id string) CallOption { return func(o *callOptions) { o.id = id } }

// Metadata is shown in the call's start and end event.
func Metadata(metadata any) CallOption { return func(o *callOptions) { o.metadata = metadata } }

// Execute makes a managed call of a tool that fn runs. Arguments and result are passed by reference.
//
// The error of a callback comes back as it was. When ctx ends the caller is released at once, with ctx.Err() beside
// ErrCancelled or ErrTimedOut.
func Execute(ctx context.Context, name string, args any, fn func(ctx context.Context, args any) (any, error),
	options ...CallOption) (any, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return nil, err
	}
	var o callOptions
	for _, option := range options {
		option(&o)
	}
	var metadata string
	if o.metadata != nil {
		written, err := encode(o.metadata)
		if err != nil {
			return nil, err
		}
		metadata = string(written)
	}
	enter()
	made, token, free := limits(ctx)
	value := toValue(args)
	leave()
	defer func() {
		enter()
		free()
		C.callweir_value_free(value)
		leave()
	}()
	work := func(ctx context.Context, request *request) (answer, error) {
		args, err := request.value()
		if err != nil {
			return answer{}, err
		}
		result, err := fn(ctx, args)
		return answer{value: result}, err
	}
	scope := CurrentScope(ctx)
	var task *C.callweir_task
	enter()
	failed := C.callweir_go_execute(owner.handle, text(name), value, callbacks.add(owner, work), theHost(), made, scope.c(),
		maybe(metadata), maybe(o.id), &task)
	leave()
	runtime.KeepAlive(scope)
	if failed != nil {
		return nil, fromC(failed)
	}
	return drive(ctx, task, token)
}

// ConditionalExecution runs the guardrails of a tool call and nothing else.
func ConditionalExecution(ctx context.Context, name string, args any) error {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	value := toValue(args)
	defer C.callweir_value_free(value)
	var task *C.callweir_task
	scope := CurrentScope(ctx)
	failed := C.callweir_conditional_execution(owner.handle, text(name), value, scope.c(), &task)
	runtime.KeepAlive(scope)
	if failed != nil {
		return fromC(failed)
	}
	_, err = drive(ctx, task, nil)
	return err
}

// RequestIntercepts runs the request intercepts of a tool call and returns the arguments.
func RequestIntercepts(ctx context.Context, name string, args any) (any, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return nil, err
	}
	value := toValue(args)
	defer C.callweir_value_free(value)
	var task *C.callweir_task
	scope := CurrentScope(ctx)
	failed := C.callweir_request_intercepts(owner.handle, text(name), value, scope.c(), &task)
	runtime.KeepAlive(scope)
	if failed != nil {
		return nil, fromC(failed)
	}
	return drive(ctx, task, nil)
}
