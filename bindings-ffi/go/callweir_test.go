package callweir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain fails if the tests leave handles behind, beside the host's, which lives as long as the process.
func TestMain(m *testing.M) {
	code := m.Run()
	for range 100 {
		if openHandles() <= 1 {
			os.Exit(code)
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("handles left:", openHandles())
	os.Exit(1)
}

func fresh(t *testing.T) (context.Context, *Runtime) {
	t.Helper()
	made, err := NewRuntime(Options{})
	must(t, err)
	ctx := WithRuntime(context.Background(), made)
	t.Cleanup(func() {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, _ = Shutdown(limited)
	})
	return ctx, made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func echo(_ context.Context, args any) (any, error) { return args, nil }

type failure struct{ code int }

func (f *failure) Error() string { return "failure " + strconv.Itoa(f.code) }

func TestPAY1ValuesGoByReference(t *testing.T) {
	ctx, _ := fresh(t)
	type order struct{ SKU string }
	given := &order{"AB"}
	result, err := Execute(ctx, "pay", given, echo)
	must(t, err)
	if result != given {
		t.Fatalf("got %v", result)
	}
}

func TestPAY4TheCallersArgumentsAreNotChanged(t *testing.T) {
	ctx, _ := fresh(t)
	must(t, Register(ctx, ToolRequest, "r", Transform(func(_ context.Context, _ string, args any) (any, error) {
		args.(map[string]any)["changed"] = true
		return args, nil
	})))
	given := map[string]any{"a": 1}
	result, err := Execute(ctx, "pay", given, echo)
	must(t, err)
	if len(given) != 1 || len(result.(map[string]any)) != 2 {
		t.Fatal(given, result)
	}
}

func TestAGateHasThreeResults(t *testing.T) {
	ctx, _ := fresh(t)
	verdict, failed := Allow, error(nil)
	must(t, Register(ctx, ToolConditionalExecution, "g", Gate(func(context.Context, string, any) (Verdict, error) {
		return verdict, failed
	})))
	_, err := Execute(ctx, "pay", nil, echo)
	must(t, err)
	verdict = Reject("too much")
	_, err = Execute(ctx, "pay", nil, echo)
	if !errors.Is(err, ErrCallRejected) || !errors.Is(err, ErrDenied) || errors.Is(err, ErrToolNotFound) {
		t.Fatal(err)
	}
	if ForModel(err) != `{"error":"denied: too much"}` {
		t.Fatal(ForModel(err))
	}
	failed = &failure{7}
	if _, err = Execute(ctx, "pay", nil, echo); err != failed {
		t.Fatal(err)
	}
	verdict, failed = Verdict{}, nil
	if _, err = Execute(ctx, "pay", nil, echo); !errors.Is(err, ErrInvalidReturn) {
		t.Fatal(err)
	}
}

func passOn(ctx context.Context, _ string, args any, next Next) (any, error) { return next(ctx, args) }

func TestERR2ErrorsComeBackAsTheyWere(t *testing.T) {
	ctx, _ := fresh(t)
	for place := range 16 {
		must(t, Register(ctx, ToolExecution, fmt.Sprint("i", place), Around(passOn)))
	}
	thrown := &failure{3}
	_, err := Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { return nil, thrown })
	var found *failure
	if err != error(thrown) || !errors.As(err, &found) || found.code != 3 {
		t.Fatal(err)
	}
	denial := Denied("pay", "no")
	_, err = Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { return nil, denial })
	if err != denial || !errors.Is(err, ErrToolCallDenied) {
		t.Fatal(err)
	}
}

func TestAPanicBecomesAnError(t *testing.T) {
	ctx, _ := fresh(t)
	for _, ctx := range []context.Context{ctx, cancellable(t, ctx)} {
		_, err := Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { panic("broken") })
		var panicked *PanicError
		if !errors.As(err, &panicked) || panicked.Value != "broken" {
			t.Fatal(err)
		}
	}
}

