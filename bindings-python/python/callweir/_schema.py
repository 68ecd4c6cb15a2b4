# SPDX-License-Identifier: Apache-2.0
"""Turn a Python function into a tool's name, description, JSON Schema and argument converters."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import inspect
import itertools
import json
import re
import reprlib
import sys
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["ArgumentError", "Signature", "describe", "is_async"]

Schema = dict[str, Any]
Convert = Callable[[Any, str], Any]


class ArgumentError(ValueError):
    """An argument that cannot become what its parameter's annotation asks for."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What the registry needs to know about a function to offer it as a tool."""

    name: str
    description: str
    schema: Schema
    context_parameter: str | None
    converters: Mapping[str, Convert]

    def bind(self, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Give the keyword arguments for the function; values without a converter pass as the same objects."""
        bound = dict(arguments)
        for name, convert in self.converters.items():
            if name in bound:
                path = _at("$", name)
                try:
                    bound[name] = convert(bound[name], path)
                except RecursionError as error:
                    raise ArgumentError(path, "is nested too deeply") from error
        # Last, so that an argument of the same name cannot replace the context.
        if self.context_parameter is not None:
            bound[self.context_parameter] = context
        return bound


def describe(func: Callable[..., Any], name: str | None = None, description: str | None = None) -> Signature:
    """Read a function's signature, annotations and docstring; raise `TypeError` if they make no tool."""
    target: Any = func
    given: set[str] = set()
    while isinstance(target, functools.partial):
        given.update(target.keywords)
        target = target.func
    title = name or getattr(target, "__name__", type(target).__name__)
    code, doc = _code_and_doc(target)
    fields, context, accepts_more = _parameters(func, f"tool {title!r}", code, given)
    builder = _Builder()
    schema, converters = builder.members(f"tool {title!r}, parameter", fields, _parameter_docs(doc))
    schema["additionalProperties"] = accepts_more
    if builder.definitions:
        schema["$defs"] = builder.definitions
    text = _summary(doc) if description is None else description
    return Signature(title, text, schema, context, converters)


def is_async(func: Any) -> bool:
    """Tell whether calling `func` gives a coroutine."""
    target: Any = func
    while isinstance(target, functools.partial):
        target = typing.cast(Any, target).func
    kind = typing.cast(Any, type(target))
    # Only the class counts: Python looks up `__call__` there.
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(kind, "__call__", None))


class _Field(NamedTuple):
    name: str
    annotation: Any
    default: Any = inspect.Parameter.empty
    required: bool = False


class _Shape(NamedTuple):
    """A type's schema, and how a JSON value becomes that type (`None`: it already is)."""

    schema: Schema
    convert: Convert | None = None


def _code_and_doc(target: Any) -> tuple[Any, str]:
    """Find the function whose globals the annotations use, and the docstring."""
    code = inspect.unwrap(target)
    if isinstance(code, type):
        return code.__init__, _class_doc(code)
    if not inspect.isroutine(code):
        code = type(code).__call__
    doc = target.__doc__ if hasattr(target, "__name__") else code.__doc__ or target.__doc__
    return code, inspect.cleandoc(doc) if isinstance(doc, str) else ""


def _class_doc(cls: type) -> str:
    doc = vars(cls).get("__doc__")
    # Dataclasses and named tuples without a docstring get their own signature as one.
    return inspect.cleandoc(doc) if isinstance(doc, str) and not doc.startswith(f"{cls.__name__}(") else ""


