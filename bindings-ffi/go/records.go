package callweir

/*
#include "bridge.h"
*/
import "C"

import "context"

// CallRecord is a typed record of a registry call; it never carries arguments or results.
type CallRecord struct {
	// Event is started or completed.
	Event     string `json:"event"`
	UUID      string `json:"uuid"`
	Tool      string `json:"tool"`
	CallerID  string `json:"caller_id"`
	Timestamp string `json:"timestamp"`
	// The rest is that of a completed one. Duration is in seconds.
	Outcome        string  `json:"outcome"`
	ErrorType      string  `json:"error_type"`
	Duration       float64 `json:"duration"`
	ShortCircuited bool    `json:"short_circuited"`
}

// SubscribeCalls registers a subscriber of typed records of registry calls; scope may be nil.
func SubscribeCalls(ctx context.Context, name string, fn func(ctx context.Context, record CallRecord) error,
	scope *Scope) error {
	runtime, err := runtimeOf(ctx)
	if err != nil {
		return err
	}
	run := func(ctx context.Context, request *request) (answer, error) {
		value, err := request.value()
		if err != nil {
			return answer{}, err
		}
		record, err := As[CallRecord](value)
		if err == nil {
			err = fn(ctx, record)
		}
		return answer{nothing: true}, err
	}
	return fromC(C.callweir_go_subscribe_calls(runtime.handle, text(name), callbacks.add(runtime, run), theHost(),
		scope.c()))
}
