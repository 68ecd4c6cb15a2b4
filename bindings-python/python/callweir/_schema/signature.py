# SPDX-License-Identifier: Apache-2.0
"""Describe a function as a tool, and bind a call's arguments to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from .base import ArgumentError, Convert, Schema, at


class Signature:
    """What the registry needs to know about a function to offer it as a tool."""

    __slots__ = ("context_parameter", "converters", "description", "name", "schema")

    # Not a dataclass, which would cost `import callweir` several milliseconds.
    def __init__(
        self,
        name: str,
        description: str,
        schema: Schema,
        context_parameter: str | None,
        converters: Mapping[str, Convert],
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        self.schema: Final = schema
        self.context_parameter: Final = context_parameter
        self.converters: Final = converters

    def __repr__(self) -> str:
        fields = ", ".join(f"{each}={getattr(self, each)!r}" for each in self.__slots__)
        return f"Signature({fields})"

    def bind(self, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Give the keyword arguments for the function; values without a converter pass as the same objects."""
        bound = dict(arguments)
        for name, convert in self.converters.items():
            if name in bound:
                path = at("$", name)
                try:
                    bound[name] = convert(bound[name], path)
                except RecursionError as error:
                    raise ArgumentError(path, "is nested too deeply") from error
        # Last, so that an argument of the same name cannot replace the context.
        if self.context_parameter is not None:
            bound[self.context_parameter] = context
        return bound


def describe(
    func: Callable[..., Any],
    name: str | None = None,
    description: str | None = None,
    parameters: Schema | None = None,
) -> Signature:
    """Read a function's signature, annotations and docstring; raise `TypeError` if they make no tool.

    A schema that is given is taken as it is, and the arguments then reach the function as they are.
    """
    from .docstring import parameter_docs, summarize
    from .mapping import Builder
    from .parameters import code_and_doc, find_context, read_parameters

    target: Any = func
    given: set[str] = set()
    while isinstance(target, functools.partial):
        given.update(target.keywords)
        target = target.func
    title = str(getattr(target, "__name__", type(target).__name__)) if name is None else name
    code, doc = code_and_doc(target)
    if parameters is not None:
        text = summarize(doc) if description is None else description
        return Signature(title, text, parameters, find_context(func, f"tool {title!r}"), {})
    fields, context, accepts_more = read_parameters(func, f"tool {title!r}", code, given)
    builder = Builder()
    schema, converters = builder.members(f"tool {title!r}, parameter", fields, parameter_docs(doc))
    schema["additionalProperties"] = accepts_more
    # With `**kwargs` a caller's argument would otherwise replace the one the partial binds.
    converters |= dict.fromkeys(sorted(given), _refuse)
    if builder.definitions:
        schema["$defs"] = builder.definitions
    text = summarize(doc) if description is None else description
    return Signature(title, text, schema, context, converters)


def is_async(func: Any) -> bool:
    """Tell whether calling `func` gives a coroutine."""
    from inspect import iscoroutinefunction

    target: Any = func
    while isinstance(target, functools.partial):
        target = cast(Any, target).func
    kind = cast(Any, type(target))
    # Only the class counts: Python looks up `__call__` there.
    return iscoroutinefunction(target) or iscoroutinefunction(getattr(kind, "__call__", None))


def _refuse(value: Any, path: str) -> Any:
    raise ArgumentError(path, "is an unexpected argument")
