package callweir

/*
#cgo pkg-config: callweir
#include "bridge.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"math"
	"runtime"
	"sync"
	"time"
)

// Runtime is everything that belongs together: registrations, scopes and the dispatcher of events.
type Runtime struct {
	handle *C.callweir_runtime
}

// Options are the settings of a runtime; what is not given is the default.
type Options struct {
	QueueEvents       int      `json:"queue_events,omitempty"`
	QueueBytes        int      `json:"queue_bytes,omitempty"`
	SanitizerTimeout  float64  `json:"sanitizer_timeout,omitempty"`
	CredentialHeaders []string `json:"credential_headers,omitempty"`
	ErrorText         bool     `json:"error_text,omitempty"`
}

func owned(handle *C.callweir_runtime) *Runtime {
	made := &Runtime{handle}
	runtime.AddCleanup(made, func(handle *C.callweir_runtime) { C.callweir_runtime_free(handle) }, handle)
	return made
}

// NewRuntime makes a runtime. A library of another ABI version is an error.
func NewRuntime(options Options) (*Runtime, error) {
	written, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	var out *C.callweir_runtime
	if failed := C.callweir_runtime_new(C.CALLWEIR_ABI_VERSION, text(string(written)), &out); failed != nil {
		return nil, fromC(failed)
	}
	return owned(out), nil
}

var defaultRuntime = sync.OnceValues(func() (*Runtime, error) {
	var out *C.callweir_runtime
	if failed := C.callweir_runtime_default(C.CALLWEIR_ABI_VERSION, &out); failed != nil {
		return nil, fromC(failed)
	}
	return owned(out), nil
})

// Default returns the runtime that serves a context without one.
func Default() (*Runtime, error) { return defaultRuntime() }

type runtimeKey struct{}

// WithRuntime returns a context whose calls and registrations go to this runtime.
func WithRuntime(ctx context.Context, runtime *Runtime) context.Context {
	return context.WithValue(ctx, runtimeKey{}, runtime)
}

func withRuntime(ctx context.Context, runtime *Runtime) context.Context {
	if ctx.Value(runtimeKey{}) == runtime {
		return ctx
	}
	return WithRuntime(ctx, runtime)
}

func runtimeOf(ctx context.Context) (*Runtime, error) {
	if runtime, ok := ctx.Value(runtimeKey{}).(*Runtime); ok {
		return runtime, nil
	}
	return Default()
}

// limit returns the milliseconds until ctx ends.
func limit(ctx context.Context) C.uint64_t {
	at, ok := ctx.Deadline()
	if !ok {
		return math.MaxUint64
	}
	return C.uint64_t(max(0, time.Until(at).Milliseconds()))
}

// Flush waits until everything emitted before is delivered, and returns how many events are not.
//
// In a sanitizer or subscriber it is ErrWouldDeadlock.
func Flush(ctx context.Context) (int, error) {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return 0, err
	}
	var pending C.uint64_t
	err = fromC(C.callweir_flush(runtime.handle, CurrentScope(ctx).c(), limit(ctx), &pending))
	return int(pending), err
}

// Shutdown ends what is open, delivers what is queued, and stops. Go has no exit hook: defer it in main.
func Shutdown(ctx context.Context) (int, error) {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return 0, err
	}
	var pending C.uint64_t
	err = fromC(C.callweir_shutdown(runtime.handle, CurrentScope(ctx).c(), limit(ctx), &pending))
	return int(pending), err
}

// Counts are the counters of a runtime's dispatcher.
type Counts struct {
	Pending      int `json:"pending"`
	PendingBytes int `json:"pending_bytes"`
	Dropped      int `json:"dropped"`
	Skipped      int `json:"skipped"`
	Failures     int `json:"failures"`
}

// Counts returns the counters.
func (r *Runtime) Counts() (Counts, error) {
	var out C.callweir_string
	if failed := C.callweir_runtime_counts(r.handle, &out); failed != nil {
		return Counts{}, fromC(failed)
	}
	var counts Counts
	return counts, json.Unmarshal([]byte(take(out)), &counts)
}

// Entry is one line of what is installed.
type Entry struct {
	Stage    string `json:"stage"`
	Name     string `json:"name"`
	Level    string `json:"level"`
	Owner    string `json:"owner"`
	Priority int    `json:"priority"`
}

// Registrations lists what is installed.
func (r *Runtime) Registrations() ([]Entry, error) {
	var out C.callweir_string
	if failed := C.callweir_runtime_registrations(r.handle, &out); failed != nil {
		return nil, fromC(failed)
	}
	var entries []Entry
	return entries, json.Unmarshal([]byte(take(out)), &entries)
}

// Explain lists what applies to a call of this kind, tool or llm, made with ctx.
func Explain(ctx context.Context, kind string) ([]Entry, error) {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return nil, err
	}
	var out C.callweir_string
	if failed := C.callweir_runtime_explain(runtime.handle, text(kind), CurrentScope(ctx).c(), &out); failed != nil {
		return nil, fromC(failed)
	}
	var entries []Entry
	return entries, json.Unmarshal([]byte(take(out)), &entries)
}

// Subscribe registers a subscriber of events; scope may be nil.
func Subscribe(ctx context.Context, name string, fn func(ctx context.Context, event Event) error, scope *Scope) error {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	run := func(ctx context.Context, request *request) (answer, error) {
		event, err := request.event()
		if err == nil {
			err = fn(ctx, event)
		}
		return answer{nothing: true}, err
	}
	return fromC(C.callweir_go_subscribe(runtime.handle, text(name), callbacks.add(runtime, run), theHost(), scope.c()))
}

// Unsubscribe removes a subscriber, and says whether it was there.
func Unsubscribe(ctx context.Context, name string, scope *Scope) (bool, error) {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return false, err
	}
	var there C.bool
	err = fromC(C.callweir_unsubscribe(runtime.handle, text(name), scope.c(), &there))
	return bool(there), err
}

// ExportJSONL appends events to a file as JSON lines, as a subscriber of this name.
func ExportJSONL(ctx context.Context, path, name string) error {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	return fromC(C.callweir_export_jsonl(runtime.handle, text(path), text(name)))
}
