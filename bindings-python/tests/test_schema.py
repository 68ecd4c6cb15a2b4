# SPDX-License-Identifier: Apache-2.0
"""Tools defined by Python functions: schema, descriptions, and what is refused."""

import collections
import dataclasses
import enum
import json
import math
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Optional,
    TypedDict,
)
from uuid import UUID

import pytest
from callweir import _schema

from schema_types import (
    INTEGER,
    NULL,
    STRING,
    Book,
    Box,
    Choice,
    Color,
    Item,
    Level,
    Movie,
    Node,
    Number,
    Person,
    Point,
    Sku,
    T,
    ToolContext,
    Tree,
    convert,
    property_of,
    pydantic,
    schema_of,
)


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
