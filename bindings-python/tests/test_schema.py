# SPDX-License-Identifier: Apache-2.0
"""Tools defined by Python functions: schema, descriptions, binding, and what is refused."""

import asyncio
import collections
import dataclasses
import enum
import functools
import json
import math
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pytest
from callweir import _schema

pydantic = pytest.importorskip("pydantic")

T = TypeVar("T")
Number = TypeVar("Number", bound=int)
Choice = TypeVar("Choice", int, str)
Sku = NewType("Sku", str)


class ToolContext:
    """Stands for the door's class, which is found by its name."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Item:
    """One line of an order.

    Args:
        sku: What is ordered.
    """

    sku: str
    when: datetime | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    value: int
    children: list["Node"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: "list[T] | None" = None


@dataclasses.dataclass
class Cat:
    kind: Literal["cat"]
    born: date


@dataclasses.dataclass
class Dog:
    kind: Literal["dog"]
    born: date


@dataclasses.dataclass
class Strict:
    amount: int

    def __post_init__(self):
        if self.amount < 0:
            raise ValueError("amount is negative")


@dataclasses.dataclass
class Awkward:
    path: str
    cls: str
    make: list[Color]


class Point(NamedTuple):
    x: int
    at: datetime
    label: str = "here"


class Movie(TypedDict, total=False):
    title: Required[str]
    year: int
    seen: date


class Book(TypedDict):
    title: str
    year: NotRequired[int]


class Address(pydantic.BaseModel):
    city: str
    since: date | None = None


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    addresses: list[Address]


class Kept(pydantic.BaseModel):
    home: Address | Person
    checked: int = 0

    @pydantic.field_validator("checked")
    @classmethod
    def check(cls, value: int) -> int:
        if value < 0:
            raise RuntimeError("below zero")
        return value


class Tree(pydantic.BaseModel):
    left: Optional["Tree"] = None


def schema_of(annotation, **default):
    def tool(value):
        raise AssertionError("only described")

    tool.__annotations__["value"] = annotation
    if default:
        tool.__defaults__ = (default["default"],)
    return _schema.describe(tool).schema


def property_of(annotation, **default):
    return schema_of(annotation, **default)["properties"]["value"]


def convert(annotation, value):
    def tool(value):
        raise AssertionError("only described")

    tool.__annotations__["value"] = annotation
    return _schema.describe(tool).bind({"value": value}, None)["value"]


def test_c93_a_tool_from_a_function():
    def lookup(sku: str, limit: int = 5, tags: list[str] | None = None):
        """Find stock.

        More text.
        """
        return sku, limit, tags

    signature = _schema.describe(lookup)
    assert (signature.name, signature.description) == ("lookup", "Find stock.")
    assert signature.schema == {
        "type": "object",
        "properties": {
            "sku": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
        },
        "required": ["sku"],
        "additionalProperties": False,
    }
    assert list(signature.schema["properties"]) == ["sku", "limit", "tags"]
    assert not signature.converters and signature.context_parameter is None
    assert lookup(**signature.bind({"sku": "AB-12"}, None)) == ("AB-12", 5, None)


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (typing.List, {"type": "array"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (Sequence[str], {"type": "array", "items": STRING}),
        (typing.Sequence[str], {"type": "array", "items": STRING}),
        (Iterable[list[int]], {"type": "array", "items": {"type": "array", "items": INTEGER}}),
        (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
        (frozenset, {"type": "array", "uniqueItems": True}),
        (tuple, {"type": "array"}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Mapping[Sku, int], {"type": "object", "additionalProperties": INTEGER}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (Literal[Color.RED], {"type": "string", "enum": ["red"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),
        (int | str | None, {"anyOf": [INTEGER, STRING, NULL]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, pydantic.Field(description="how many")], {"type": "integer", "description": "how many"}),
        (Annotated[int, ["unhashable"]], INTEGER),
        (list[Annotated[str, "a tag"]], {"type": "array", "items": {"type": "string", "description": "a tag"}}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Decimal, STRING),
        (Sku, STRING),
        (T, {}),
        (Number, INTEGER),
        (Choice, {"anyOf": [INTEGER, STRING]}),
        ("list['Sku']", {"type": "array", "items": STRING}),
    ],
)
def test_types(annotation, expected):
    found = property_of(annotation)
    assert found == expected
    json.dumps(found)


def test_no_annotation_is_anything():
    def tool(value, other=3):
        return value, other

    assert _schema.describe(tool).schema["properties"] == {"value": {}, "other": {"default": 3}}


def test_typed_dict():
    assert property_of(Movie) == {
        "type": "object",
        "properties": {"title": STRING, "year": INTEGER, "seen": {"type": "string", "format": "date"}},
        "additionalProperties": False,
        "required": ["title"],
    }
    assert property_of(Book)["required"] == ["title"]


def test_typed_dict_qualifiers_written_as_text():
    late = TypedDict("late", {"a": "NotRequired[int]", "b": "str"})
    assert property_of(late)["required"] == ["b"]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="ReadOnly is new in Python 3.13")
def test_typed_dict_read_only():
    frozen = TypedDict("frozen", {"a": typing.ReadOnly[int], "b": typing.ReadOnly[NotRequired[int]]})
    assert property_of(frozen)["required"] == ["a"]


def test_dataclass():
    assert property_of(Item) == {
        "type": "object",
        "description": "One line of an order.",
        "properties": {
            "sku": {"type": "string", "description": "What is ordered."},
            "when": {"anyOf": [{"type": "string", "format": "date-time"}, NULL], "default": None},
            "tags": {"type": "array", "items": STRING},
        },
        "additionalProperties": False,
        "required": ["sku"],
    }


def test_dataclass_special_fields():
    @dataclasses.dataclass
    class Special:
        seed: dataclasses.InitVar[int]
        kind: typing.ClassVar[str] = "x"
        made: int = dataclasses.field(init=False, default=0)
        last: str = dataclasses.field(kw_only=True)

        def __post_init__(self, seed):
            self.made = seed

    assert list(property_of(Special)["properties"]) == ["seed", "last"]
    assert convert(Special, {"seed": 4, "last": "z"}).made == 4


def test_named_tuple():
    found = property_of(Point)
    assert found["required"] == ["x", "at"] and found["properties"]["label"] == {"type": "string", "default": "here"}
    assert "description" not in found
    bare = collections.namedtuple("bare", "a b")
    assert property_of(bare)["properties"] == {"a": {}, "b": {}}


def test_generic_dataclass():
    assert property_of(Box[int])["properties"] == {
        "content": INTEGER,
        "more": {"anyOf": [{"type": "array", "items": INTEGER}, NULL], "default": None},
    }
    assert convert(Box[date], {"content": "2024-02-03"}) == Box(date(2024, 2, 3))


def test_recursive_dataclass():
    found = schema_of(list[Node])
    assert found["properties"]["value"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    assert found["$defs"]["Node"]["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    assert convert(Node, {"value": 1, "children": [{"value": 2}]}) == Node(1, [Node(2)])
    with pytest.raises(_schema.ArgumentError, match=r"^\$\.value\.children\[0\]\.nope: Node has no such field$"):
        convert(Node, {"value": 1, "children": [{"value": 2, "nope": 3}]})


def test_recursive_dataclasses_of_one_name():
    def make():
        @dataclasses.dataclass
        class Node:
            next: "Node | None" = None

        return Node

    first, second = make(), make()

    def tool(a, b, c):
        return a, b, c

    tool.__annotations__.update(a=first, b=second, c=Tree)
    schema = _schema.describe(tool).schema
    assert [schema["properties"][each]["$ref"] for each in "abc"] == ["#/$defs/Node", "#/$defs/Node_2", "#/$defs/Tree"]
    assert schema["$defs"]["Node_2"]["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Node_2"}


def test_deep_nesting_is_an_argument_error():
    value: dict[str, Any] = {"value": 0}
    for _ in range(5000):
        value = {"value": 0, "children": [value]}
    with pytest.raises(_schema.ArgumentError, match=r"^\$\.value: is nested too deeply$"):
        convert(Node, value)


def test_pydantic_schema_and_definitions():
    found = schema_of(Person)
    assert found["properties"]["value"]["required"] == ["fullName", "addresses"]
    assert found["properties"]["value"]["properties"]["addresses"]["items"] == {"$ref": "#/$defs/Address"}
    assert set(found["$defs"]) == {"Address"}
    assert schema_of(Tree)["properties"]["value"] == {"$ref": "#/$defs/Tree"}


def test_pydantic_definitions_of_one_name_are_kept_apart():
    def make(kind):
        inner = pydantic.create_model("Inner", x=(kind, ...))
        return pydantic.create_model("Outer", inner=(inner, ...))

    def tool(a, b):
        return a, b

    tool.__annotations__.update(a=make(int), b=make(str))
    schema = _schema.describe(tool).schema
    first, second = (schema["properties"][each]["properties"]["inner"]["$ref"] for each in "ab")
    assert (first, second) == ("#/$defs/Inner", "#/$defs/Inner_2")
    assert schema["$defs"]["Inner_2"]["properties"]["x"]["type"] == "string"


def test_pydantic_model_without_a_schema():
    class Odd(pydantic.BaseModel):
        call: Callable[[], int]

    with pytest.raises(TypeError, match=r"^tool 'tool', parameter 'value': Odd has no JSON Schema: "):
        property_of(Odd)


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (int, 3, 3),
        (float, 3, 3),
        (Color, Color.RED, "red"),
        (Level, Level.LOW, 1),
        (tuple[int, ...], (1, 2), [1, 2]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Any, None, None),
    ],
)
def test_defaults(annotation, default, expected):
    found = property_of(annotation, default=default)
    assert found["default"] == expected
    assert "required" not in schema_of(annotation, default=default)


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(float, math.inf), (Any, {1}), (Any, object()), (datetime, datetime(2024, 1, 1)), (int, 2**64), (int, "five")],
)
def test_defaults_that_are_not_json_are_left_out(annotation, default):
    assert "default" not in property_of(annotation, default=default)
    assert "required" not in schema_of(annotation, default=default)


def test_a_default_is_copied():
    default = {"a": [1]}
    found = property_of(Any, default=default)
    default["a"].append(2)
    assert found["default"] == {"a": [1]}


def test_a_none_default_makes_the_parameter_nullable():
    def tool(when: date = None):  # type: ignore[assignment]
        return when

    signature = _schema.describe(tool)
    assert signature.schema["properties"]["when"] == {
        "anyOf": [{"type": "string", "format": "date"}, NULL],
        "default": None,
    }
    assert signature.bind({"when": None}, None) == {"when": None}


GOOGLE = """Search.

