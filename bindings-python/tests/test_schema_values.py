# SPDX-License-Identifier: Apache-2.0
"""Tools defined by Python functions: callables, binding and conversion."""

import asyncio
import functools
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Optional,
)
from uuid import UUID

import pytest
from callweir import _schema

from schema_types import (
    INTEGER,
    Address,
    Awkward,
    Box,
    Cat,
    Color,
    Dog,
    Item,
    Kept,
    Level,
    Movie,
    Node,
    Person,
    Point,
    Sku,
    Strict,
    ToolContext,
    Tree,
    convert,
    schema_of,
)


class Finder:
    """Finds things."""

    def method(self, sku: str):
        """By method."""
        return sku

    def __call__(self, sku: str, *, count: int = 1):
        return sku, count


class DocumentedFinder(Finder):
    def __call__(self, sku: "Sku"):  # type: ignore[override]
        """Find one."""
        return sku


def base(db: Callable[..., Any], sku: str, limit: int = 3):
    """Base."""
    return db, sku, limit


@functools.wraps(base)
def wrapped(*args: Any, **kwargs: Any):
    return base(*args, **kwargs)


@functools.lru_cache
def cached(sku: Sku):
    """Cached."""
    return sku


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (Finder(), ("Finder", "Finds things.", ["sku", "count"])),
        (DocumentedFinder(), ("DocumentedFinder", "Find one.", ["sku"])),
        (Finder().method, ("method", "By method.", ["sku"])),
        (functools.partial(base, print), ("base", "Base.", ["sku", "limit"])),
        (functools.partial(base, db=print), ("base", "Base.", ["sku", "limit"])),
        (functools.partial(functools.partial(wrapped, print), limit=4), ("base", "Base.", ["sku"])),
        (functools.partial(Finder(), count=2), ("Finder", "Finds things.", ["sku"])),
        (cached, ("cached", "Cached.", ["sku"])),
        (Item, ("Item", "One line of an order.", ["sku", "when", "tags"])),
    ],
)
def test_callables(func, expected):
    signature = _schema.describe(func)
    assert (signature.name, signature.description, list(signature.schema["properties"])) == expected


def test_a_caller_cannot_replace_what_a_partial_binds():
    def tool(sku: str, when: date = date.min, **rest: Any):
        return sku, when, rest

    func = functools.partial(functools.partial(tool, tenant="own", user=1), user=2, when=date.max)
    signature = _schema.describe(func)
    assert list(signature.schema["properties"]) == ["sku"] and signature.schema["additionalProperties"] is True
    for name in ("tenant", "user", "when"):
        with pytest.raises(_schema.ArgumentError, match=r"^\$\.\w+: is an unexpected argument$") as caught:
            signature.bind({"sku": "A", name: None}, None)
        assert caught.value.path == f"$.{name}"
    bound = signature.bind({"sku": "A", "other": 3}, None)
    assert func(**bound) == ("A", date.max, {"tenant": "own", "user": 2, "other": 3})


def test_a_caller_cannot_replace_a_context_that_a_partial_binds():
    def tool(ctx: ToolContext, **rest: Any):
        return ctx, rest

    signature = _schema.describe(functools.partial(tool, ctx=ToolContext()))
    assert signature.context_parameter is None
    with pytest.raises(_schema.ArgumentError, match=r"^\$\.ctx: "):
        signature.bind({"ctx": "forged"}, ToolContext())


