# SPDX-License-Identifier: Apache-2.0
"""Map annotations to JSON Schema."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import itertools
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .base import Convert, Schema
from .convert import choice, convert_entries, convert_items, convert_record, convert_union, scalar, validate
from .docstring import class_doc, parameter_docs, summarize
from .shape import KINDS, Field, Shape, fits


class Builder:
    """Builds the shapes of one function's parameters, which share their `$defs`."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._named_shapes: dict[Any, Shape] = {}
        self._open: dict[Any, str | None] = {}

    def members(
        self, owner: str, fields: Iterable[Field], docs: Mapping[str, str]
    ) -> tuple[Schema, dict[str, Convert]]:
        """Build an object schema with a property for each field, and the converters of those that need one."""
        properties: dict[str, Schema] = {}
        converters: dict[str, Convert] = {}
        required: list[str] = []
        for field in fields:
            try:
                shape = self.shape(field.annotation)
            except TypeError as error:
                raise TypeError(f"{owner} {field.name!r}: {error}") from error
            if field.default is None and not fits(shape.schema, None, self.definitions):
                shape = self._union([shape, Shape({"type": "null"})])
            said = {"description": docs[field.name]} if field.name in docs else {}
            said |= _description(getattr(field.annotation, "__metadata__", ()))
            properties[field.name] = shape.schema | said | self._default(shape.schema, field.default)
            if shape.convert is not None:
                converters[field.name] = shape.convert
            if field.required:
                required.append(field.name)
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return schema | ({"required": required} if required else {}), converters

    def shape(self, annotation: Any) -> Shape:
        """Give the shape of a resolved annotation; raise `TypeError` if JSON has none for it."""
        if annotation in (Any, object):
            return Shape({})
        if annotation is None:
            return Shape({"type": "null"})
        if isinstance(annotation, typing.NewType):
            return self.shape(annotation.__supertype__)
        if isinstance(annotation, dataclasses.InitVar):
            return self.shape(typing.cast(Any, annotation).type)
        if isinstance(annotation, typing.TypeVar):
            members = annotation.__constraints__ or (annotation.__bound__ or Any,)
            return self._union([self.shape(each) for each in members])
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if type(origin or annotation).__name__ == "TypeAliasType":
            alias = origin or annotation
            value = _substitute(alias.__value__, dict(zip(alias.__type_params__, args, strict=False)))
            return self._named(annotation, alias.__name__, lambda: self.shape(value))
        return self._class(annotation) if origin is None else self._generic(annotation, origin, args)

    def _generic(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
        if origin is typing.Annotated:
            shape = self.shape(args[0])
            return shape._replace(schema=shape.schema | _description(args[1:]))
        if _qualifier(annotation):
            return self.shape(args[0])
        if origin is typing.Literal:
            members = {each.value if isinstance(each, enum.Enum) else each: each for each in args}
            return choice(args, members.__getitem__)
        if origin in (typing.Union, types.UnionType):
            return self._union([self.shape(each) for each in args])
        if origin in _CONTAINERS:
            return self._container(origin, args)
        if isinstance(origin, type) and (fields := _fields_of(origin, args)) is not None:
            return self._named(annotation, origin.__name__, lambda: self._record(origin, fields))
        raise TypeError(f"{annotation!r} has no JSON Schema")

    def _class(self, cls: Any) -> Shape:
        if cls in (bytes, bytearray, memoryview):
            raise TypeError(f"{cls.__name__} is not JSON; take str (base64, for instance) and decode it")
        if not isinstance(cls, type):
            raise TypeError(f"{cls!r} has no JSON Schema")
        if (shape := _scalar_class(cls)) is not None:
            return shape
        if cls in _CONTAINERS:
            return self._container(cls, ())
        if isinstance(cls, enum.EnumMeta):
            return choice(list(typing.cast("Iterable[enum.Enum]", cls)), cls)
        pydantic = sys.modules.get("pydantic")
        if pydantic is not None and issubclass(cls, pydantic.BaseModel):
            return self._named(cls, cls.__name__, lambda: self._pydantic(cls))
        if (fields := _fields_of(cls, ())) is not None:
            return self._named(cls, cls.__name__, lambda: self._record(cls, fields))
        raise TypeError(f"{cls!r} has no JSON Schema")

    def _container(self, origin: Any, args: tuple[Any, ...]) -> Shape:
        make = _CONTAINERS[origin]
        if make is dict:
            key, value = (self.shape(each) for each in args or (str, Any))
            if key.convert or key.schema.get("type", "string") != "string":
                raise TypeError(f"the keys of {origin.__name__} must be str, as JSON's are")
            extra = {"additionalProperties": value.schema} if value.schema else {}
            return Shape(
                {"type": "object", **extra}, convert_entries(lambda _: value.convert) if value.convert else None
            )
        schema: Schema = {"type": "array"}
        fixed: list[Shape] | None = None
        if make is tuple and args and args[-1] is not ...:
            fixed = [self.shape(each) for each in args]
            schema |= {"prefixItems": [each.schema for each in fixed], "minItems": len(fixed), "maxItems": len(fixed)}
        item = self.shape(args[0]) if args and fixed is None else Shape({})
        schema |= {"items": item.schema} if item.schema else {}
        schema |= {"uniqueItems": True} if make in (set, frozenset) else {}
        return Shape(schema, convert_items(make, item, fixed) if item.convert or make is not list else None)

    def _union(self, members: Sequence[Shape]) -> Shape:
        if len(members) == 1:
            return members[0]
        schema = {"anyOf": [each.schema for each in members]}
        needed = any(each.convert for each in members)
        return Shape(schema, convert_union(members, self.definitions) if needed else None)

    def _record(self, cls: type, fields: list[Field]) -> Shape:
        doc = class_doc(cls)
        schema, converters = self.members(f"{cls.__name__}, field", fields, parameter_docs(doc))
        if summary := summarize(doc):
            schema["description"] = summary
        if dict in cls.__mro__:
            return Shape(schema, convert_entries(converters.get) if converters else None)
        return Shape(schema, convert_record(cls, fields, converters))

    def _pydantic(self, model: Any) -> Shape:
        try:
            schema = model.model_json_schema()
        except Exception as error:  # pydantic's own errors; importing them would make it a dependency
            raise TypeError(f"{model.__name__} has no JSON Schema: {error}") from error
        found: dict[str, Schema] = schema.pop("$defs", {})
        if any(self.definitions.get(name, each) != each for name, each in found.items()):
            names = {name: self._reserve(name) for name in found}
            schema, found = _renamed(schema, names), {names[key]: _renamed(each, names) for key, each in found.items()}
        self.definitions.update(found)
        return Shape(schema, functools.partial(validate, model))

    def _named(self, key: Any, name: str, make: Callable[[], Shape]) -> Shape:
        """Build a named type once; only one that contains itself moves to `$defs`."""
        if key in self._open:
            reference = self._open[key] = self._open[key] or self._reserve(name)
            return Shape({"$ref": f"#/$defs/{reference}"}, functools.partial(self._later, key))
        if key not in self._named_shapes:
            self._open[key] = None
            shape = make()
            if (made := self._open.pop(key)) is not None:
                self.definitions[made] = shape.schema
                shape = Shape({"$ref": f"#/$defs/{made}"}, shape.convert)
            self._named_shapes[key] = shape
        return self._named_shapes[key]

    def _later(self, key: Any, value: Any, path: str) -> Any:
        convert = self._named_shapes[key].convert
        return value if convert is None else convert(value, path)

    def _reserve(self, name: str) -> str:
        tries = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(2)))
        free = next(each for each in tries if each not in self.definitions)
        self.definitions[free] = {}
        return free

    def _default(self, schema: Schema, value: Any) -> Schema:
        try:
            text = json.dumps(value.value if isinstance(value, enum.Enum) else value, allow_nan=False)
            copy = json.loads(text, parse_int=_bounded)
        except (TypeError, ValueError, RecursionError):
            return {}
        return {"default": copy} if fits(schema, copy, self.definitions) else {}


