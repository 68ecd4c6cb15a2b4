package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error is one of Callweir's own errors. Failures of callbacks are not: they reach the caller as they were.
type Error struct {
	// Kind is the name of the kind, the same in every language.
	Kind string
	// Code is the stable code; a policy may refine the kind's.
	Code string
	// Message is for people.
	Message string
	// Fields holds what the kind carries, such as tool and reason.
	Fields map[string]string
	cause  error
	kind   uint32
	model  string
}

// Error returns the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Kind
	}
	return e.Message
}

// Unwrap returns what led to the error.
func (e *Error) Unwrap() error { return e.cause }

// Is says whether target is the sentinel of this kind, or of one that it is a special case of.
func (e *Error) Is(target error) bool {
	sentinel, ok := target.(*Error)
	if !ok || sentinel.Message != "" || sentinel.kind == 0 {
		return false
	}
	for kind := e.kind; kind != 0; kind = kinds[kind].parent {
		if kind == sentinel.kind {
			return true
		}
	}
	return false
}

// PanicError is a panic of a callback.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is where it happened.
	Stack []byte
}

// Error names the value.
func (e *PanicError) Error() string { return fmt.Sprintf("a callback panicked: %v", e.Value) }

// errGoexit stands for a callback that ended its goroutine.
var errGoexit = errors.New("the callback ended its goroutine")

// Denied refuses a tool call, for a reason that the model may read.
func Denied(tool, reason string) error {
	fields, _ := json.Marshal(map[string]string{"tool": tool, "reason": reason})
	made := C.callweir_error_new(C.CALLWEIR_ERROR_TOOL_CALL_DENIED, C.callweir_text{}, text(string(fields)), C.callweir_text{})
	return fromC(made)
}

// ForModel returns the text that a model may read of a failure, as JSON; nothing else of it leaks.
func ForModel(err error) string {
	var own *Error
	if errors.As(err, &own) && own.model != "" {
		return own.model
	}
	made := toC(err)
	defer C.callweir_error_free(made)
	var out C.callweir_string
	C.callweir_error_free(C.callweir_error_for_model(made, &out))
	return take(out)
}

// shown is an error as the library tells it.
type shown struct {
	Kind    string            `json:"kind"`
	Code    string            `json:"code"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields"`
	Model   string            `json:"for_model"`
}

// fromC takes an error of the library; nil for NULL.
func fromC(given *C.callweir_error) error {
	if given == nil {
		return nil
	}
	defer C.callweir_error_free(given)
	var number C.uint64_t
	if C.callweir_error_object(given, &number) {
		if err, ok := objects.get(uint64(number)).(error); ok {
			return err
		}
	}
	var out C.callweir_string
	C.callweir_error_free(C.callweir_error_json(given, &out))
	var told shown
	_ = json.Unmarshal([]byte(take(out)), &told)
	return &Error{
		Kind: told.Kind, Code: told.Code, Message: told.Message, Fields: told.Fields, model: told.Model,
		kind: uint32(C.callweir_error_kind(given)), cause: fromC(C.callweir_error_cause(given)),
	}
}

// toC makes an error for the library that carries err itself.
func toC(err error) *C.callweir_error {
	if own, ok := err.(*Error); ok && own.kind != 0 {
		fields, _ := json.Marshal(own.Fields)
		made := C.callweir_error_new(C.uint32_t(own.kind), text(own.Message), text(string(fields)), text(own.Code))
		defer C.callweir_error_free(made)
		return C.callweir_go_with_object(made, C.uint64_t(objects.put(err)))
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		made := C.callweir_error_new(C.CALLWEIR_ERROR_INTERNAL, text(err.Error()), C.callweir_text{}, C.callweir_text{})
		defer C.callweir_error_free(made)
		return C.callweir_go_with_object(made, C.uint64_t(objects.put(err)))
	}
	control := err == errGoexit
	return C.callweir_go_failure(text(fmt.Sprintf("%T", err)), text(err.Error()), C.uint64_t(objects.put(err)), C.bool(control))
}