def _parameters(func: Any, owner: str, code: Any, given: set[str]) -> tuple[list[_Field], str | None, bool]:
    """List the parameters a caller can name, the one that takes the context, and whether there is `**kwargs`."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        raise TypeError(f"{owner}: its signature cannot be read: {error}") from error
    fields: list[_Field] = []
    context: str | None = None
    for each in parameters:
        label = f"{owner}, parameter {each.name!r}"
        if each.kind is each.VAR_KEYWORD or each.name in given:
            continue
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            what = "is positional-only" if each.kind is each.POSITIONAL_ONLY else "takes positional arguments (*)"
            raise TypeError(f"{label}: {what}, but a tool's arguments are named")
        annotation = each.annotation
        if not _is_context(annotation):
            annotation = _resolve(annotation, code, label)
        if not _is_context(annotation):
            fields.append(_Field(each.name, annotation, each.default, each.default is each.empty))
        elif context is not None:
            raise TypeError(f"{label}: {context!r} already takes the tool context")
        else:
            context = each.name
    return fields, context, any(each.kind is each.VAR_KEYWORD for each in parameters)


_CONTEXT = re.compile(r"""\s*(?:(?:\w+\.)?Optional\[)?\s*["']?(?:\w+\.)*ToolContext["']?\s*]?(?:\s*\|\s*None)?\s*""")


def _is_context(annotation: Any) -> bool:
    # By name, because the annotation may be text that only a type checker can resolve.
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _CONTEXT.fullmatch(annotation) is not None
    if typing.get_origin(annotation) is typing.Annotated:
        return _is_context(annotation.__origin__)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [each for each in typing.get_args(annotation) if each is not types.NoneType]
        return len(members) == 1 and _is_context(members[0])
    return isinstance(annotation, type) and annotation.__name__ == "ToolContext"


def _resolve(annotation: Any, code: Any, label: str) -> Any:
    """Evaluate one annotation, so that an error can say which parameter it belongs to."""
    if annotation is inspect.Parameter.empty:
        return Any
    holder: Any = types.SimpleNamespace(__annotations__={"it": annotation})
    names = {each.__name__: each for each in getattr(code, "__type_params__", ())}
    try:
        return typing.get_type_hints(holder, getattr(code, "__globals__", {}), names, include_extras=True)["it"]
    except Exception as error:  # evaluating the annotation's text can raise anything
        raise TypeError(f"{label}: its annotation {annotation!r} cannot be resolved: {error}") from error


class _Builder:
    """Builds the shapes of one function's parameters, which share their `$defs`."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._named_shapes: dict[Any, _Shape] = {}
        self._open: dict[Any, str | None] = {}

    def members(
        self, owner: str, fields: Iterable[_Field], docs: Mapping[str, str]
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
            if field.default is None and not _fits(shape.schema, None, self.definitions):
                shape = self._union([shape, _Shape({"type": "null"})])
            said = {"description": docs[field.name]} if field.name in docs else {}
            said |= _description(getattr(field.annotation, "__metadata__", ()))
            properties[field.name] = shape.schema | said | self._default(shape.schema, field.default)
            if shape.convert is not None:
                converters[field.name] = shape.convert
            if field.required:
                required.append(field.name)
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return schema | ({"required": required} if required else {}), converters

    def shape(self, annotation: Any) -> _Shape:
        """Give the shape of a resolved annotation; raise `TypeError` if JSON has none for it."""
        if annotation in (Any, object):
            return _Shape({})
        if annotation is None:
            return _Shape({"type": "null"})
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

    def _generic(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> _Shape:
        if origin is typing.Annotated:
            shape = self.shape(args[0])
            return shape._replace(schema=shape.schema | _description(args[1:]))
        if _qualifier(annotation):
            return self.shape(args[0])
        if origin is typing.Literal:
            members = {each.value if isinstance(each, enum.Enum) else each: each for each in args}
            return _choice(args, members.__getitem__)
        if origin in (typing.Union, types.UnionType):
            return self._union([self.shape(each) for each in args])
        if origin in _CONTAINERS:
            return self._container(origin, args)
        if isinstance(origin, type) and (fields := _fields_of(origin, args)) is not None:
            return self._named(annotation, origin.__name__, lambda: self._record(origin, fields))
        raise TypeError(f"{annotation!r} has no JSON Schema")

    def _class(self, cls: Any) -> _Shape:
        if cls in (bytes, bytearray, memoryview):
            raise TypeError(f"{cls.__name__} is not JSON; take str (base64, for instance) and decode it")
        if not isinstance(cls, type):
            raise TypeError(f"{cls!r} has no JSON Schema")
        if cls in _SCALARS:
            return _SCALARS[cls]
        if cls in _CONTAINERS:
            return self._container(cls, ())
        if isinstance(cls, enum.EnumMeta):
            return _choice(list(typing.cast("Iterable[enum.Enum]", cls)), cls)
        pydantic = sys.modules.get("pydantic")
        if pydantic is not None and issubclass(cls, pydantic.BaseModel):
            return self._named(cls, cls.__name__, lambda: self._pydantic(cls))
        if (fields := _fields_of(cls, ())) is not None:
            return self._named(cls, cls.__name__, lambda: self._record(cls, fields))
        raise TypeError(f"{cls!r} has no JSON Schema")

    def _container(self, origin: Any, args: tuple[Any, ...]) -> _Shape:
        make = _CONTAINERS[origin]
        if make is dict:
            key, value = (self.shape(each) for each in args or (str, Any))
            if key.convert or key.schema.get("type", "string") != "string":
                raise TypeError(f"the keys of {origin.__name__} must be str, as JSON's are")
            extra = {"additionalProperties": value.schema} if value.schema else {}
            return _Shape({"type": "object", **extra}, _mapping(lambda _: value.convert) if value.convert else None)
        schema: Schema = {"type": "array"}
        fixed: list[_Shape] | None = None
        if make is tuple and args and args[-1] is not ...:
            fixed = [self.shape(each) for each in args]
            schema |= {"prefixItems": [each.schema for each in fixed], "minItems": len(fixed), "maxItems": len(fixed)}
        item = self.shape(args[0]) if args and fixed is None else _Shape({})
        schema |= {"items": item.schema} if item.schema else {}
        schema |= {"uniqueItems": True} if make in (set, frozenset) else {}
        return _Shape(schema, _sequence(make, item, fixed) if item.convert or make is not list else None)

    def _union(self, members: Sequence[_Shape]) -> _Shape:
        if len(members) == 1:
            return members[0]
        schema = {"anyOf": [each.schema for each in members]}
        needed = any(each.convert for each in members)
        return _Shape(schema, _either(members, self.definitions) if needed else None)

    def _record(self, cls: type, fields: list[_Field]) -> _Shape:
        doc = _class_doc(cls)
        schema, converters = self.members(f"{cls.__name__}, field", fields, _parameter_docs(doc))
        if summary := _summary(doc):
            schema["description"] = summary
        if dict in cls.__mro__:
            return _Shape(schema, _mapping(converters.get) if converters else None)
        return _Shape(schema, _construct(cls, fields, converters))

    def _pydantic(self, model: Any) -> _Shape:
        try:
            schema = model.model_json_schema()
        except Exception as error:  # pydantic's own errors; importing them would make it a dependency
            raise TypeError(f"{model.__name__} has no JSON Schema: {error}") from error
        found: dict[str, Schema] = schema.pop("$defs", {})
        if any(self.definitions.get(name, each) != each for name, each in found.items()):
            names = {name: self._reserve(name) for name in found}
            schema, found = _renamed(schema, names), {names[key]: _renamed(each, names) for key, each in found.items()}
        self.definitions.update(found)
        return _Shape(schema, functools.partial(_validate, model))

    def _named(self, key: Any, name: str, make: Callable[[], _Shape]) -> _Shape:
        """Build a named type once; only one that contains itself moves to `$defs`."""
        if key in self._open:
            reference = self._open[key] = self._open[key] or self._reserve(name)
            return _Shape({"$ref": f"#/$defs/{reference}"}, functools.partial(self._later, key))
        if key not in self._named_shapes:
            self._open[key] = None
            shape = make()
            if (reference := self._open.pop(key)) is not None:
                self.definitions[reference] = shape.schema
                shape = _Shape({"$ref": f"#/$defs/{reference}"}, shape.convert)
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
        return {"default": copy} if _fits(schema, copy, self.definitions) else {}


def _choice(members: Sequence[Any], make: Callable[[Any], Any]) -> _Shape:
    """Give the shape of an enum or a `Literal`; only enum members need converting."""
    values = [each.value if isinstance(each, enum.Enum) else each for each in members]
    kinds = {_kind(each) for each in values}
    if not kinds <= {"string", "integer", "number", "boolean", "null"}:
        raise TypeError(f"its choices {values!r} are not all JSON text, numbers, booleans or null")
    schema: Schema = {**({"type": kinds.copy().pop()} if len(kinds) == 1 else {}), "enum": values}

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, enum.Enum) or not isinstance(value, _JSON):
            return value
        try:
            return make(value)
        except (ValueError, KeyError, TypeError) as error:
            choices = ", ".join(map(repr, values))
            raise ArgumentError(path, f"expected one of {choices}; got {reprlib.repr(value)}") from error

    return _Shape(schema, convert if any(isinstance(each, enum.Enum) for each in members) else None)


def _from(accepted: Any, already: Any, make: Convert) -> Convert:
    """Convert JSON values of the accepted types with `make`; what is not JSON is the caller's own object and passes."""

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, already) or not isinstance(value, _JSON):
            return value
        if not isinstance(value, accepted) or isinstance(value, bool):
            wanted = {str: "a string", list: "an array", dict: "an object"}.get(accepted, "a string or number")
            raise ArgumentError(path, f"expected {wanted}, got {_kind(value)}")
        return make(value, path)

    return convert


def _attempt(path: str, cls: type, make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return make(*args, **kwargs)
    except Exception as error:  # a constructor may refuse its arguments with any exception
        raise ArgumentError(path, f"not a valid {cls.__name__}: {error or type(error).__name__}") from error


def _scalar(schema: Schema, cls: type, parse: Callable[[Any], Any], accepted: Any = str) -> _Shape:
    return _Shape(schema, _from(accepted, cls, lambda value, path: _attempt(path, cls, parse, value)))


def _each(value: Any, path: str, find: Callable[[Any], Convert | None]) -> Any:
    """Convert the entries of a list or dict into a copy, or give the same object if no entry changes."""
    changed: dict[Any, Any] = {}
    entries: Any = value.items() if hasattr(value, "items") else enumerate(value)
    for key, entry in entries:
        if (convert := find(key)) and (new := convert(entry, _at(path, key))) is not entry:
            changed[key] = new
    if changed:
        value = value.copy()
        for key, new in changed.items():
            value[key] = new
    return value


def _mapping(find: Callable[[Any], Convert | None]) -> Convert:
    return _from(dict, (), lambda value, path: _each(value, path, find))


def _sequence(make: type, item: _Shape, fixed: list[_Shape] | None) -> Convert:
    def find(index: int) -> Convert | None:
        return (item if fixed is None else fixed[index]).convert

    def build(value: list[Any], path: str) -> Any:
        if fixed is not None and len(value) != len(fixed):
            raise ArgumentError(path, f"expected {len(fixed)} items, got {len(value)}")
        made = _each(value, path, find)
        return made if make is list else _attempt(path, make, make, made)

    return _from(list, (), build)


def _construct(cls: type, fields: list[_Field], converters: Mapping[str, Convert]) -> Convert:
    names = [field.name for field in fields]

    def build(value: Any, path: str) -> Any:
        for key in value:
            if key not in names:
                raise ArgumentError(_at(path, key), f"{cls.__name__} has no such field")
        for field in fields:
            if field.required and field.name not in value:
                raise ArgumentError(_at(path, field.name), f"{cls.__name__} needs this field")
        return _attempt(path, cls, cls, **_each(value, path, converters.get))

    return _from(dict, cls, build)


def _validate(model: Any, value: Any, path: str) -> Any:
    """Let a pydantic model validate a JSON value, and turn its first error's location into a path."""
    if isinstance(value, model) or not isinstance(value, _JSON):
        return value
    try:
        return model.model_validate(value)
    except Exception as error:  # a model's own validators may raise what pydantic lets through
        errors: Any = getattr(error, "errors", list[Any])() or [{"loc": (), "msg": str(error), "type": ""}]
        first: Any = errors[0]
        for part in first["loc"]:
            # A location also names union members, which are no part of the value.
            if (_kind(value), type(part)) == ("array", int) or (_kind(value) == "object" and part in value):
                path, value = _at(path, part), value[part]
            elif first["type"] == "missing" and part == first["loc"][-1]:
                path = _at(path, part)
        raise ArgumentError(path, first["msg"]) from error


def _either(members: Sequence[_Shape], definitions: Mapping[str, Schema]) -> Convert:
    """Try the members a value fits, from left to right; a value that already is one of them stays as it is."""

    def convert(value: Any, path: str) -> Any:
        fitting = [each for each in members if _fits(each.schema, value, definitions)]
        if not isinstance(value, _JSON) or any(each.convert is None for each in fitting):
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


def _fits(schema: Any, value: Any, definitions: Mapping[str, Schema]) -> bool:
    """Check a JSON value against the keywords that tell the members of a union apart."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return _fits(definitions.get(schema["$ref"].rpartition("/")[2], {}), value, definitions)
    kind, wanted = _kind(value), schema.get("type")
    if (wanted not in (None, kind) and (wanted, kind) != ("number", "integer")) or (
        value not in schema.get("enum", [value]) or value != schema.get("const", value)
    ):
        return False
    options = schema.get("anyOf") or schema.get("oneOf")
    if options and not any(_fits(each, value, definitions) for each in options):
        return False
    if kind == "object":
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(key in value for key in schema.get("required", ())) and all(
            _fits(known.get(key, rest), each, definitions) for key, each in value.items()
        )
    if kind == "array":
        items: Any = itertools.chain(schema.get("prefixItems", ()), itertools.repeat(schema.get("items", True)))
        pairs = zip(items, value, strict=False)
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return sized and all(_fits(each, entry, definitions) for each, entry in pairs)
    return True


def _fields_of(cls: Any, args: tuple[Any, ...]) -> list[_Field] | None:
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
        return [_Field(p.name, hints.get(p.name, Any), p.default, p.default is p.empty) for p in parameters]
    # Qualifiers that were text when the class was made are missing from its `__required_keys__`.
    needed: dict[str, Any] = {"Required": hints, "NotRequired": ()}
    return [_Field(name, hint, required=name in needed.get(_qualifier(hint), required)) for name, hint in hints.items()]


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


def _at(path: str, key: str | int) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}"
    return f"{path}[{key if isinstance(key, int) else json.dumps(str(key))}]"


def _kind(value: Any) -> str:
    return next((name for cls, name in _KINDS.items() if isinstance(value, cls)), type(value).__name__)


# `bool` comes before `int`, whose subclass it is.
_KINDS: dict[type, str] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    types.NoneType: "null",
    list: "array",
    dict: "object",
}
_JSON = tuple(_KINDS)
_SCALARS: dict[Any, _Shape] = {
    **{cls: _Shape({"type": name}) for cls, name in _KINDS.items() if cls not in (list, dict)},
    dt.datetime: _scalar({"type": "string", "format": "date-time"}, dt.datetime, dt.datetime.fromisoformat),
    dt.date: _scalar({"type": "string", "format": "date"}, dt.date, dt.date.fromisoformat),
    dt.time: _scalar({"type": "string", "format": "time"}, dt.time, dt.time.fromisoformat),
    uuid.UUID: _scalar({"type": "string", "format": "uuid"}, uuid.UUID, uuid.UUID),
    decimal.Decimal: _scalar(
        {"type": "string"}, decimal.Decimal, lambda value: decimal.Decimal(str(value)), (str, int, float)
    ),
}
_CONTAINERS: dict[Any, type] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), dict),
    **{cls: cls for cls in (frozenset, tuple)},
}

_HEADING = re.compile(r"(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Returns|Yields|Raises):?$")
_PARAMETERS = re.compile(r"(?:Keyword |Other )?(?:Args|Arguments|Parameters):$")
_GOOGLE = re.compile(r"(?P<names>\*{0,2}\w+)(?:\s*\(.*?\))?\s*:\s*(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?(?P<text>)")
_REST = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)


def _summary(doc: str) -> str:
    """Give the first paragraph on one line."""
    lines = [line.strip() for line in doc.partition("\n\n")[0].splitlines()]
    # A section may follow without an empty line, or be all there is.
    sections = (n for n, line in enumerate(lines) if not line or _HEADING.match(line) or _REST.match(line))
    return " ".join(lines[: next(sections, len(lines))])


def _parameter_docs(doc: str) -> dict[str, str]:
    """Find the parameters' descriptions in a docstring of Google, NumPy or reST style."""
    lines = doc.splitlines()
    docs = _entries(lines, _REST)
    for number, line in enumerate(lines, 1):
        rest = lines[number:]
        if _PARAMETERS.match(line.strip()):
            margin = _indent(line)
            end = (index for index, each in enumerate(rest) if each.strip() and _indent(each) <= margin)
            docs |= _entries(rest[: next(end, len(rest))], _GOOGLE)
        elif line.strip() in ("Parameters", "Other Parameters") and rest and set(rest[0].strip()) == {"-"}:
            following = (index for index in range(1, len(rest) - 1) if set(rest[index + 1].strip()) == {"-"})
            docs |= _entries(rest[1 : next(following, len(rest))], _NUMPY)
    return docs


def _entries(lines: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Read entries: a line at the block's own indent opens one, deeper lines continue it."""
    found: dict[str, list[str]] = {}
    margin, current = None, list[str]()
    for line in filter(str.strip, lines):
        margin = _indent(line) if margin is None else margin
        if _indent(line) > margin:
            current.append(line.strip())
            continue
        match = pattern.fullmatch(line.strip())
        current = [match["text"]] if match else []
        for name in match["names"].split(",") if match else ():
            found[name.strip().lstrip("*")] = current
    return {name: text for name, parts in found.items() if (text := " ".join(filter(None, parts)))}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
