package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
)

// Verdict is what a guardrail decides. The zero Verdict decides nothing, and fails the call.
type Verdict struct {
	decided bool
	reject  bool
	reason  string
}

// Allow lets the call go on.
var Allow = Verdict{decided: true}

// Reject rejects the call, for a reason that may be empty.
func Reject(reason string) Verdict { return Verdict{decided: true, reject: true, reason: reason} }

// Gate decides whether a call may go on.
type Gate func(ctx context.Context, name string, args any) (Verdict, error)

// Transform returns the next payload. A sanitizer that returns nil omits it; a request intercept that does has failed.
type Transform func(ctx context.Context, name string, args any) (any, error)

// Next runs the rest of the chain with these arguments.
type Next func(ctx context.Context, args any) (any, error)

// Around wraps or replaces the rest of a chain.
type Around func(ctx context.Context, name string, args any, next Next) (any, error)

// Event is an event in the wire format.
type Event map[string]any

// Fields are the three parts of an event that a sanitizer may change: data, category_profile and metadata.
type Fields map[string]any

// EventTransform returns the fields of an event, or nil to clear them.
type EventTransform func(ctx context.Context, event Event, fields Fields) (Fields, error)

// Family is a kind of middleware, whose callbacks are of type F.
type Family[F any] struct {
	number uint32
	name   string
}

// String returns the name that events and messages show.
func (f Family[F]) String() string { return f.name }

// Option says where and how an entry is registered.
type Option func(*registration)

type registration struct {
	priority   int32
	breakChain bool
	scope      *Scope
	component  string
}

// Priority orders entries: lower runs first.
func Priority(priority int32) Option { return func(r *registration) { r.priority = priority } }

// BreakChain skips later request intercepts once this one has run.
func BreakChain() Option { return func(r *registration) { r.breakChain = true } }

// InScope registers for one scope and what is inside it.
func InScope(scope *Scope) Option { return func(r *registration) { r.scope = scope } }

// InComponent registers for a plugin component.
func InComponent(name string) Option { return func(r *registration) { r.component = name } }

// Register registers a callback of a family with the runtime of ctx. A taken name is ErrAlreadyExists.
func Register[F any](ctx context.Context, family Family[F], name string, fn F, options ...Option) error {
	run, err := runner(family.name, name, fn)
	if err != nil {
		return err
	}
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	var r registration
	for _, option := range options {
		option(&r)
	}
	return fromC(C.callweir_go_register(runtime.handle, C.uint32_t(family.number), text(name), callbacks.add(runtime, run),
		theHost(), C.int32_t(r.priority), C.bool(r.breakChain), r.scope.c(), maybe(r.component)))
}

// Deregister removes a callback, and says whether it was there.
func Deregister[F any](ctx context.Context, family Family[F], name string, scope *Scope) (bool, error) {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return false, err
	}
	var there C.bool
	err = fromC(C.callweir_deregister(runtime.handle, C.uint32_t(family.number), text(name), scope.c(), &there))
	return bool(there), err
}

// answer is what a callback came to.
type answer struct {
	value   any
	nothing bool
	verdict *Verdict
}

// run answers one request of the library.
type run func(ctx context.Context, request *request) (answer, error)

func invalidReturn(family, entry, why string) error {
	fields, _ := json.Marshal(map[string]string{"family": family, "entry": entry})
	message := family + " entry '" + entry + "': " + why
	return fromC(C.callweir_error_new(C.CALLWEIR_ERROR_INVALID_RETURN, text(message), text(string(fields)), C.callweir_text{}))
}

// invalidInput is the failure of arguments that do not fit a tool's input.
func invalidInput(tool string, cause error) error {
	path := "$"
	var mismatch *json.UnmarshalTypeError
	if errors.As(cause, &mismatch) && mismatch.Field != "" {
		path += "." + mismatch.Field
	}
	fields, _ := json.Marshal(map[string]string{"path": path})
	message := path + ": " + cause.Error() + " (tool '" + tool + "')"
	return fromC(C.callweir_error_new(C.CALLWEIR_ERROR_INVALID_ARGUMENT, text(message), text(string(fields)), C.callweir_text{}))
}

// runner makes the form that all callbacks have of one of a family's.
func runner(family, entry string, fn any) (run, error) {
	switch fn := fn.(type) {
	case Gate:
		return func(ctx context.Context, request *request) (answer, error) {
			args, err := request.value()
			if err != nil {
				return answer{}, err
			}
			verdict, err := fn(ctx, request.name(), args)
			if err == nil && !verdict.decided {
				err = invalidReturn(family, entry, "the zero Verdict decides nothing")
			}
			return answer{verdict: &verdict}, err
		}, nil
	case Transform:
		return func(ctx context.Context, request *request) (answer, error) {
			args, err := request.value()
			if err != nil {
				return answer{}, err
			}
			value, err := fn(ctx, request.name(), args)
			return answer{value: value, nothing: value == nil}, err
		}, nil
	case Around:
		return func(ctx context.Context, request *request) (answer, error) {
			args, err := request.value()
			if err != nil {
				return answer{}, err
			}
			next, end := request.next(nil)
			defer end()
			value, err := fn(ctx, request.name(), args, next)
			return answer{value: value}, err
		}, nil
	case EventTransform:
		return func(ctx context.Context, request *request) (answer, error) {
			event, err := request.event()
			if err != nil {
				return answer{}, err
			}
			fields, err := request.value()
			if err != nil {
				return answer{}, err
			}
			given, _ := fields.(map[string]any)
			changed, err := fn(ctx, event, given)
			return answer{value: map[string]any(changed), nothing: changed == nil}, err
		}, nil
	}
	return nil, errors.New("callweir: no such shape of callback")
}
