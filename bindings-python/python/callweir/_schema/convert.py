# SPDX-License-Identifier: Apache-2.0
"""Turn JSON values into what annotations ask for."""

from __future__ import annotations

import enum
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .base import ArgumentError, Convert, Schema, at
from .shape import JSON, Field, Shape, fits, kind_of


def choice(members: Sequence[Any], make: Callable[[Any], Any]) -> Shape:
    """Give the shape of an enum or a `Literal`; only enum members need converting."""
    values = [each.value if isinstance(each, enum.Enum) else each for each in members]
    kinds = {kind_of(each) for each in values}
    if not kinds <= {"string", "integer", "number", "boolean", "null"}:
        raise TypeError(f"its choices {values!r} are not all JSON text, numbers, booleans or null")
    schema: Schema = {**({"type": kinds.copy().pop()} if len(kinds) == 1 else {}), "enum": values}

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, enum.Enum) or not isinstance(value, JSON):
            return value
        try:
            return make(value)
        except (ValueError, KeyError, TypeError) as error:
            choices = ", ".join(map(repr, values))
            raise ArgumentError(path, f"expected one of {choices}; got {reprlib.repr(value)}") from error

    return Shape(schema, convert if any(isinstance(each, enum.Enum) for each in members) else None)


def scalar(schema: Schema, cls: type, parse: Callable[[Any], Any], accepted: Any = str) -> Shape:
    return Shape(schema, _from(accepted, cls, lambda value, path: _attempt(path, cls, parse, value)))


def convert_entries(find: Callable[[Any], Convert | None]) -> Convert:
    return _from(dict, (), lambda value, path: _each(value, path, find))


def convert_items(make: type, item: Shape, fixed: list[Shape] | None) -> Convert:
    def find(index: int) -> Convert | None:
        return (item if fixed is None else fixed[index]).convert

    def build(value: list[Any], path: str) -> Any:
        if fixed is not None and len(value) != len(fixed):
            raise ArgumentError(path, f"expected {len(fixed)} items, got {len(value)}")
        made = _each(value, path, find)
        return made if make is list else _attempt(path, make, make, made)

    return _from(list, (), build)


def convert_record(cls: type, fields: list[Field], converters: Mapping[str, Convert]) -> Convert:
    names = [field.name for field in fields]

    def build(value: Any, path: str) -> Any:
        for key in value:
            if key not in names:
                raise ArgumentError(at(path, key), f"{cls.__name__} has no such field")
        for field in fields:
            if field.required and field.name not in value:
                raise ArgumentError(at(path, field.name), f"{cls.__name__} needs this field")
        return _attempt(path, cls, cls, **_each(value, path, converters.get))

    return _from(dict, cls, build)


def validate(model: Any, value: Any, path: str) -> Any:
    """Let a pydantic model validate a JSON value, and turn its first error's location into a path."""
    if isinstance(value, model) or not isinstance(value, JSON):
        return value
    try:
        return model.model_validate(value)
    except Exception as error:  # a model's own validators may raise what pydantic lets through
        errors: Any = getattr(error, "errors", list[Any])() or [{"loc": (), "msg": str(error), "type": ""}]
        first: Any = errors[0]
        here: Any = value
        for part in first["loc"]:
            # A location also names union members, which are no part of the value.
            if (kind_of(here), type(part)) == ("array", int) or (kind_of(here) == "object" and part in here):
                path, here = at(path, part), here[part]
            elif first["type"] == "missing" and part == first["loc"][-1]:
                path = at(path, part)
        raise ArgumentError(path, first["msg"]) from error


def convert_union(members: Sequence[Shape], definitions: Mapping[str, Schema]) -> Convert:
    """Try the members a value fits, from left to right; a value that already is one of them stays as it is."""

    def convert(value: Any, path: str) -> Any:
        fitting = [each for each in members if fits(each.schema, value, definitions)]
        if not isinstance(value, JSON) or any(each.convert is None for each in fitting):
            return value
        errors: list[ArgumentError] = []
        for each in fitting or members:
            try:
                if each.convert is not None:
                    return each.convert(value, path)
            except ArgumentError as error:
                errors.append(error)
        raise errors[0] if len(errors) == 1 else ArgumentError(path, "fits none: " + "; ".join(map(str, errors)))

    return convert


def _from(accepted: Any, already: Any, make: Convert) -> Convert:
    """Convert JSON values of the accepted types with `make`; what is not JSON is the caller's own object and passes."""

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, already) or not isinstance(value, JSON):
            return value
        if not isinstance(value, accepted) or isinstance(value, bool):
            wanted = {str: "a string", list: "an array", dict: "an object"}.get(accepted, "a string or number")
            raise ArgumentError(path, f"expected {wanted}, got {kind_of(value)}")
        return make(value, path)

    return convert


def _attempt(path: str, cls: type, make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return make(*args, **kwargs)
    except Exception as error:  # a constructor may refuse its arguments with any exception
        raise ArgumentError(path, f"not a valid {cls.__name__}: {error or type(error).__name__}") from error


def _each(value: Any, path: str, find: Callable[[Any], Convert | None]) -> Any:
    """Convert the entries of a list or dict into a copy, or give the same object if no entry changes."""
    changed: dict[Any, Any] = {}
    entries: Any = value.items() if hasattr(value, "items") else enumerate(value)
    for key, entry in entries:
        if (convert := find(key)) and (new := convert(entry, at(path, key))) is not entry:
            changed[key] = new
    if changed:
        value = value.copy()
        for key, new in changed.items():
            value[key] = new
    return value
