package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"encoding/json"
)

// request is one question of the library, answered once.
type request struct {
	handle *C.callweir_request
}

func (r *request) name() string {
	var out C.callweir_string
	C.callweir_error_free(C.callweir_request_name(r.handle, &out))
	return take(out)
}

func (r *request) value() (any, error) {
	enter()
	defer leave()
	var out *C.callweir_value
	if err := C.callweir_request_value(r.handle, &out); err != nil {
		return nil, fromC(err)
	}
	return fromValue(out)
}

func (r *request) event() (Event, error) {
	var out C.callweir_string
	if err := C.callweir_request_event(r.handle, &out); err != nil {
		return nil, fromC(err)
	}
	value, err := decode(take(out))
	event, _ := value.(map[string]any)
	return event, err
}

func (r *request) context() (who string, metadata any) {
	context := C.callweir_request_context(r.handle)
	defer C.callweir_context_free(context)
	var out C.callweir_string
	C.callweir_error_free(C.callweir_context_caller_id(context, &out))
	who = take(out)
	if given := C.callweir_context_metadata(context); given != nil {
		metadata, _ = fromValue(given)
	}
	return who, metadata
}

func (r *request) descriptor() *Descriptor {
	var out C.callweir_string
	C.callweir_error_free(C.callweir_request_descriptor(r.handle, &out))
	if out.data == nil {
		return nil
	}
	var told Descriptor
	if json.Unmarshal([]byte(take(out)), &told) != nil {
		return nil
	}
	return &told
}

// next returns the rest of the chain, and what frees it once the callback is done. The context of the call is
// narrowed by narrow, if given.
func (r *request) next(narrow *C.callweir_context) (Next, func()) {
	handle := C.callweir_request_next(r.handle)
	next := func(ctx context.Context, args any) (any, error) {
		enter()
		value := toValue(args)
		var task *C.callweir_task
		err := C.callweir_next_run(handle, value, narrow, &task)
		C.callweir_value_free(value)
		leave()
		if err != nil {
			failed := fromC(err)
			if own, ok := failed.(*Error); ok && own.kind == C.CALLWEIR_ERROR_INVALID_ARGUMENT {
				// Its callback has returned, and the handle was freed with it.
				return nil, ErrExpired
			}
			return nil, failed
		}
		// The call's own token cancels what is inside it.
		return drive(ctx, task, nil)
	}
	return next, func() { C.callweir_next_free(handle) }
}

// answer ends the request.
func (r *request) answer(got answer, err error) {
	enter()
	defer leave()
	var failed *C.callweir_error
	switch {
	case err != nil:
		made := toC(err)
		failed = C.callweir_request_fail(r.handle, made)
		C.callweir_error_free(made)
	case got.verdict != nil && got.verdict.reject:
		failed = C.callweir_request_reject(r.handle, text(got.verdict.reason))
	case got.verdict != nil:
		failed = C.callweir_request_allow(r.handle)
	case got.nothing:
		failed = C.callweir_request_nothing(r.handle)
	default:
		value := toValue(got.value)
		failed = C.callweir_request_answer(r.handle, value)
		C.callweir_value_free(value)
	}
	// A call that is gone needs no answer.
	C.callweir_error_free(failed)
}
