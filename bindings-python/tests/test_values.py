"""Values: what the tool and the caller get, and what the copies for observers hold."""

from __future__ import annotations

import asyncio
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import json
import math
import types
import uuid
from typing import Any

import pytest
from callweir import (
    Descriptor,
    InvalidArgument,
    NotJson,
    Runtime,
    ToolRegistry,
    guardrails,
    intercepts,
    scope,
    subscribers,
    tool,
    tools,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers import Seen, call, flushed, go, made

NESTED = {"z": 1, "model": "m", "inner": {"y": [{"d": 1, "c": 2}], "b": 2}, "a": 3}


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_c45_key_order(kind: str, seen: Seen) -> None:
    written: list[str] = []
    intercepts.register_tool_request("r", 0, False, made(kind, lambda _, args: args))
    expected = json.dumps(NESTED)
    go(lambda: call("t", json.loads(expected), lambda args: written.append(json.dumps(args)) or args))
    assert written == [expected]
    assert json.dumps(seen.flushed().of("start", "t")[0].data) == expected
    assert json.dumps(seen.end("t").data) == expected
    shown = json.loads(seen.end("t").to_json())["data"]
    assert json.dumps(shown) == expected


@pytest.mark.parametrize("form", ["value", "text"])
def test_c55_numbers(form: str, seen: Seen) -> None:
    text = (
        '{"count": 42, "id": 4611686018427387905, "ratio": 0.5, "u": 18446744073709551615, "i": -9223372036854775808}'
    )
    got: list[Any] = []

    @tool(parameters={"type": "object"})
    def t(**arguments: Any) -> Any:
        got.append(arguments)
        return arguments

    intercepts.register_tool_request("r", 0, False, lambda _, args: args)
    registry = ToolRegistry().register(t)
    result = go(lambda: registry.dispatch("t", text if form == "text" else json.loads(text)))
    assert result is got[0]
    assert json.dumps(result) == text and type(result["ratio"]) is float
    assert json.dumps(seen.flushed().of("start", "t")[0].data) == text
    assert json.loads(seen.end("t").to_json())["data"] == json.loads(text)
    for number in ("4611686018427387905", "18446744073709551615", "-9223372036854775808"):
        assert number in seen.end("t").to_json()


@pytest.mark.parametrize("text", ['{"a": [1, 1e400]}', '{"a": -1e999}'])
def test_a_number_that_python_cannot_hold(text: str) -> None:
    ran: list[Any] = []
    registry = ToolRegistry().register(tool(name="t")(lambda a: ran.append(a)))
    with pytest.raises(InvalidArgument) as caught:
        go(lambda: registry.dispatch("t", text))
    assert caught.value.path in ("$.a[1]", "$.a") and not ran


def looped() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@dataclasses.dataclass
class Item:
    sku: str
    parts: list[Any]


NOT_JSON: dict[str, tuple[Any, str]] = {
    "infinity": ({"a": [1, 2, 3, math.inf]}, "$.a[3]"),
    "nan": ([math.nan], "$[0]"),
    "bytes": ({"b": b"x"}, "$.b"),
    "bytearray": (bytearray(b"x"), "$"),
    "decimal": ([decimal.Decimal("1.5")], "$[0]"),
    "set": ({"s": {1}}, "$.s"),
    "frozenset": (frozenset(), "$"),
    "loop": (looped(), "$[1]"),
    "large": ({"n": 2**64}, "$.n"),
    "small": ({"n": -(2**63) - 1}, "$.n"),
    "function": ({"f": [len]}, "$.f[0]"),
    "object": ([[object()]], "$[0][0]"),
    "complex": (1j, "$"),
    "keys": ({"x": {(1, 2): 1}}, "$.x"),
    "clash": ({1: "a", "1": "b"}, '$["1"]'),
    "in a dataclass": (Item("a", [b"x"]), "$.parts[0]"),
    "odd key": ({"a b": {"ü": b"x"}}, '$["a b"]["ü"]'),
    "exception": (ValueError("x"), "$"),
    "generator": ((n for n in range(3)), "$"),
}


@pytest.mark.parametrize("what", NOT_JSON)
@pytest.mark.parametrize("place", ["result", "arguments"])
def test_c56_values_that_are_not_json(what: str, place: str, seen: Seen) -> None:
    value, path = NOT_JSON[what]
    ran: list[Any] = []

    def work(args: Any) -> Any:
        ran.append(args)
        return value if place == "result" else 1

    result = go(lambda: call("t", value if place == "arguments" else {}, work))
    assert len(ran) == 1
    assert (result if place == "result" else ran[0]) is value
    end, start = seen.flushed().end("t"), seen.of("start", "t")[0]
    broken = end if place == "result" else start
    assert broken.data is None and end.outcome == "succeeded"
    assert broken.metadata["callweir.payload"] == "not_json"
    if what == "clash":
        assert broken.metadata["callweir.not_json_path"] in ('$["1"]', "$.1")
    elif what == "odd key":
        assert broken.metadata["callweir.not_json_path"].startswith('$["a b"]')
    else:
        assert broken.metadata["callweir.not_json_path"] == path
    json.loads(broken.to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("what", NOT_JSON)
def test_c56_nobody_reads_and_nothing_is_noticed(what: str) -> None:
    value = NOT_JSON[what][0]
    assert go(lambda: call("t", {}, lambda _: value)) is value
    assert go(lambda: call("t", value)) is value


def test_c56_deep_values(seen: Seen) -> None:
    for levels, fits in ((500, True), (512, True), (513, False), (100_000, False)):
        value = deep(levels)
        assert go(lambda: call(f"t{levels}", {}, lambda _: value)) is value
        end = seen.flushed().end(f"t{levels}")
        assert (end.data is not None) is fits, levels
        assert end.metadata.get("callweir.payload") == (None if fits else "not_json")
        guarded = go(lambda: guarded_call(value))
        assert guarded == "ok"
        del value


async def guarded_call(value: Any) -> str:
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: None)
    try:
        await call("deep", {"v": value}, lambda _: 1)
    finally:
        guardrails.deregister_tool_conditional_execution("g")
    return "ok"


def test_c56_a_sanitizer_fails_and_the_call_does_not(seen: Seen) -> None:
    asked: list[Any] = []
    guardrails.register_tool_sanitize_response("s", 0, lambda _, value: asked.append(value))
    assert go(lambda: call("t", {}, lambda _: {1})) == {1}
    assert not asked and seen.flushed().end("t").metadata["callweir.payload"] == "not_json"


@pytest.mark.parametrize("place", ["metadata", "mark", "scope"])
def test_c56_what_the_program_gives_for_events_itself(place: str) -> None:
    with pytest.raises(NotJson) as caught:
        if place == "metadata":
            tools.execute("t", {}, len, metadata={"a": [b"x"]})
        elif place == "mark":
            scope.event("m", {"a": [b"x"]})
        else:
            scope.push("s", input={"a": [b"x"]})
    assert caught.value.path == "$.a[0]"
    assert scope.get_handle() is None


LONE = "a\ud800b\udfffc"


@pytest.mark.parametrize("what", ["lone", "pair", "bom", "nul", "large", "key"])
def test_c57_strings_at_the_edges(what: str, seen: Seen) -> None:
    value, copied = {
        "lone": (LONE, "a\ufffdb\ufffdc"),
        "pair": ("\ud83d\ude00", "\ufffd\ufffd"),
        "bom": ("\ufeffx\ufeff", "\ufeffx\ufeff"),
        "nul": ("a\0b", "a\0b"),
        "large": ("ü" * 8_000_000, None),
        "key": ({LONE: 1}, {"a\ufffdb\ufffdc": 1}),
    }[what]
    assert go(lambda: call("t", {"v": value}, lambda args: args["v"])) is value
    shown = seen.flushed().end("t").data
    assert shown == (value if copied is None else copied)
    assert seen.of("start", "t")[0].data == {"v": shown}
    seen.end("t").to_json().encode()


def test_c57_a_lone_surrogate_elsewhere(seen: Seen) -> None:
    def fail(_args: Any) -> None:
        raise ValueError(LONE)

    runtime, events = Runtime(error_text=True), []
    runtime.subscribe("s", events.append)
    with pytest.raises(ValueError) as caught:
        go(lambda: runtime.execute("t", {}, fail))
    assert caught.value.args == (LONE,)
    assert runtime.flush(5) == 0 and "a\ufffdb\ufffdc" in json.dumps(events[-1].to_dict(), ensure_ascii=False)
    runtime.shutdown(5)

    guardrails.register_tool_conditional_execution("g", 0, lambda *_: LONE)
    with pytest.raises(Exception, match="a\ufffdb\ufffdc"):
        go(lambda: call("t"))
    guardrails.deregister_tool_conditional_execution("g")
    registry = ToolRegistry().register(tool(name="t")(lambda a: a))
    for text in ('{"a": "\\ud800"}', '{"a": "\\uD800"}', '{"a": "\ud800"}'):
        assert go(lambda: registry.dispatch("t", text)) == "\ud800"
    assert go(lambda: registry.dispatch("t", '{"a": "\\ud83d\\ude00"}')) == "\U0001f600"
    for text in ('{"a": "\\ud800", "b": 1e400}', '{"a": "\\ud800", "b": NaN}', '{"a": "\\ud800"', '["\\ud800"]'):
        with pytest.raises(InvalidArgument):
            go(lambda: registry.dispatch("t", text))
    scope.event("m", {"v": LONE})
    assert seen.flushed().of(None, "m")[0].data == {"v": "a\ufffdb\ufffdc"}


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_c59_the_caller_keeps_its_arguments(kind: str, seen: Seen) -> None:
    other = Seen("other").subscribe()
    spoiled: list[Any] = []
    subscribers.register("spoils", made(kind, lambda event: spoil(event.data) or spoiled.append(event.name)))

    def spoil(value: Any) -> None:
        if isinstance(value, dict) and "messages" in value:
            value["messages"].append("spoiled")
            value["messages"][0]["role"] = "spoiled"
            value.pop("keep", None)

    def gate(_name: str, args: Any) -> None:
        args["messages"].append("guard")

    def request(_name: str, args: Any) -> Any:
        args["messages"].append("request")
        return args

    def clean(_name: str, args: Any) -> Any:
        spoil(args)
        return args

    guardrails.register_tool_conditional_execution("g", 0, made(kind, gate))
    intercepts.register_tool_request("r", 0, False, made(kind, request))
    guardrails.register_tool_sanitize_request("s", 0, made(kind, clean))
    arguments = {"messages": [{"role": "user"}], "keep": {"t": (1, [2])}}
    before = copy.deepcopy(arguments)
    got: list[Any] = []

    def work(args: Any) -> Any:
        got.append(copy.deepcopy(args))
        args["messages"].append("tool")
        return args

    result = flushed(lambda: call("t", arguments, work))
    assert arguments == before
    expected = [{"role": "user"}, "guard", "request"]
    assert got == [{"messages": expected, "keep": {"t": (1, [2])}}]
    assert result["messages"] == [*expected, "tool"] and result["keep"] == {"t": (1, [2])}
    assert seen.flushed().of("start", "t")[0].data["messages"] == [{"role": "spoiled"}, "guard", "request", "spoiled"]
    end = other.of("end", "t")[0].data
    assert end == {"messages": [*expected, "tool"], "keep": {"t": [1, [2]]}}
    assert spoiled


@pytest.mark.parametrize("only", ["guardrail", "request", "execution", "middleware"])
def test_c59_each_entry_alone_works_on_a_copy(only: str) -> None:
    def edit(args: Any) -> Any:
        args["list"].append(only)
        return args

    def middleware(one: Any, next: Any) -> Any:
        edit(one.arguments)
        return next(one)

    registry = ToolRegistry().register(tool(name="t", parameters={"type": "object"})(lambda **args: args))
    if only == "guardrail":
        guardrails.register_tool_conditional_execution("g", 0, lambda _, args: edit(args) and None)
    elif only == "request":
        intercepts.register_tool_request("r", 0, False, lambda _, args: edit(args))
    elif only == "execution":
        intercepts.register_tool_execution("e", 0, lambda _, args, next: next(edit(args)))
    else:
        registry.use(middleware)
    arguments: dict[str, Any] = {"list": [], "same": object()}
    result = go(lambda: registry.dispatch("t", arguments))
    assert arguments["list"] == [] and result["list"] == [only]
    assert result["same"] is arguments["same"], "what is no container goes by reference"


def test_c59_without_entries_the_tool_gets_the_very_object() -> None:
    arguments = {"a": []}
    assert go(lambda: call("t", arguments)) is arguments


def test_c59_containers_of_other_types() -> None:
    intercepts.register_tool_request("r", 0, False, lambda _, args: args)
    shared = [1]
    Point = collections.namedtuple("Point", "x y")
    arguments = {
        "ordered": collections.OrderedDict(b=1, a=[2]),
        "default": collections.defaultdict(list, k=[1]),
        "point": Point(1, [2]),
        "proxy": types.MappingProxyType({"a": 1}),
        "one": shared,
        "two": shared,
        "loop": looped(),
    }
    result = go(lambda: call("t", arguments))
    assert {key: type(value) for key, value in result.items()} == {key: type(value) for key, value in arguments.items()}
    for key in ("ordered", "default", "point", "proxy", "one"):
        assert result[key] == arguments[key]
    assert result["ordered"] is not arguments["ordered"] and result["ordered"]["a"] is not arguments["ordered"]["a"]
    assert result["default"]["new"] == [] and "new" not in arguments["default"]


class Colour(enum.StrEnum):
    RED = "red"


class Plain:
    def toJSON(self) -> Any:
        return {"from": ["toJSON", 1]}


UTC = datetime.UTC
CONVERTED: dict[str, tuple[Any, Any]] = {
    "tuple": ((1, ("a",)), [1, ["a"]]),
    "named tuple": (collections.namedtuple("P", "x y")(1, 2), [1, 2]),
    "integer key": ({1: "a"}, {"1": "a"}),
    "dataclass": (Item("a", [Item("b", [])]), {"sku": "a", "parts": [{"sku": "b", "parts": []}]}),
    "toJSON": ([Plain()], [{"from": ["toJSON", 1]}]),
    "utc": (datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC), "2024-02-03T04:05:06Z"),
    "offset": (
        datetime.datetime(2024, 2, 3, 4, 5, 6, 7, datetime.timezone(datetime.timedelta(hours=-5))),
        "2024-02-03T04:05:06.000007-05:00",
    ),
    "date": (datetime.date(2024, 2, 3), "2024-02-03"),
    "enum": (Colour.RED, "red"),
    "int enum": (enum.IntEnum("E", {"A": 3}).A, 3),
    "ordered": (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "bool": ([True, None, 0.1, 1e100, -0.0], [True, None, 0.1, 1e100, -0.0]),
    "str subclass": (type("S", (str,), {})("x"), "x"),
}


@pytest.mark.parametrize("what", CONVERTED)
def test_c101_values_that_are_converted(what: str, seen: Seen) -> None:
    value, expected = CONVERTED[what]
    assert go(lambda: call("t", {}, lambda _: value)) is value
    end = seen.flushed().end("t")
    assert json.dumps(end.data) == json.dumps(expected)
    scope.event("m", {"v": value})
    assert seen.flushed().of(None, "m")[0].data == {"v": expected}


def test_c101_pydantic(seen: Seen) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):
        sku: str
        when: datetime.date
        more: list[Any] = []

    order = Order(sku="a", when=datetime.date(2024, 2, 3), more=[(1,)])
    assert go(lambda: call("t", {}, lambda _: order)) is order
    assert seen.flushed().end("t").data == {"sku": "a", "when": "2024-02-03", "more": [[1]]}


