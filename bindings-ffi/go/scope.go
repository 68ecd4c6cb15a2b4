package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"runtime"
)

// Scope is a unit of work: the parent of the calls, marks and scopes inside it.
type Scope struct {
	handle *C.callweir_scope
}

func newScope(handle *C.callweir_scope) *Scope {
	made := &Scope{handle}
	runtime.AddCleanup(made, func(handle *C.callweir_scope) { C.callweir_scope_free(handle) }, handle)
	return made
}

func (s *Scope) c() *C.callweir_scope {
	if s == nil {
		return nil
	}
	return s.handle
}

type scopeKey struct{}

// CurrentScope returns the scope that ctx carries; nil for none.
func CurrentScope(ctx context.Context) *Scope {
	scope, _ := ctx.Value(scopeKey{}).(*Scope)
	return scope
}

// WithScope returns a context inside a scope.
func WithScope(ctx context.Context, scope *Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope)
}

// ScopeOptions say more of a scope.
type ScopeOptions struct {
	Input      any      `json:"input,omitempty"`
	Metadata   any      `json:"metadata,omitempty"`
	Attributes []string `json:"attributes,omitempty"`
}

// OpenScope opens a scope inside that of ctx; the context that it returns is inside it. Defer its Close.
func OpenScope(ctx context.Context, name, kind string, options ScopeOptions) (context.Context, *Scope, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return ctx, nil, err
	}
	written, err := encode(options)
	if err != nil {
		return ctx, nil, err
	}
	var out *C.callweir_scope
	parent := CurrentScope(ctx)
	failed := C.callweir_scope_open(owner.handle, text(name), maybe(kind), parent.c(), text(string(written)), &out)
	runtime.KeepAlive(parent)
	if failed != nil {
		return ctx, nil, fromC(failed)
	}
	scope := newScope(out)
	return WithScope(ctx, scope), scope, nil
}

// Close closes the scope; the scopes that are open inside it end first, as abandoned. err, if any, is its failure.
func (s *Scope) Close(output any, err error) error {
	options := map[string]any{"output": output}
	if err != nil {
		options["outcome"] = "failed"
		var own *Error
		if isOwn(err, &own) {
			options["error_type"] = own.Code
		} else {
			options["error_type"] = typeName(err)
		}
	}
	written, failed := encode(options)
	if failed != nil {
		return failed
	}
	return fromC(C.callweir_scope_close(s.handle, text(string(written))))
}

// Mark emits a mark inside the scope of ctx.
func Mark(ctx context.Context, name string, data any) error {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	written, err := encode(map[string]any{"data": data})
	if err != nil {
		return err
	}
	scope := CurrentScope(ctx)
	failed := C.callweir_mark(owner.handle, text(name), scope.c(), text(string(written)))
	runtime.KeepAlive(scope)
	return fromC(failed)
}

// Propagation returns what another process needs to continue under the scope, as JSON text.
func (s *Scope) Propagation() (string, error) {
	var out C.callweir_string
	if failed := C.callweir_scope_propagation(s.handle, &out); failed != nil {
		return "", fromC(failed)
	}
	return take(out), nil
}

// Attach returns a context inside a scope of another process.
func Attach(ctx context.Context, propagation string) (context.Context, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return ctx, err
	}
	var out *C.callweir_scope
	if failed := C.callweir_scope_attach(owner.handle, text(propagation), &out); failed != nil {
		return ctx, fromC(failed)
	}
	return WithScope(ctx, newScope(out)), nil
}
