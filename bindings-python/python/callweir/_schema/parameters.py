# SPDX-License-Identifier: Apache-2.0
"""Read the parameters of a function and resolve their annotations."""

from __future__ import annotations

import inspect
import re
import types
import typing
from typing import Any

from .docstring import class_doc
from .shape import Field


def code_and_doc(target: Any) -> tuple[Any, str]:
    """Find the function whose globals the annotations use, and the docstring."""
    code: Any = inspect.unwrap(target)
    if isinstance(code, type):
        return getattr(code, "__init__"), class_doc(code)
    if not inspect.isroutine(code):
        code = type(code).__call__
    doc = target.__doc__ if hasattr(target, "__name__") else code.__doc__ or target.__doc__
    return code, inspect.cleandoc(doc) if isinstance(doc, str) else ""


def read_parameters(func: Any, owner: str, code: Any, given: set[str]) -> tuple[list[Field], str | None, bool]:
    """List the parameters a caller can name, the one that takes the context, and whether there is `**kwargs`."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        raise TypeError(f"{owner}: its signature cannot be read: {error}") from error
    fields: list[Field] = []
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
            fields.append(Field(each.name, annotation, each.default, each.default is each.empty))
        elif context is not None:
            raise TypeError(f"{label}: {context!r} already takes the tool context")
        else:
            context = each.name
    return fields, context, any(each.kind is each.VAR_KEYWORD for each in parameters)


def find_context(func: Any, owner: str) -> str | None:
    """Find the parameter that takes the context, where the caller has described the others."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (ValueError, TypeError, NameError):
        return None
    code, _ = code_and_doc(func)
    for each in parameters:
        try:
            if _is_context(each.annotation) or _is_context(_resolve(each.annotation, code, owner)):
                return each.name
        except TypeError:
            # Nobody needs this annotation: it is not where the schema comes from.
            continue
    return None


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
