package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
)

// Descriptor is what a registry tells about a tool.
type Descriptor struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	ReadOnly    bool            `json:"read_only"`
	Idempotent  bool            `json:"idempotent"`
}

// Tool is a tool that a registry can hold.
type Tool struct {
	Descriptor
	// Run does the work.
	Run func(ctx context.Context, args any) (any, error)
}

// ToolCall is a call on its way through middleware.
type ToolCall struct {
	// Name is the tool's; next always runs that tool.
	Name string
	// Arguments are what next passes on.
	Arguments any
	// CallerID and Metadata are those of the call's context.
	CallerID string
	Metadata any
	// Descriptor is the tool's; nil outside a registry.
	Descriptor *Descriptor
}

// Middleware wraps every call that a registry dispatches.
type Middleware struct {
	// Name is what listings show.
	Name string
	// Run wraps the rest of the chain.
	Run func(ctx context.Context, call ToolCall, next Next) (any, error)
	// OnRefused, if given, is told of a call whose tool is not there; its error replaces the refusal.
	OnRefused func(ctx context.Context, call ToolCall, refusal error) error
}

// ToolRegistry holds tools by name, with middleware around every call that is dispatched through it.
type ToolRegistry struct {
	handle *C.callweir_registry
	owner  *Runtime
}

func ownedRegistry(handle *C.callweir_registry, owner *Runtime) *ToolRegistry {
	made := &ToolRegistry{handle, owner}
	runtime.AddCleanup(made, func(handle *C.callweir_registry) { C.callweir_registry_free(handle) }, handle)
	return made
}

// NewToolRegistry makes an empty registry on the runtime of ctx.
func NewToolRegistry(ctx context.Context) (*ToolRegistry, error) {
	owner, err := runtimeOf(ctx)
	if err != nil {
		return nil, err
	}
	var out *C.callweir_registry
	if failed := C.callweir_registry_new(owner.handle, &out); failed != nil {
		return nil, fromC(failed)
	}
	return ownedRegistry(out, owner), nil
}

// Register adds a tool; a taken name is ErrAlreadyExists.
func (r *ToolRegistry) Register(tool Tool) error {
	run := func(ctx context.Context, request *request) (answer, error) {
		args, err := request.value()
		if err != nil {
			return answer{}, err
		}
		result, err := tool.Run(ctx, args)
		return answer{value: result}, err
	}
	return fromC(C.callweir_go_tool(r.handle, text(tool.Name), text(tool.Description), maybe(string(tool.Parameters)),
		C.bool(tool.ReadOnly), C.bool(tool.Idempotent), callbacks.add(r.owner, run), theHost()))
}

// Include adds all tools of another registry; they keep its middleware, inside this one's.
func (r *ToolRegistry) Include(inner *ToolRegistry) error {
	defer runtime.KeepAlive(inner)
	return fromC(C.callweir_go_include(r.handle, inner.handle))
}

// Explain lists what runs for a call to a tool made with ctx.
func (r *ToolRegistry) Explain(ctx context.Context, tool string) ([]Entry, error) {
	var out C.callweir_string
	scope := CurrentScope(ctx)
	failed := C.callweir_registry_explain(r.handle, text(tool), scope.c(), &out)
	runtime.KeepAlive(scope)
	if failed != nil {
		return nil, fromC(failed)
	}
	var entries []Entry
	return entries, json.Unmarshal([]byte(take(out)), &entries)
}

func (r *request) call() (ToolCall, error) {
	args, err := r.value()
	id, metadata := r.context()
	return ToolCall{r.name(), args, id, metadata, r.descriptor()}, err
}

// Use adds a middleware inside those that are there, and returns the registry.
func (r *ToolRegistry) Use(middleware Middleware) (*ToolRegistry, error) {
	run := func(ctx context.Context, request *request) (answer, error) {
		call, err := request.call()
		if err != nil {
			return answer{}, err
		}
		next, end := request.next(nil)
		defer end()
		result, err := middleware.Run(ctx, call, next)
		return answer{value: result}, err
	}
	var hook C.uint64_t
	if middleware.OnRefused != nil {
		hook = callbacks.add(r.owner, func(ctx context.Context, request *request) (answer, error) {
			call, err := request.call()
			if err != nil {
				return answer{}, err
			}
			refusal := fromC(C.callweir_request_refusal(request.handle))
			return answer{nothing: true}, middleware.OnRefused(ctx, call, refusal)
		})
	}
	return r, fromC(C.callweir_go_use(r.handle, text(middleware.Name), callbacks.add(r.owner, run), hook, theHost()))
}

// Subset copies the named tools, and the middleware as it is now.
func (r *ToolRegistry) Subset(names ...string) (*ToolRegistry, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	texts := make([]C.callweir_text, len(names)+1)
	for index, name := range names {
		texts[index] = text(name)
		pinner.Pin(texts[index].data)
	}
	var out *C.callweir_registry
	if failed := C.callweir_registry_subset(r.handle, &texts[0], C.size_t(len(names)), &out); failed != nil {
		return nil, fromC(failed)
	}
	return ownedRegistry(out, r.owner), nil
}

// Dispatch calls a tool, with everything that a managed call has.
func (r *ToolRegistry) Dispatch(ctx context.Context, tool string, args any) (any, error) {
	value := toValue(args)
	defer C.callweir_value_free(value)
	return r.dispatch(ctx, tool, value, "")
}

// DispatchJSON calls a tool with arguments as a model gives them, and returns the text {"result": ...}.
func (r *ToolRegistry) DispatchJSON(ctx context.Context, tool, args string) (string, error) {
	result, err := r.dispatch(ctx, tool, nil, args)
	if err != nil {
		return "", err
	}
	value := toValue(result)
	defer C.callweir_value_free(value)
	var out C.callweir_string
	if failed := C.callweir_value_result(value, &out); failed != nil {
		return "", fromC(failed)
	}
	return take(out), nil
}

func (r *ToolRegistry) dispatch(ctx context.Context, tool string, value *C.callweir_value, args string) (any, error) {
	made, token, free := limits(ctx)
	defer free()
	scope := CurrentScope(ctx)
	var task *C.callweir_task
	failed := C.callweir_go_dispatch(r.handle, text(tool), value, text(args), made, scope.c(), &task)
	runtime.KeepAlive(scope)
	if failed != nil {
		return nil, fromC(failed)
	}
	return drive(withRuntime(ctx, r.owner), task, token)
}

// Manifest lists the tools as a provider wants them, or neutrally for "".
func (r *ToolRegistry) Manifest(provider string) (json.RawMessage, error) {
	var out C.callweir_string
	if failed := C.callweir_registry_manifest(r.handle, maybe(provider), &out); failed != nil {
		return nil, fromC(failed)
	}
	return json.RawMessage(take(out)), nil
}
