"""The tool registry: tools, middleware, subsets, refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from callweir import (
    AlreadyExists,
    Descriptor,
    InvalidArgument,
    Tool,
    ToolCall,
    ToolCallDenied,
    ToolContext,
    ToolNotFound,
    ToolNotPermitted,
    ToolRegistry,
    guardrails,
    tool,
)

from helpers import KINDS, Seen, go, made, run_with


def named(name: str, ran: list[str] | None = None) -> Tool:
    return tool(name=name)(lambda: (ran if ran is not None else []).append(name))


class Layer:
    """A middleware that notes what it sees."""

    def __init__(self, name: str, noted: list[Any], answer: Any = None) -> None:
        self.name, self.noted, self.answer = name, noted, answer

    async def __call__(self, one: ToolCall, next: Any) -> Any:
        self.noted.append(self.name)
        return await self.answer(one, next) if self.answer else await next(one)

    def on_refused(self, one: ToolCall, refusal: Exception) -> None:
        self.noted.append((self.name, one.name, type(refusal).__name__))


def test_c27_per_call_state_on_a_shared_object() -> None:
    class Shared:
        def __init__(self) -> None:
            self.count = 0
            self.read: list[Any] = []

        async def __call__(self, one: ToolCall, next: Any) -> Any:
            self.count += 1
            mine = one.with_context(one.context.with_metadata({"n": one.arguments["n"]}))
            result = await next(mine)
            self.read.append((one.arguments["n"], mine.context.metadata["n"], result))
            return result

    @tool
    async def t(n: int, context: ToolContext) -> Any:
        await asyncio.sleep(0.01 * (2 - n))
        return context.metadata["n"]

    shared = Shared()
    registry = ToolRegistry().register(t).use(shared)
    subset = registry.subset(["t"])

    async def main() -> Any:
        return await asyncio.gather(registry.dispatch("t", {"n": 1}), subset.dispatch("t", {"n": 2}))

    assert go(main) == [1, 2]
    assert sorted(shared.read) == [(1, 1, 1), (2, 2, 2)] and shared.count == 2
    assert registry.middleware()[0] is subset.middleware()[0] is shared


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_c28_holes_in_a_subset(kind: str, seen: Seen) -> None:
    noted: list[Any] = []
    asked: list[Any] = []
    guardrails.register_tool_conditional_execution("g", 0, made(kind, lambda name, _: asked.append(name)))
    parent = ToolRegistry().register(named("a"), named("b"), named("c"))
    parent.use(Layer("one", noted), Layer("two", noted))
    subset = parent.subset(["a", "b"])
    parent.register(named("d")).use(Layer("three", noted))
    assert [line["name"] for line in subset.manifest()] == ["a", "b"]

    async def main() -> None:
        await subset.dispatch("a", {})
        with pytest.raises(ToolNotPermitted) as caught:
            await subset.dispatch("c", {})
        assert caught.value.tool == "c"
        with pytest.raises(ToolNotFound) as missing:
            await subset.dispatch("d", {})
        assert type(missing.value) is ToolNotFound and missing.value.tool == "d"

    go(main)
    assert noted == [
        "one",
        "two",
        ("one", "c", "ToolNotPermitted"),
        ("two", "c", "ToolNotPermitted"),
        ("one", "d", "ToolNotFound"),
        ("two", "d", "ToolNotFound"),
    ]
    assert asked == ["a"]
    refused = [(mark.name, mark.metadata["callweir.mark"], mark.data["reason"]) for mark in seen.flushed().of(None)]
    assert refused == [("c", "refused", "not_permitted"), ("d", "refused", "not_found")]
    with pytest.raises(ToolNotPermitted):
        subset.subset(["a", "c"])
    with pytest.raises(ToolNotFound):
        parent.subset(["nope"])
    assert parent.subset([]).manifest() == []


def test_req_6_a_hook_that_fails_replaces_the_refusal() -> None:
    noted: list[str] = []

    class Fails:
        async def __call__(self, one: Any, next: Any) -> Any:
            return await next(one)

        async def on_refused(self, _one: Any, _refusal: Any) -> Any:
            noted.append("first")
            raise KeyError("hook")

    class Later(Fails):
        def on_refused(self, _one: Any, _refusal: Any) -> Any:  # type: ignore[override]
            noted.append("second")
            return "a result"

    registry = ToolRegistry().use(Fails(), Later())
    with pytest.raises(KeyError, match="hook"):
        go(lambda: registry.dispatch("nope", {}))
    assert noted == ["first"]
    with pytest.raises(ToolNotFound):
        go(lambda: ToolRegistry().use(Later()).dispatch("nope", {}))


def test_c29_two_tools_of_one_name() -> None:
    ran: list[str] = []
    first = Tool(lambda: "first", name="files.read")
    registry = ToolRegistry().register(first)
    for again in (named("files.read", ran), ToolRegistry().register(named("files.read", ran))):
        with pytest.raises(AlreadyExists) as caught:
            registry.register(again)
        assert "files.read" in str(caught.value)
    assert go(lambda: registry.dispatch("files.read", {})) == "first" and not ran
    with pytest.raises(AlreadyExists):
        registry.register(named("x"), named("y"), named("x"))
    with pytest.raises(TypeError):
        registry.register(named("x"), 5)  # type: ignore[arg-type]
    assert [line["name"] for line in registry.manifest()] == ["files.read"]

    clashing = ToolRegistry().register(named("read-file"), named("read_file"), named("read.file"))
    clashes = 0
    for provider in ("openai_chat", "openai_responses", "anthropic", "gemini", "mcp"):
        try:
            clashing.manifest(provider)
        except InvalidArgument as error:
            clashes += 1
            assert all(name in str(error) for name in ("read-file", "read_file", "read.file"))
    assert clashes
    with pytest.raises(InvalidArgument):
        clashing.manifest("nobody")


def test_manifests() -> None:
    @tool(read_only=True, idempotent=True)
    def find(sku: str) -> str:
        """Find one."""
        return sku

    registry = ToolRegistry().register(find)
    for provider in ("openai_chat", "openai_responses", "anthropic", "gemini", "mcp"):
        assert "Find one." in json.dumps(registry.manifest(provider))
    (line,) = registry.manifest()
    assert line["read_only"] is True and line["idempotent"] is True


def test_reg_8_a_registry_inside_another(seen: Seen) -> None:
    noted: list[Any] = []
    inner = ToolRegistry().register(named("a", noted)).use(Layer("inner", noted))
    outer = ToolRegistry().use(Layer("outer", noted)).register(inner)
    go(lambda: outer.dispatch("a", {}))
    assert noted == ["outer", "inner", "a"] and seen.flushed().end("a") and len(seen) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_c93_a_tool_from_a_function(kind: str) -> None:
    def lookup(sku: str, limit: int = 5, tags: list[str] | None = None) -> Any:
        """Find stock."""
        return sku, limit, tags

    if kind == "plain":
        one = tool(lookup)
        (line,) = ToolRegistry().register(one).manifest()
        assert line["name"] == "lookup" and line["description"] == "Find stock."
        schema = line["parameters"]
        assert schema["type"] == "object" and schema["required"] == ["sku"]
        assert list(schema["properties"]) == ["sku", "limit", "tags"]
    else:
        one = Tool(made(kind, lookup), name="lookup", parameters={"type": "object"})
    registry = ToolRegistry().register(one)
    assert go(lambda: registry.dispatch("lookup", {"sku": "AB-12"})) == ("AB-12", 5, None)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({}, "$.sku"), ({"sku": "a", "more": 1}, "$.more"), ('{"sku": "a"', "$"), ([], "$"), ("[]", "$"), (None, "$")],
)
def test_reg_3_arguments_that_do_not_fit(arguments: Any, path: str, seen: Seen) -> None:
    ran: list[Any] = []

    @tool
    def find(sku: str) -> None:
        ran.append(sku)

    registry = ToolRegistry().register(find)
    with pytest.raises(InvalidArgument) as caught:
        go(lambda: registry.dispatch("find", arguments))
    assert caught.value.path == path and not ran
    ends = seen.flushed().of("end", "find")
    assert all(end.outcome == "failed" for end in ends)


@pytest.mark.parametrize("form", ["value", "text"])
def test_c94_what_dispatch_takes_and_gives(form: str, backend: str) -> None:
    got: list[Any] = []
    result = {"r": object()}

    @tool
    async def t(a: list[int], context: ToolContext) -> Any:
        got.append((a, context.caller_id, context.metadata, context.deadline))
        return result

    def later(one: ToolCall, next: Any) -> Any:
        return next(one.with_context(one.context.with_deadline(10)))

    registry = ToolRegistry().register(t).use(later)
    metadata = {"run": 1}
    context = ToolContext(caller_id="me", metadata=metadata, deadline=1)
    arguments: Any = {"a": [1, 2]} if form == "value" else '{"a": [1, 2]}'

    async def main() -> Any:
        return await registry.dispatch("t", arguments, context)

    assert run_with(backend, main) is result
    (a, caller, given, deadline) = got[0]
    assert (a, caller) == ([1, 2], "me") and given is metadata and 0 < deadline <= 1
    plain = ToolRegistry().register(tool(name="p")(lambda: {"ü": (1, "x")}))
    assert go(lambda: plain.dispatch_json("p", "{}")) == '{"result":{"ü":[1,"x"]}}'


@pytest.mark.parametrize("way", ["raised", "returned"])
@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "object"])
def test_c95_a_middleware_refuses(way: str, kind: str, seen: Seen) -> None:
    noted: list[Any] = []
    denial = ToolCallDenied("pay", "over limit")

    async def outer(one: ToolCall, next: Any) -> Any:
        try:
            return await next(one)
        except ToolCallDenied as error:
            noted.append(error)
            if one.arguments:
                return "instead"
            raise

    def refuse(_one: ToolCall, _next: Any) -> Any:
        if way == "raised":
            raise denial
        return denial

    pay = tool(name="pay", parameters={"type": "object"})(lambda **_: noted.append("tool"))
    registry = ToolRegistry().register(pay)
    registry.use(Layer("O", [], outer), made(kind, refuse), Layer("I", noted))
    with pytest.raises(ToolCallDenied) as caught:
        go(lambda: registry.dispatch("pay", {}))
    assert caught.value is denial and (denial.tool, denial.reason) == ("pay", "over limit")
    assert noted == [denial]
    end = seen.flushed().end("pay")
    assert (end.outcome, end.metadata["error.type"]) == ("refused", "denied")
    del seen[:]
    assert go(lambda: registry.dispatch("pay", {"x": 1})) == "instead"
    end = seen.flushed().end("pay")
    assert end.outcome == "succeeded" and end.metadata["callweir.short_circuited"] is True


def test_c96_a_tool_called_directly(seen: Seen) -> None:
    count: list[int] = []

    def deny(one: ToolCall, _next: Any) -> Any:
        count.append(1)
        raise ToolCallDenied(one.name, "no")

    @tool
    def t(a: int, context: ToolContext | None = None) -> Any:
        return a, context is not None

    registry = ToolRegistry().register(t).use(deny)
    assert t.execute_with({"a": 1}) == (1, True) and t(2) == (2, False)
    assert not count and not seen.flushed()
    with pytest.raises(ToolCallDenied):
        go(lambda: registry.dispatch("t", {"a": 1}))
    assert count == [1]


def test_c97_a_middleware_tested_alone(seen: Seen) -> None:
    context = ToolContext(caller_id="me", metadata={"m": 1})
    one = ToolCall("pay", {"a": 1}, context, Descriptor("pay", "Pays.", {"type": "object"}, idempotent=True))
    assert (one.name, one.arguments, one.context.caller_id) == ("pay", {"a": 1}, "me")
    assert one.descriptor is not None and one.descriptor.idempotent
    got: list[Any] = []
    error = ValueError("x")

    async def next(passed: ToolCall) -> Any:
        got.append(passed.arguments)
        if passed.arguments.get("fail"):
            raise error
        return len(got)

    async def changes(call: ToolCall, next: Any) -> Any:
        return await next(call.with_arguments({"b": 2}))

    async def denies(call: ToolCall, next: Any) -> Any:
        raise ToolCallDenied(call.name, "no")

    async def twice(call: ToolCall, next: Any) -> Any:
        return await next(call) + await next(call)

    async def main() -> None:
        assert await changes(one, next) == 1 and got == [{"b": 2}]
        with pytest.raises(ToolCallDenied):
            await denies(one, next)
        assert len(got) == 1
        assert await twice(one, next) == 5
        with pytest.raises(ValueError) as caught:
            await twice(one.with_arguments({"fail": 1}), next)
        assert caught.value is error

    go(main)
    assert not seen.flushed()


def test_reg_4_next_takes_a_call(seen: Seen) -> None:
    async def wrong(_one: ToolCall, next: Any) -> Any:
        return await next({"a": 1})

    async def renamed(one: ToolCall, next: Any) -> Any:
        with pytest.raises(AttributeError):
            one.name = "other"  # type: ignore[misc]
        return await next(ToolCall("other", one.arguments, one.context))

    with pytest.raises(TypeError, match="ToolCall"):
        go(lambda: ToolRegistry().register(named("a")).use(wrong).dispatch("a", {}))
    ran: list[str] = []
    go(lambda: ToolRegistry().register(named("a", ran), named("other", ran)).use(renamed).dispatch("a", {}))
    assert ran == ["a"], "next runs the tool that was resolved"


def test_what_cannot_be_a_middleware_or_tool() -> None:
    with pytest.raises(TypeError):
        ToolRegistry().use(5)
    with pytest.raises(TypeError):
        ToolRegistry().subset("abc")
    assert ToolRegistry().use().middleware() == []
