# SPDX-License-Identifier: Apache-2.0
"""A parameter, the shape of its type, and whether a JSON value fits a schema."""

from __future__ import annotations

import itertools
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from .base import Convert, Schema


class Field(NamedTuple):
    name: str
    annotation: Any
    default: Any
    required: bool


class Shape(NamedTuple):
    """A type's schema, and how a JSON value becomes that type (`None`: it already is)."""

    schema: Schema
    convert: Convert | None = None


def fits(schema: Any, value: Any, definitions: Mapping[str, Schema]) -> bool:
    """Check a JSON value against the keywords that tell the members of a union apart."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return fits(definitions.get(schema["$ref"].rpartition("/")[2], {}), value, definitions)
    kind, wanted = kind_of(value), schema.get("type")
    if (wanted not in (None, kind) and (wanted, kind) != ("number", "integer")) or (
        value not in schema.get("enum", [value]) or value != schema.get("const", value)
    ):
        return False
    options = schema.get("anyOf") or schema.get("oneOf")
    if options and not any(fits(each, value, definitions) for each in options):
        return False
    if kind == "object":
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(key in value for key in schema.get("required", ())) and all(
            fits(known.get(key, rest), each, definitions) for key, each in value.items()
        )
    if kind == "array":
        items: Any = itertools.chain(schema.get("prefixItems", ()), itertools.repeat(schema.get("items", True)))
        pairs = zip(items, value, strict=False)
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return sized and all(fits(each, entry, definitions) for each, entry in pairs)
    return True


def kind_of(value: Any) -> str:
    """Name the JSON type of a value, or the class of one that is not JSON."""
    return next((name for cls, name in KINDS.items() if isinstance(value, cls)), type(value).__name__)


# `bool` comes before `int`, whose subclass it is.
KINDS: dict[type, str] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    types.NoneType: "null",
    list: "array",
    dict: "object",
}
JSON = tuple(KINDS)