def _scalar_class(cls: Any) -> Shape | None:
    """Give the shape of a scalar class; a module loads only for an annotation that names it."""
    if (kind := KINDS.get(cls)) not in (None, "array", "object"):
        return Shape({"type": kind})
    if cls.__module__ == "datetime":
        from datetime import date, datetime, time

        formats: dict[Any, str] = {datetime: "date-time", date: "date", time: "time"}
        if cls in formats:
            return scalar({"type": "string", "format": formats[cls]}, cls, cls.fromisoformat)
    if cls.__module__ == "uuid":
        from uuid import UUID

        if cls is UUID:
            return scalar({"type": "string", "format": "uuid"}, UUID, UUID)
    if cls.__module__ == "decimal":
        from decimal import Decimal

        if cls is Decimal:
            return scalar({"type": "string"}, Decimal, lambda value: Decimal(str(value)), (str, int, float))
    return None


def _fields_of(cls: Any, args: tuple[Any, ...]) -> list[Field] | None:
    """List the fields of a dataclass, named tuple or `TypedDict`; `None` for any other class."""
    required: Any = getattr(cls, "__required_keys__", None)
    named_tuple = tuple in cls.__mro__ and hasattr(cls, "_fields")
    if required is None and not hasattr(cls, "__dataclass_fields__") and not named_tuple:
        return None
    try:
        hints = typing.get_type_hints(cls, None, {cls.__name__: cls}, include_extras=True)
    except Exception as error:  # evaluating the annotations' text can raise anything
        raise TypeError(f"the annotations of {cls.__name__} cannot be resolved: {error}") from error
    known = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    hints = {name: _substitute(hint, known) for name, hint in hints.items()}
    if required is None:
        parameters = inspect.signature(cls).parameters.values()
        return [Field(p.name, hints.get(p.name, Any), p.default, p.default is p.empty) for p in parameters]
    # Qualifiers that were text when the class was made are missing from its `__required_keys__`.
    needed: dict[str, Any] = {"Required": hints, "NotRequired": ()}
    absent = inspect.Parameter.empty
    return [Field(name, hint, absent, name in needed.get(_qualifier(hint), required)) for name, hint in hints.items()]