MOMENT = datetime(2024, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
NAME = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (datetime, "2024-02-03T04:05:06Z", MOMENT),
        (date, "2024-02-03", date(2024, 2, 3)),
        (time, "04:05", time(4, 5)),
        (UUID, str(NAME), NAME),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (Color, "red", Color.RED),
        (Level, 2, Level.HIGH),
        (Literal[Color.RED, "x"], "red", Color.RED),
        (Literal[Color.RED, "x"], "x", "x"),
        (set[int], [1, 1, 2], {1, 2}),
        (frozenset[Color], ["red"], frozenset({Color.RED})),
        (tuple[date, ...], ["2024-02-03"], (date(2024, 2, 3),)),
        (tuple[int, Color], [1, "blue"], (1, Color.BLUE)),
        (tuple, [1, [2]], (1, [2])),
        (list[Color], ["red", "blue"], [Color.RED, Color.BLUE]),
        (dict[str, list[Color]], {"a": ["red"]}, {"a": [Color.RED]}),
        (Optional[date], "2024-02-03", date(2024, 2, 3)),
        (Optional[date], None, None),
        (Annotated[date, "when"], "2024-02-03", date(2024, 2, 3)),
        (str | date, "2024-02-03", "2024-02-03"),
        (int | date, "2024-02-03", date(2024, 2, 3)),
        (date | datetime, "2024-02-03T04:05:06Z", MOMENT),
        (list[str] | list[Item], [{"sku": "A"}], [Item("A")]),
        (dict[str, int] | Item, {"sku": "A"}, Item("A")),
        (dict[str, str] | Item, {"sku": "A"}, {"sku": "A"}),
        (Cat | Dog, {"kind": "dog", "born": "2024-02-03"}, Dog("dog", date(2024, 2, 3))),
        (Item, {"sku": "A", "when": "2024-02-03T04:05:06+00:00"}, Item("A", MOMENT)),
        (Point, {"x": 1, "at": "2024-02-03T04:05:06Z"}, Point(1, MOMENT)),
        (Movie, {"title": "M", "seen": "2024-02-03"}, {"title": "M", "seen": date(2024, 2, 3)}),
        (Address, {"city": "B", "since": "2024-02-03"}, Address(city="B", since=date(2024, 2, 3))),
        (Optional[list[Address]], [{"city": "B"}], [Address(city="B")]),
        (Address | Person, {"city": "B"}, Address(city="B")),
        (Awkward, {"path": "a", "cls": "b", "make": ["red"]}, Awkward("a", "b", [Color.RED])),
    ],
)
def test_json_becomes_what_the_annotation_says(annotation, value, expected):
    found = convert(annotation, value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (datetime, MOMENT),
        (date, MOMENT),
        (Color, Color.RED),
        (Level, Level.LOW),
        (Item, Item("A")),
        (Point, Point(1, MOMENT)),
        (Address, Address(city="B")),
        (list[datetime], [MOMENT]),
        (dict[str, Color], {"a": Color.RED}),
        (Movie, {"title": "M"}),
        (set[int], {1}),
        (tuple[int, ...], (1,)),
        (list[Color], (Color.RED,)),
        (list[str] | date, object()),
        (Item, object()),
        (list[str], {"not": "checked here"}),
        (Any, {"a": 1}),
    ],
)
def test_what_already_is_right_passes_as_the_same_object(annotation, value):
    assert convert(annotation, value) is value


def test_conversion_leaves_the_argument_alone():
    value = {"sku": "A", "when": "2024-02-03T04:05:06Z"}
    values = [value]
    convert(list[Item], values)
    assert values == [{"sku": "A", "when": "2024-02-03T04:05:06Z"}] and values[0] is value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "message"),
    [
        (datetime, "soon", "$.value", "not a valid datetime: Invalid isoformat string: 'soon'"),
        (datetime, 5, "$.value", "expected a string, got integer"),
        (datetime, None, "$.value", "expected a string, got null"),
        (date, {}, "$.value", "expected a string, got object"),
        (UUID, "x", "$.value", "not a valid UUID: badly formed"),
        (Decimal, "x", "$.value", "not a valid Decimal: "),
        (Decimal, True, "$.value", "expected a string or number, got boolean"),
        (Color, "green", "$.value", "expected one of 'red', 'blue'; got 'green'"),
        (Color, {"a": 1}, "$.value", "expected one of 'red', 'blue'; got {'a': 1}"),
        (Literal[Color.RED], [], "$.value", "expected one of 'red'; got []"),
        (list[Color], ["red", "x"], "$.value[1]", "expected one of"),
        (list[Color], "red", "$.value", "expected an array, got string"),
        (dict[str, Color], {"a b": "x"}, '$.value["a b"]', "expected one of"),
        (dict[str, Color], [], "$.value", "expected an object, got array"),
        (set[Any], [[]], "$.value", "not a valid set: "),
        (tuple[int, str], [1], "$.value", "expected 2 items, got 1"),
        (tuple[int, Color], [1, "x"], "$.value[1]", "expected one of"),
        (Item, {}, "$.value.sku", "Item needs this field"),
        (Item, {"sku": "A", "x": 1}, "$.value.x", "Item has no such field"),
        (Item, {"sku": "A", "when": "x"}, "$.value.when", "not a valid datetime"),
        (list[Item], [{"sku": "A"}, {}], "$.value[1].sku", "Item needs this field"),
        (Strict, {"amount": -1}, "$.value", "not a valid Strict: amount is negative"),
        (Point, {"x": 1, "at": "x"}, "$.value.at", "not a valid datetime"),
        (Movie, {"title": "M", "seen": "x"}, "$.value.seen", "not a valid date"),
        (Address, {}, "$.value.city", "Field required"),
        (Address, "x", "$.value", "Input should be a valid dictionary"),
        (Person, {"fullName": "A", "addresses": [{}]}, "$.value.addresses[0].city", "Field required"),
        (Kept, {"home": {"city": 5}}, "$.value.home.city", "Input should be a valid string"),
        (Kept, {"home": {"city": "B"}, "checked": -1}, "$.value", "below zero"),
        (dict[str, Color], {(1, 2): "x"}, '$.value["(1, 2)"]', "expected one of"),
        (Optional[date], "x", "$.value", "not a valid date"),
        (Cat | Dog, {"kind": "dog", "born": "x"}, "$.value.born", "not a valid date"),
        (date | time, "x", "$.value", "fits none: $.value: not a valid date"),
    ],
)
def test_a_conversion_that_fails_names_the_path(annotation, value, path, message):
    with pytest.raises(_schema.ArgumentError, match=f"^{re.escape(path)}: ") as caught:
        convert(annotation, value)
    assert isinstance(caught.value, ValueError) and caught.value.path == path
    assert message in caught.value.message


