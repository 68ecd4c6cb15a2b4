package callweir

/*
#include <unistd.h>
#include "bridge.h"
*/
import "C"

import (
	"context"
	"os"
	"sync"
)

var startHost = sync.OnceValue(func() *C.callweir_host {
	var host *C.callweir_host
	C.callweir_error_free(C.callweir_host_new(&host))
	go listen(host)
	return host
})

// theHost returns the process's host: who runs callbacks that no step runs, and hears of wakes.
func theHost() *C.callweir_host { return startHost() }

// listen serves the host. The descriptor is duplicated, for os.File closes its own; it is non-blocking, so that the
// goroutine waits on Go's poller and holds no thread.
func listen(host *C.callweir_host) {
	file := os.NewFile(uintptr(C.dup(C.callweir_host_fd(host))), "callweir")
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	for {
		_ = raw.Read(func(uintptr) bool {
			found := false
			var step C.callweir_step
			for C.callweir_host_take(host, &step) {
				found = true
				if step.action == C.CALLWEIR_WAKE {
					waiters.wake(uint64(step.key))
				} else {
					go serve(context.Background(), uint64(C.callweir_go_number(&step)), step.request)
				}
			}
			return found
		})
	}
}