def _qualifier(annotation: Any) -> str:
    name = getattr(typing.get_origin(annotation), "_name", None)
    return name if name in ("Required", "NotRequired", "ReadOnly") else ""


def _substitute(annotation: Any, known: Mapping[Any, Any]) -> Any:
    """Replace the type variables of a generic class's or alias's own annotation."""
    variables: Any = getattr(annotation, "__parameters__", ())
    if inspect.isclass(annotation) or not variables:
        is_variable = isinstance(annotation, typing.TypeVar)
        return typing.cast(Any, known.get(annotation, annotation) if is_variable else annotation)
    return annotation[tuple(known.get(each, each) for each in variables)]


def _description(metadata: Iterable[Any]) -> Schema:
    for each in metadata:
        text = each if isinstance(each, str) else getattr(each, "description", None)
        if isinstance(text, str):
            return {"description": text}
    return {}


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Point references at renamed definitions; a discriminator's mapping holds them as plain text."""
    if isinstance(schema, dict):
        return {key: _renamed(each, names) for key, each in typing.cast(Schema, schema).items()}
    if isinstance(schema, list):
        return [_renamed(each, names) for each in typing.cast("list[Any]", schema)]
    prefix, _, name = schema.rpartition("/") if isinstance(schema, str) else ("", "", "")
    return f"{prefix}/{names[name]}" if prefix == "#/$defs" and name in names else schema


def _bounded(digits: str) -> int:
    if not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError("no JSON integer for the core")
    return number


_CONTAINERS: dict[Any, type] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), dict),
    **{cls: cls for cls in (frozenset, tuple)},
}