def test_c101_a_naive_time_gets_an_offset(seen: Seen) -> None:
    go(lambda: call("t", {}, lambda _: datetime.datetime(2024, 2, 3, 4, 5, 6)))
    shown = datetime.datetime.fromisoformat(seen.flushed().end("t").data)
    assert shown.tzinfo is not None and shown.replace(tzinfo=None) == datetime.datetime(2024, 2, 3, 4, 5, 6)


def test_c101_the_converter_of_a_runtime() -> None:
    def results(default: Any) -> list[Any]:
        runtime, events = Runtime(default=default), []
        runtime.subscribe("s", events.append)
        value = {"v": {3}}
        assert go(lambda: runtime.execute("t", {}, lambda _: value)) is value
        assert runtime.flush(5) == 0
        runtime.shutdown(5)
        return [events[-1].data, events[-1].metadata.get("callweir.payload")]

    def fail(_value: Any) -> Any:
        raise ValueError("card 5500")

    assert results(None) == [None, "not_json"]
    assert results(sorted) == [{"v": [3]}, None]
    assert results(lambda value: {"nested": tuple(value), "id": uuid.UUID(int=0).hex}) == [
        {"v": {"nested": [3], "id": "0" * 32}},
        None,
    ]
    assert results(fail) == [None, "not_json"]
    assert results(lambda value: value) == [None, "not_json"]
    assert results(lambda value: [value]) == [None, "not_json"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_copies_are_exact(value: Any, seen: Seen) -> None:
    del seen[:]
    assert go(lambda: call("t", {"v": value}, lambda args: args["v"])) is value
    end = seen.flushed().end("t")
    assert json.dumps(end.data) == json.dumps(value)
    assert json.dumps(json.loads(end.to_json())["data"]) == json.dumps(value)
    assert json.dumps(end.to_dict()["data"]) == json.dumps(value)


def test_the_start_shows_the_arguments_as_they_were(seen: Seen) -> None:
    async def work(args: Any) -> Any:
        args["later"] = 1
        await asyncio.sleep(0)
        return args

    go(lambda: call("t", {"a": 1}, work))
    assert seen.flushed().of("start", "t")[0].data == {"a": 1}
    assert seen.end("t").data == {"a": 1, "later": 1}


def test_what_an_event_gives_is_its_subscriber_s_own(seen: Seen) -> None:
    other = Seen("other").subscribe()
    go(lambda: call("t", {"a": [1]}))
    first, second = seen.flushed().end("t"), other.flushed().end("t")
    first.data["a"].append(2)
    assert first.data["a"] == [1, 2] and second.data == {"a": [1]}
    assert first.to_dict()["data"] == {"a": [1]}


def test_descriptor_parameters_are_json() -> None:
    with pytest.raises(NotJson):
        Descriptor("t", "", {"default": {1}})
