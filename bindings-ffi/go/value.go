package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"sync"
	"unsafe"
)

// slab holds Go values that the library refers to by numbers; a number is never used again.
type slab struct {
	mutex  sync.Mutex
	next   uint64
	values map[uint64]any
}

var objects = slab{values: map[uint64]any{}}

func (s *slab) put(value any) uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.next++
	s.values[s.next] = value
	return s.next
}

func (s *slab) get(number uint64) any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.values[number]
}

func (s *slab) drop(number uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.values, number)
}

// empty gives texts of no bytes an address: one without is absent.
var empty = [1]byte{}

// text lends a Go string to the library for the time of a call.
func text(s string) C.callweir_text {
	data := unsafe.StringData(s)
	if len(s) == 0 {
		data = &empty[0]
	}
	return C.callweir_text{data: (*C.char)(unsafe.Pointer(data)), len: C.size_t(len(s))}
}

// maybe lends a string, where none is absent.
func maybe(s string) C.callweir_text {
	if s == "" {
		return C.callweir_text{}
	}
	return text(s)
}

// take copies a string of the library's and frees it.
func take(s C.callweir_string) string {
	if s.data == nil {
		return ""
	}
	copied := C.GoStringN(s.data, C.int(s.len))
	C.callweir_string_free(s)
	return copied
}

// encode writes JSON as observers see it.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decode reads JSON text; numbers keep their text.
func decode(given string) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(given)))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// toValue gives the library a Go value by reference.
func toValue(value any) *C.callweir_value {
	var out *C.callweir_value
	C.callweir_error_free(C.callweir_value_object(&C.callweir_go_class, C.uint64_t(objects.put(value)), &out))
	return out
}

// fromValue takes a value of the library: the very Go value, or one read from JSON.
func fromValue(given *C.callweir_value) (any, error) {
	defer C.callweir_value_free(given)
	var number C.uint64_t
	if C.callweir_value_is_object(given, &C.callweir_go_class, &number) {
		return objects.get(uint64(number)), nil
	}
	var out C.callweir_string
	if err := C.callweir_value_text(given, &out); err != nil {
		return nil, fromC(err)
	}
	return decode(take(out))
}

// openHandles returns how many handles of the library Go holds.
func openHandles() int { return int(C.callweir_open_handles()) }

// As returns a value as a T: itself if it is one, else through JSON.
func As[T any](value any) (T, error) {
	if same, ok := value.(T); ok {
		return same, nil
	}
	var out T
	written, err := encode(value)
	if err == nil {
		err = json.Unmarshal(written, &out)
	}
	return out, err
}

//export callweirGoObjectJSON
func callweirGoObjectJSON(number C.uint64_t, out *C.callweir_string, failed **C.callweir_error) {
	written, err := encode(objects.get(uint64(number)))
	if err != nil {
		fields := text(`{"path":"$"}`)
		*failed = C.callweir_error_new(C.CALLWEIR_ERROR_NOT_JSON, text("$: "+err.Error()), fields, C.callweir_text{})
		return
	}
	*failed = C.callweir_string_new(text(string(written)), out)
}

//export callweirGoObjectCopy
func callweirGoObjectCopy(number C.uint64_t, out *C.uint64_t, failed **C.callweir_error) C.bool {
	copied, changed := isolate(objects.get(uint64(number)))
	if changed {
		*out = C.uint64_t(objects.put(copied))
	}
	return C.bool(changed)
}

//export callweirGoObjectRelease
func callweirGoObjectRelease(number C.uint64_t) { objects.drop(uint64(number)) }

// isolate copies the JSON containers of a value; other values go by reference.
func isolate(value any) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, item := range value {
			out[key], _ = isolate(item)
		}
		return out, true
	case []any:
		out := make([]any, len(value))
		for index, item := range value {
			out[index], _ = isolate(item)
		}
		return out, true
	}
	return value, false
}