func cancellable(t *testing.T, ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	return ctx
}

func TestERR4GoexitPassesThrough(t *testing.T) {
	base, _ := fresh(t)
	for _, ctx := range []context.Context{base, cancellable(t, base)} {
		outcome := make(chan string, 4)
		must(t, Subscribe(ctx, "s", func(_ context.Context, event Event) error {
			if metadata, ok := event["metadata"].(map[string]any); ok {
				outcome <- fmt.Sprint(metadata["callweir.outcome"])
			}
			return nil
		}, nil))
		returned, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = Execute(ctx, "pay", nil, func(context.Context, any) (any, error) {
				runtime.Goexit()
				return nil, nil
			})
			returned = true
		}()
		<-ended
		if returned {
			t.Fatal("the goroutine went on")
		}
		if got := <-outcome; got != "cancelled" {
			t.Fatal(got)
		}
		_, err := Unsubscribe(ctx, "s", nil)
		must(t, err)
	}
}

func TestCALL3ContextsCancel(t *testing.T) {
	base, _ := fresh(t)
	ctx, cancel := context.WithCancel(base)
	release := make(chan struct{})
	defer close(release)
	_, err := Execute(ctx, "pay", nil, func(context.Context, any) (any, error) {
		cancel()
		<-release
		return nil, nil
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCancelled) {
		t.Fatal(err)
	}
	ran := false
	_, err = Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { ran = true; return nil, nil })
	if !errors.Is(err, context.Canceled) || ran {
		t.Fatal(err, ran)
	}
	ctx, cancel = context.WithTimeout(base, 20*time.Millisecond)
	defer cancel()
	for range 2 {
		_, err = Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { <-release; return nil, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestFAM5NextExpires(t *testing.T) {
	ctx, _ := fresh(t)
	var kept Next
	must(t, Register(ctx, ToolExecution, "k", Around(func(ctx context.Context, _ string, args any, next Next) (any, error) {
		kept = next
		if _, err := next(ctx, args); err != nil {
			return nil, err
		}
		return next(ctx, args)
	})))
	works := 0
	_, err := Execute(ctx, "pay", nil, func(context.Context, any) (any, error) { works++; return nil, nil })
	must(t, err)
	if _, err = kept(ctx, nil); !errors.Is(err, ErrExpired) || works != 2 {
		t.Fatal(err, works)
	}
}

func TestSubscribersAndSanitizers(t *testing.T) {
	ctx, _ := fresh(t)
	var mutex sync.Mutex
	var events []Event
	must(t, Subscribe(ctx, "s", func(ctx context.Context, event Event) error {
		mutex.Lock()
		defer mutex.Unlock()
		events = append(events, event)
		if _, err := Flush(ctx); !errors.Is(err, ErrWouldDeadlock) {
			t.Error(err)
		}
		return nil
	}, nil))
	must(t, Register(ctx, ToolSanitizeRequest, "hide", Transform(func(context.Context, string, any) (any, error) {
		return map[string]any{"card": "hidden"}, nil
	})))
	inside, scope, err := OpenScope(ctx, "run", "agent", ScopeOptions{Input: 1})
	must(t, err)
	_, err = Execute(inside, "pay", map[string]any{"card": 1234}, func(ctx context.Context, args any) (any, error) {
		return args, Mark(ctx, "note", 7)
	})
	must(t, err)
	must(t, scope.Close(nil, nil))
	pending, err := Flush(ctx)
	must(t, err)
	if pending != 0 || len(events) != 5 {
		t.Fatal(pending, len(events))
	}
	if events[1]["data"].(map[string]any)["card"] != "hidden" || events[1]["parent_uuid"] != events[0]["uuid"] ||
		events[2]["parent_uuid"] != events[1]["uuid"] {
		t.Fatal(events)
	}
}

func TestRegistry(t *testing.T) {
	ctx, _ := fresh(t)
	registry, err := NewToolRegistry(ctx)
	must(t, err)
	tool := Tool{Descriptor: Descriptor{Name: "lookup", Parameters: []byte(`{"type":"object","properties":{"sku":{}}}`)},
		Run: func(_ context.Context, args any) (any, error) { return args.(map[string]any)["sku"], nil }}
	must(t, registry.Register(tool))
	if err := registry.Register(tool); !errors.Is(err, ErrAlreadyExists) {
		t.Fatal(err)
	}
	refused := 0
	_, err = registry.Use(Middleware{Name: "callers", Run: func(ctx context.Context, call ToolCall, next Next) (any, error) {
		if call.CallerID != "support" {
			return nil, Denied(call.Name, "unknown caller")
		}
		return next(ctx, call.Arguments)
	}, OnRefused: func(context.Context, ToolCall, error) error { refused++; return nil }})
	must(t, err)
	text, err := registry.DispatchJSON(WithCaller(ctx, "support", nil), "lookup", `{"sku":"AB"}`)
	must(t, err)
	if text != `{"result":"AB"}` {
		t.Fatal(text)
	}
	if _, err = registry.Dispatch(ctx, "lookup", map[string]any{}); !errors.Is(err, ErrToolCallDenied) {
		t.Fatal(err)
	}
	subset, err := registry.Subset()
	must(t, err)
	if _, err = subset.Dispatch(ctx, "lookup", nil); !errors.Is(err, ErrToolNotPermitted) || !errors.Is(err, ErrToolNotFound) {
		t.Fatal(err)
	}
	if _, err = registry.DispatchJSON(ctx, "lookup", `{`); refused != 1 || !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err, refused)
	}
}

func TestOneProcessorAndACallbackThatCallsBackIn(t *testing.T) {
	ctx, _ := fresh(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, ctx := range []context.Context{ctx, cancellable(t, ctx)} {
		result, err := Execute(ctx, "outer", 1, func(ctx context.Context, args any) (any, error) {
			return Execute(ctx, "inner", args, echo)
		})
		if must(t, err); result != 1 {
			t.Fatal(result)
		}
	}
}

func TestManyGoroutinesFailAtOnce(t *testing.T) {
	base, _ := fresh(t)
	ctx := cancellable(t, base)
	var group sync.WaitGroup
	for number := range 500 {
		group.Add(1)
		go func() {
			defer group.Done()
			thrown := &failure{number}
			_, err := Execute(ctx, "pay", number, func(context.Context, any) (any, error) { return nil, thrown })
			if err != error(thrown) {
				t.Error(err)
			}
		}()
	}
	group.Wait()
}

func threads(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc")
	}
	_, rest, _ := strings.Cut(string(status), "Threads:")
	line, _, _ := strings.Cut(rest, "\n")
	count, _ := strconv.Atoi(strings.TrimSpace(line))
	return count
}

func TestCALL4TenThousandCallsHoldFewThreads(t *testing.T) {
	if raced {
		t.Skip("the race detector makes each call so slow that threads pile up at the locks between them")
	}
	base, _ := fresh(t)
	ctx := cancellable(t, base)
	must(t, Register(ctx, ToolExecution, "i", Around(passOn)))
	release := make(chan struct{})
	var waiting, done sync.WaitGroup
	const calls = 10_000
	waiting.Add(calls)
	done.Add(calls)
	for range calls {
		go func() {
			defer done.Done()
			_, err := Execute(ctx, "pay", nil, func(context.Context, any) (any, error) {
				waiting.Done()
				<-release
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	waiting.Wait()
	count := threads(t)
	close(release)
	done.Wait()
	if count >= 50 {
		t.Fatalf("%d threads", count)
	}
}

func TestManualCallsEndOnce(t *testing.T) {
	ctx, _ := fresh(t)
	events := make(chan Event, 4)
	must(t, Subscribe(ctx, "s", func(_ context.Context, event Event) error { events <- event; return nil }, nil))
	inside, call, err := StartToolCall(ctx, "pay", 1, ToolCallID("t"))
	must(t, err)
	must(t, Mark(inside, "note", nil))
	must(t, call.End(nil, &failure{1}))
	if err := call.End(nil, nil); !errors.Is(err, ErrAlreadyEnded) {
		t.Fatal(err)
	}
	start, mark, end := <-events, <-events, <-events
	if mark["parent_uuid"] != start["uuid"] || end["metadata"].(map[string]any)["error.type"] != "*callweir.failure" {
		t.Fatal(start, mark, end)
	}
}

func TestREG8RegistriesNestAndEVT11Records(t *testing.T) {
	ctx, _ := fresh(t)
	records := make(chan CallRecord, 4)
	must(t, SubscribeCalls(ctx, "c", func(_ context.Context, record CallRecord) error { records <- record; return nil }, nil))
	var order []string
	around := func(name string) Middleware {
		return Middleware{Name: name, Run: func(ctx context.Context, call ToolCall, next Next) (any, error) {
			order = append(order, name)
			return next(ctx, call.Arguments)
		}}
	}
	inner, err := NewToolRegistry(ctx)
	must(t, err)
	outer, err := NewToolRegistry(ctx)
	must(t, err)
	must(t, inner.Register(Tool{Descriptor: Descriptor{Name: "lookup"}, Run: echo}))
	_, err = inner.Use(around("inner"))
	must(t, err)
	_, err = outer.Use(around("outer"))
	must(t, err)
	must(t, outer.Include(inner))
	_, err = outer.Dispatch(WithCaller(ctx, "support", nil), "lookup", map[string]any{})
	must(t, err)
	if fmt.Sprint(order) != "[outer inner]" {
		t.Fatal(order)
	}
	started, completed := <-records, <-records
	if started.Event != "started" || completed.Outcome != "succeeded" || completed.CallerID != "support" {
		t.Fatal(started, completed)
	}
	entries, err := outer.Explain(ctx, "lookup")
	if must(t, err); len(entries) != 3 {
		t.Fatal(entries)
	}
}

func TestREG2ToolsFromAStruct(t *testing.T) {
	ctx, _ := fresh(t)
	type query struct {
		SKU   string   `json:"sku" doc:"The unit."`
		Count *int     `json:"count"`
		Tags  []string `json:"tags,omitempty"`
	}
	registry, err := NewToolRegistry(ctx)
	must(t, err)
	must(t, RegisterTool(registry, "lookup", "Looks up.", func(_ context.Context, in query) (map[string]any, error) {
		return map[string]any{"sku": in.SKU, "tags": len(in.Tags)}, nil
	}, ReadOnly()))
	text, err := registry.DispatchJSON(ctx, "lookup", `{"sku":"AB","tags":["x"]}`)
	if must(t, err); text != `{"result":{"sku":"AB","tags":1}}` {
		t.Fatal(text)
	}
	for args, path := range map[string]string{`{}`: "$.sku", `{"sku":"AB","nope":1}`: "$.nope", `{"sku":7}`: "$.sku"} {
		_, err = registry.DispatchJSON(ctx, "lookup", args)
		var own *Error
		if !errors.As(err, &own) || !errors.Is(err, ErrInvalidArgument) || own.Fields["path"] != path {
			t.Fatal(args, err)
		}
	}
	manifest, err := registry.Manifest("")
	if must(t, err); !strings.Contains(string(manifest), `"required":["sku"]`) || !strings.Contains(string(manifest), "The unit.") {
		t.Fatal(string(manifest))
	}
	type loop struct{ Next *loop }
	if _, err := NewTool("loop", "", func(context.Context, loop) (any, error) { return nil, nil }); err == nil {
		t.Fatal("a type that contains itself")
	}
}
