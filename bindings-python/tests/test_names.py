"""Names: those that the contract lists exist with those arguments, and name the same entries."""

from __future__ import annotations

import inspect
from typing import Any

import callweir
import pytest
from callweir import AlreadyExists, Runtime, guardrails, intercepts, scope, subscribers, tools

PAIRS: dict[str, tuple[Any, Any]] = {}
for _subject, _families in {
    "tool": ["conditional_execution", "sanitize_request", "sanitize_response"],
    "llm": ["conditional_execution", "sanitize_request", "sanitize_response"],
    "mark": ["sanitize"],
    "scope": ["sanitize_start", "sanitize_end"],
}.items():
    for _family in _families:
        _name = f"{_subject}_{_family}"
        PAIRS[f"{_subject}.{_family}"] = (
            getattr(guardrails, f"register_{_name}"),
            getattr(guardrails, f"deregister_{_name}"),
        )
for _name in ("tool_request", "tool_execution", "llm_request", "llm_execution", "llm_stream_execution"):
    PAIRS[_name.replace("_", ".", 1)] = (
        getattr(intercepts, f"register_{_name}"),
        getattr(intercepts, f"deregister_{_name}"),
    )


def fn(*_: Any) -> None: ...


@pytest.mark.parametrize("family", PAIRS)
def test_c79_every_family(family: str) -> None:
    register, deregister = PAIRS[family]
    runtime = Runtime.default()
    breaks = (False,) if family.endswith(".request") else ()
    register("n", 3, *breaks, fn)
    (line,) = [line for line in callweir.registrations() if line["stage"] == family]
    assert (line["name"], line["priority"], line["level"]) == ("n", 3, "global")
    with pytest.raises(AlreadyExists):
        runtime.register(family, "n", fn)
    with pytest.raises(AlreadyExists):
        register("n", 0, *breaks, fn)
    assert deregister("n") is True and deregister("n") is False
    runtime.register(family, "n", fn, priority=1)
    with pytest.raises(AlreadyExists):
        register("n", 0, *breaks, fn)
    assert runtime.deregister(family, "n") is True
    with scope.scope("S") as handle:
        register("n", 0, *breaks, fn, scope=handle)
        register("n", 0, *breaks, fn)
        assert deregister("n", scope=handle) is True
    assert deregister("n") is True
    assert not callweir.registrations()


SIGNATURES: dict[Any, str] = {
    tools.execute: "name, args, func, *, metadata, tool_call_id, cancellation",
    tools.call: "name, args, *",
    tools.call_end: "handle, result, *, error, outcome",
    tools.conditional_execution: "name, args",
    tools.request_intercepts: "name, args",
    subscribers.register: "name, fn, *, scope, inline",
    subscribers.register_calls: "name, fn",
    subscribers.deregister: "name",
    subscribers.flush: "timeout",
    subscribers.flush_async: "timeout",
    scope.scope: "name, type, *, input, metadata",
    callweir.ToolRegistry.register: "self",
    callweir.ToolRegistry.use: "self",
    callweir.ToolRegistry.subset: "self, names",
    callweir.ToolRegistry.dispatch: "self, name, arguments, context",
    callweir.ToolRegistry.manifest: "self, provider",
    callweir.ToolContext: "caller_id, metadata, cancellation, deadline",
    callweir.tool: "name, description, *, read_only, idempotent, blocking",
    callweir.configure: "*, default, queue_events, queue_bytes, sanitizer_timeout, credential_headers, error_text",
    Runtime: "*, default, queue_events, queue_bytes, sanitizer_timeout, credential_headers, error_text",
    callweir.shutdown: "timeout",
    callweir.explain: "kind, name",
    callweir.registrations: "",
    callweir.propagation: "",
    callweir.attach: "value",
    callweir.for_model: "error",
    callweir.current_call: "",
    callweir.export.jsonl: "path",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_c79_signatures(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    only_by_name = False
    position = 0
    for name in filter(None, SIGNATURES[function].split(", ")):
        if name == "*":
            only_by_name = True
            continue
        assert name in parameters, name
        if only_by_name:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        else:
            assert list(parameters)[position] == name
            position += 1


def test_c79_everything_public_exists() -> None:
    listed = """Cancellation Descriptor Event ManualCall Next Runtime ScopeHandle ScopeType Tool ToolCall ToolContext
        ToolCallCompleted ToolCallStarted ToolRegistry Verdict attach configure current_call errors explain export
        for_model guardrails intercepts propagation registrations scope shutdown subscribers tool tools"""
    for name in listed.split():
        assert hasattr(callweir, name), name
    for name in "push pop event get_handle scope ScopeType".split():
        assert hasattr(scope, name), name
    for name in "name arguments context descriptor with_arguments with_context with_cancellation".split():
        assert hasattr(callweir.ToolCall, name), name
    for module in (guardrails, intercepts, scope, subscribers, tools, callweir.export):
        for name in module.__all__:
            assert getattr(module, name).__doc__, name
    public = {value for name, value in vars(scope.ScopeType).items() if not name.startswith("_")}
    assert len(public) == 11


@pytest.mark.parametrize("kind", sorted({v for n, v in vars(scope.ScopeType).items() if not n.startswith("_")}))
def test_every_type_of_scope(kind: str, seen: Any) -> None:
    with scope.scope("S", kind, input=1, metadata={"m": 1}, attributes=["parallel", "stateful"]):
        pass
    start, end = seen.flushed()
    assert (start.category, start.data, start.metadata["m"]) == (kind, 1, 1)
    assert end.attributes == start.attributes == ["parallel", "stateful"]


def test_explain_lists_what_runs() -> None:
    guardrails.register_tool_conditional_execution("b", 0, fn)
    guardrails.register_tool_conditional_execution("a", 0, fn)
    with scope.scope("S") as handle:
        guardrails.register_tool_conditional_execution("a", 0, fn, scope=handle)
        inside = [(line["name"], line["level"]) for line in callweir.explain("tool", "t")]
    outside = [(line["name"], line["level"]) for line in callweir.explain("tool", "t")]
    assert inside == [("a", "global"), ("a", "scope"), ("b", "global")]
    assert outside == [("a", "global"), ("b", "global")]


def test_configure_changes_what_is_given() -> None:
    runtime = Runtime.default()
    callweir.configure(error_text=False, credential_headers=("x-mine",))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        callweir.configure(queue_events=-1)
    with pytest.raises((TypeError, ValueError)):
        callweir.configure(sanitizer_timeout=-1)
    assert runtime is Runtime.default()
    callweir.configure(credential_headers=())