Args:
    query (dict[str, Callable[[int], str]], optional): What to find: words,
        or a phrase.
    *limit: How many.

Returns:
    other: not a parameter
"""
NUMPY = """Search.

Parameters
----------
query : str, optional
    What to find: words,
    or a phrase.
limit, offset : int
    How many.

Returns
-------
other : str
    not a parameter
"""
REST = """Search.
:param str query: What to find: words,
    or a phrase.
:type query: str
:param limit: How many.
:returns: not a parameter
"""


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_descriptions_in_docstrings(doc):
    def tool(query: str, limit: int = 1, other: Annotated[int, "mine"] = 2):
        return query, limit, other

    tool.__doc__ = doc
    signature = _schema.describe(tool)
    assert signature.description == "Search."
    found = {name: each.get("description") for name, each in signature.schema["properties"].items()}
    assert found == {"query": "What to find: words, or a phrase.", "limit": "How many.", "other": "mine"}


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        (None, ""),
        ("", ""),
        ("One.", "One."),
        ("\n    One\n    line.\n\n    Two.", "One line."),
        ("Args:\n    x: y", ""),
        (":param x: y", ""),
        ("Parameters\n----------\nx : int\n    y", ""),
    ],
)
def test_description_is_the_first_paragraph(doc, expected):
    def tool():
        return None

    tool.__doc__ = doc
    assert _schema.describe(tool).description == expected
    assert _schema.describe(tool, "other", "given").description == "given"
    assert _schema.describe(tool, "other").name == "other"


def test_an_annotation_wins_over_the_docstring():
    def tool(x: Annotated[int, "from the annotation"]):
        """T.

        :param x: from the docstring
        """

    assert _schema.describe(tool).schema["properties"]["x"]["description"] == "from the annotation"


@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext,
        Optional[ToolContext],
        ToolContext | None,
        Annotated[ToolContext, "injected"],
        "ToolContext",
        "ToolContext | None",
        "missing.ToolContext",
        "Optional[missing.ToolContext]",
        "typing.Optional['ToolContext']",
        Optional["missing.ToolContext"],
    ],
)
def test_the_context_is_passed_and_not_in_the_schema(annotation):
    def tool(sku: str, ctx=None):
        return sku, ctx

    tool.__annotations__["ctx"] = annotation
    signature = _schema.describe(tool)
    assert signature.context_parameter == "ctx"
    assert list(signature.schema["properties"]) == ["sku"]
    context = ToolContext()
    assert signature.bind({"sku": "A", "ctx": "forged"}, context) == {"sku": "A", "ctx": context}


@pytest.mark.parametrize("annotation", ["NotAToolContext", "ToolContexts", "list[ToolContext]"])
def test_what_only_looks_like_the_context(annotation):
    with pytest.raises(TypeError, match="parameter 'value': "):
        property_of(annotation)


def test_a_parameter_description_wins_over_its_type_s():
    def tool(item: Item, other: Item):
        """T.

        Args:
            item: What to buy.
        """

    properties = _schema.describe(tool).schema["properties"]
    assert properties["item"]["description"] == "What to buy."
    assert properties["other"]["description"] == "One line of an order."


def test_two_contexts():
    def tool(a: ToolContext, b: ToolContext):
        return a, b

    with pytest.raises(TypeError, match="^tool 'tool', parameter 'b': 'a' already takes the tool context$"):
        _schema.describe(tool)


def test_kinds_of_parameters():
    def positional(a, /, b):
        return a, b

    def variadic(*items):
        return items

    def more(a: int, **rest: "Unknown"):  # noqa: F821
        return a, rest

    with pytest.raises(TypeError, match="^tool 'positional', parameter 'a': is positional-only, but a tool's"):
        _schema.describe(positional)
    with pytest.raises(TypeError, match=r"^tool 'variadic', parameter 'items': takes positional arguments \(\*\), but"):
        _schema.describe(variadic)
    signature = _schema.describe(more)
    assert signature.schema["additionalProperties"] is True and list(signature.schema["properties"]) == ["a"]
    assert signature.bind({"a": 1, "z": 2}, None) == {"a": 1, "z": 2}


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("Unknown", "its annotation 'Unknown' cannot be resolved: name 'Unknown' is not defined"),
        ("list[", "its annotation 'list[' cannot be resolved: "),
        ("the sku to find", "its annotation 'the sku to find' cannot be resolved: "),
        (list["Unknown"], "cannot be resolved: name 'Unknown' is not defined"),
        (bytes, "bytes is not JSON; take str (base64, for instance) and decode it"),
        (list[bytes], "bytes is not JSON"),
        (complex, "<class 'complex'> has no JSON Schema"),
        (Callable[[int], str], "has no JSON Schema"),
        (5, "5 has no JSON Schema"),
        ([int], "[<class 'int'>] has no JSON Schema"),
        (dict[int, str], "the keys of dict must be str, as JSON's are"),
        (Literal[b"x"], "its choices [b'x'] are not all JSON"),
        (enum.Enum("Odd", {"A": (1, 2)}), "its choices [(1, 2)] are not all JSON"),
        (dataclasses.make_dataclass("Bad", [("x", "Unknown")]), "the annotations of Bad cannot be resolved: "),
        (dataclasses.make_dataclass("Bad", [("x", complex)]), "Bad, field 'x': <class 'complex'> has no JSON Schema"),
    ],
)
def test_annotations_that_make_no_schema(annotation, message):
    with pytest.raises(TypeError, match="^tool 'tool', parameter 'value': ") as caught:
        property_of(annotation)
    assert message in str(caught.value)


def test_a_function_without_a_signature():
    with pytest.raises(TypeError, match="^tool 'getattr'"):
        _schema.describe(getattr)


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
