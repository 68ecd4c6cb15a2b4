package callweir

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// crossing bounds how many goroutines are in C at a time: one that waits for a lock there holds a thread, and with
// thousands of them Go would start thousands. It is never held while a callback runs.
var crossing = make(chan struct{}, 16)

func enter() { crossing <- struct{}{} }

func leave() { <-crossing }

// callback is a Go function that the library knows by a number.
type callback struct {
	runtime *Runtime
	run     run
}

type callbackTable struct {
	next  atomic.Uint64
	table sync.Map
}

var callbacks callbackTable

func (t *callbackTable) add(runtime *Runtime, run run) C.uint64_t {
	number := t.next.Add(1)
	t.table.Store(number, &callback{runtime, run})
	return C.uint64_t(number)
}

//export callweirGoCallbackFree
func callweirGoCallbackFree(number C.uint64_t) { callbacks.table.Delete(uint64(number)) }

// serve runs the callback of a step and answers its request.
func serve(ctx context.Context, number uint64, handle *C.callweir_request) {
	request := &request{handle: handle}
	found, ok := callbacks.table.Load(number)
	if !ok {
		C.callweir_request_free(handle)
		return
	}
	callback := found.(*callback)
	var (
		got      answer
		err      error
		returned bool
	)
	enter()
	scope := C.callweir_request_scope(handle)
	leave()
	ctx = context.WithValue(withRuntime(ctx, callback.runtime), scopeKey{}, newScope(scope))
	defer func() {
		if !returned {
			if value := recover(); value != nil {
				err = &PanicError{value, debug.Stack()}
			} else {
				// The goroutine is ending; the call ends as cancelled, and nobody answers it any more.
				err = errGoexit
			}
		}
		request.answer(got, err)
	}()
	got, err = callback.run(ctx, request)
	returned = true
}

// drive turns a task to its end on this goroutine.
func drive(ctx context.Context, task *C.callweir_task, token *C.callweir_token) (any, error) {
	waiter := waiters.add()
	defer func() {
		enter()
		C.callweir_task_free(task)
		leave()
		waiters.remove(waiter)
	}()
	enter()
	C.callweir_error_free(C.callweir_task_notify(task, theHost(), C.uint64_t(waiter.key)))
	leave()
	done := ctx.Done()
	ran := make(chan struct{}, 1)
	ended := make(chan struct{}, 1)
	for {
		var step C.callweir_step
		enter()
		failed := C.callweir_task_step(task, &step)
		leave()
		if failed != nil {
			return nil, fromC(failed)
		}
		switch step.action {
		case C.CALLWEIR_DONE:
			return fromValue(step.value)
		case C.CALLWEIR_FAIL:
			return nil, cancelled(ctx, fromC(step.error))
		case C.CALLWEIR_RUN:
			number := uint64(C.callweir_go_number(&step))
			if done == nil {
				serve(ctx, number, step.request)
				continue
			}
			// The caller must be released when ctx ends, whatever its callback does.
			go func() {
				returned := false
				defer func() {
					if !returned {
						ended <- struct{}{}
					}
				}()
				serve(ctx, number, step.request)
				returned = true
				ran <- struct{}{}
			}()
		}
		select {
		case <-ran:
		case <-waiter.wake:
		case <-ended:
			// A callback ended its goroutine: so does its caller, once the call has ended.
			var last C.callweir_step
			C.callweir_error_free(C.callweir_task_step(task, &last))
			C.callweir_value_free(last.value)
			C.callweir_error_free(last.error)
			runtime.Goexit()
		case <-done:
			C.callweir_token_cancel(token)
			// Once is enough; callbacks still run on goroutines of their own.
			done = make(chan struct{})
		}
	}
}

// early is how much sooner the library's clock may find a deadline passed than Go's.
const early = 100 * time.Millisecond

// cancelled gives the caller its language's own cancellation beside Callweir's.
func cancelled(ctx context.Context, err error) error {
	if errors.Is(err, ErrTimedOut) {
		if at, ok := ctx.Deadline(); ok && time.Until(at) < early {
			return errors.Join(context.DeadlineExceeded, err)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ErrCancelled) {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// waiter is a task that waits for a wake.
type waiter struct {
	key  uint64
	wake chan struct{}
}

type waiterTable struct {
	next  atomic.Uint64
	table sync.Map
}

var waiters waiterTable

func (t *waiterTable) add() *waiter {
	made := &waiter{t.next.Add(1), make(chan struct{}, 1)}
	t.table.Store(made.key, made)
	return made
}

func (t *waiterTable) remove(w *waiter) { t.table.Delete(w.key) }

func (t *waiterTable) wake(key uint64) {
	if found, ok := t.table.Load(key); ok {
		select {
		case found.(*waiter).wake <- struct{}{}:
		default:
		}
	}
}