def test_bind_takes_what_is_there():
    def tool(when: date, sku: str):
        return when, sku

    signature = _schema.describe(tool)
    arguments = {"unexpected": 1}
    assert signature.bind(arguments, None) == {"unexpected": 1}
    assert signature.bind(arguments, None) is not arguments
    assert list(signature.converters) == ["when"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type aliases and type parameters are Python 3.12 syntax")
def test_type_aliases_and_type_parameters():
    names: dict[str, Any] = {"date": date}
    exec(
        "type Json = str | list[Json] | dict[str, Json]\n"
        "type Pair[T] = tuple[T, T]\n"
        "def tool[N: int](a: Json, b: Pair[date], c: 'N'): ...\n",
        names,
    )
    signature = _schema.describe(names["tool"])
    assert signature.schema["properties"]["a"] == {"$ref": "#/$defs/Json"}
    assert signature.schema["properties"]["c"] == INTEGER
    arguments = {"a": {"x": ["y"]}, "b": ["2024-02-03", "2024-02-04"]}
    bound = signature.bind(arguments, None)
    assert bound["a"] is arguments["a"] and bound["b"] == (date(2024, 2, 3), date(2024, 2, 4))


async def coroutine(x: int):
    return x


@functools.wraps(coroutine)
def plain_wrapper(x: int):
    return x


@functools.wraps(base)
async def async_wrapper():
    return None


class Async:
    async def __call__(self):
        return None

    async def method(self):
        return None


async def generator():
    yield 1


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (coroutine, True),
        (functools.partial(coroutine, 1), True),
        (functools.partial(functools.partial(coroutine), 1), True),
        (Async(), True),
        (functools.partial(Async()), True),
        (Async().method, True),
        (async_wrapper, True),
        (asyncio.sleep, True),
        (plain_wrapper, False),
        (base, False),
        (Finder(), False),
        (Async, False),
        (generator, False),
        (lambda: coroutine(1), False),
        (len, False),
    ],
)
def test_is_async(func, expected):
    assert _schema.is_async(func) is expected


def test_importing_loads_nothing_heavy():
    package = Path(_schema.__file__).parent
    code = (
        "import importlib, sys, types\n"
        "before = set(sys.modules)\n"
        f"parent = types.ModuleType('parent'); parent.__path__ = [{str(package.parent)!r}]\n"
        "sys.modules['parent'] = parent\n"
        "importlib.import_module('parent._schema')\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    # Without `site`, whose path files may load anything.
    run = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {"parent._schema", "typing"} <= loaded
    assert not loaded & {"dataclasses", "datetime", "decimal", "inspect", "json", "uuid"}


def test_schemas_are_valid_for_the_defaults_and_meta_schema():
    jsonschema = pytest.importorskip("jsonschema")
    for annotation in (Item, Node, Point, Movie, Person, Tree, Cat | Dog, tuple[int, Color], Box[int]):
        jsonschema.Draft202012Validator.check_schema(schema_of(annotation))
