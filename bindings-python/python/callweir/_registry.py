"""Tools and the registry."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, overload

from . import _native
from ._native import Descriptor, ScopeHandle, ToolContext, default_runtime
from ._schema import ArgumentError, Signature, describe, is_async


class Tool:
    """A function that a registry can hold. Calling it calls the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        blocking: bool | None = None,
    ) -> None:
        self.function = function
        self.blocking = blocking
        self._signature: Signature = describe(function, name, description, parameters)
        self.descriptor = Descriptor(
            self._signature.name,
            self._signature.description,
            self._signature.schema,
            read_only=read_only,
            idempotent=idempotent,
        )
        self.__doc__ = getattr(function, "__doc__", None)
        self.__wrapped__ = function

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.descriptor.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def execute_with(self, arguments: dict[str, Any], context: ToolContext | None = None) -> Any:
        """Runs the tool directly: no middleware, not a managed call. An async tool's result must be awaited.

        A missing or unexpected argument is `InvalidArgument`.
        """
        self.descriptor.check(arguments)
        try:
            keywords = self._signature.bind(arguments, context or ToolContext())
        except ArgumentError as error:
            raise _native.argument_error(error.path, error.message) from error
        return self.function(**keywords)

    def _native_tool(self) -> _native.NativeTool:
        signature = self._signature
        binds = bool(signature.converters) or signature.context_parameter is not None
        # Asynchronous functions never block; others do unless the program says otherwise.
        blocking = not is_async(self.function) if self.blocking is None else self.blocking
        bind = signature.bind if binds else None
        return _native.NativeTool(self.descriptor, self.function, bind, blocking)

    def __repr__(self) -> str:
        return f"Tool({self.name})"


@overload
def tool(name: Callable[..., Any]) -> Tool: ...
@overload
def tool(
    name: str | None = None,
    description: str | None = None,
    *,
    parameters: dict[str, Any] | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    blocking: bool | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    name: Any = None,
    description: str | None = None,
    *,
    parameters: dict[str, Any] | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    blocking: bool | None = None,
) -> Any:
    """Makes a tool of a function; name, description and schema come from its signature and docstring.

    With `parameters`, a JSON Schema, the annotations are not read. A parameter annotated `ToolContext` takes the
    call's context either way.

    `blocking` says where a synchronous function runs when it is dispatched from an event loop: None and True on
    a pool thread, False in place.
    """
    if callable(name):
        return Tool(name)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"a tool is a function, or @tool(name, ...) with a text, not {type(name).__name__}")

    def decorate(function: Callable[..., Any]) -> Tool:
        return Tool(
            function,
            name=name,
            description=description,
            parameters=parameters,
            read_only=read_only,
            idempotent=idempotent,
            blocking=blocking,
        )

    return decorate


class ToolRegistry:
    """Tools by name, with middleware around every call that is dispatched through it."""

    def __init__(self, *, runtime: _native.Runtime | None = None) -> None:
        self._native = _native.NativeRegistry(default_runtime() if runtime is None else runtime)

    def register(self, *items: Tool | ToolRegistry | Callable[..., Any]) -> ToolRegistry:
        """Registers tools, plain functions and registries: all or none. A taken name is `AlreadyExists`.

        A registry's tools are taken as they are now and keep its middleware, inside this one's.
        """
        self._native.register([_native_item(item) for item in items])
        return self

    def use(self, *middleware: Any) -> ToolRegistry:
        """Adds middleware inside those that are there: callables `(call, next)`, with `on_refused` if they like."""
        for one in middleware:
            if not callable(one):
                raise TypeError(f"a middleware is a callable (call, next), not {type(one).__name__}")
        for one in middleware:
            self._native.use_middleware(one, getattr(one, "__name__", type(one).__name__))
        return self

    def middleware(self) -> list[Any]:
        """Lists the middleware in the order in which it runs, outermost first."""
        return self._native.middleware()

    def descriptors(self) -> list[Descriptor]:
        """Lists the tools' manifest entries in the order of registration."""
        return self._native.descriptors()

    def subset(self, names: Iterable[str]) -> ToolRegistry:
        """Copies the named tools and the middleware as they are now; no names give no tools."""
        if isinstance(names, str):
            raise TypeError("subset takes a list of names, not one name")
        made = ToolRegistry.__new__(ToolRegistry)
        made._native = self._native.subset(list(names))
        return made

    def manifest(self, provider: str | None = None) -> Any:
        """Renders the tools for a provider (`openai_chat`, `openai_responses`, `anthropic`, `gemini`, `mcp`)."""
        return self._native.manifest(provider)

    def explain(self, name: str, *, scope: ScopeHandle | None = None) -> list[dict[str, Any]]:
        """Lists what runs for a call to `name` made here: the runtime's entries, then the middleware."""
        return self._native.explain(name, scope)

    def dispatch(
        self,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Calls a tool once it is awaited, and gives the tool's own result. Arguments are a dict or JSON text.

        A tool that is not there is `ToolNotFound`, one that a subset left out `ToolNotPermitted`; a missing or
        unexpected argument is `InvalidArgument`.
        """
        return self._native.dispatch(name, arguments, context, metadata=metadata, tool_call_id=tool_call_id)

    def dispatch_json(
        self,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
    ) -> Coroutine[Any, Any, str]:
        """Like `dispatch`, and gives the text `{"result": ...}`."""
        return self._native.dispatch_json(name, arguments, context, metadata=metadata, tool_call_id=tool_call_id)

    def dispatch_sync(
        self,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
    ) -> Any:
        """Calls a tool on this thread, outside any event loop; an awaitable callback is `InvalidReturn`."""
        awaitable = self.dispatch(name, arguments, context, metadata=metadata, tool_call_id=tool_call_id)
        return default_runtime().run_blocking(awaitable)


def _native_item(item: Any) -> Any:
    if isinstance(item, ToolRegistry):
        return item._native  # pyright: ignore[reportPrivateUsage]
    if not isinstance(item, Tool):
        if not callable(item):
            raise TypeError(f"expected a tool, a function or a registry, not {type(item).__name__}")
        item = Tool(item)
    return item._native_tool()  # pyright: ignore[reportPrivateUsage]
