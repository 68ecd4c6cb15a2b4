"""Scopes: units of work with a start and an end, the parents of calls, marks and scopes inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ._native import ScopeHandle, default_runtime, get_handle

if TYPE_CHECKING:
    # Only annotations name them, and `datetime` is slow to import.
    from datetime import datetime
    from types import TracebackType


class ScopeType:
    """The types of scopes; each is the text that events show."""

    Agent: Final = "agent"
    Function: Final = "function"
    Tool: Final = "tool"
    Llm: Final = "llm"
    Retriever: Final = "retriever"
    Embedder: Final = "embedder"
    Reranker: Final = "reranker"
    Guardrail: Final = "guardrail"
    Evaluator: Final = "evaluator"
    Custom: Final = "custom"
    Unknown: Final = "unknown"


class scope:  # noqa: N801  (used like a function)
    """Opens a scope for the length of a `with` or `async with` block and makes it current inside.

    It ends `succeeded`, or `failed` with the exception's type (`cancelled` for one that is no `Exception`). Set
    `output` on the handle's manager with `set_output` to show it in the end event.
    """

    def __init__(
        self,
        name: str,
        type: str = "function",
        *,
        handle: ScopeHandle | None = None,
        input: Any = None,
        metadata: Any = None,
        attributes: list[str] | None = None,
        data_schema: Any = None,
        timestamp: datetime | float | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "parent": handle,
            "input": input,
            "metadata": metadata,
            "attributes": attributes,
            "data_schema": data_schema,
            "timestamp": timestamp,
        }
        self._name = name
        self._type = type
        self._open: list[tuple[ScopeHandle, Any]] = []
        self._output: Any = None

    def set_output(self, output: Any) -> None:
        """Sets the output that the end event shows."""
        self._output = output

    def __enter__(self) -> ScopeHandle:
        handle = default_runtime().open_scope(self._name, self._type, **self._arguments)
        self._open.append((handle, handle.enter()))
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handle, token = self._open.pop()
        handle.leave(token)
        handle.close(self._output, error=error)

    async def __aenter__(self) -> ScopeHandle:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


def push(
    name: str,
    type: str = "function",
    *,
    handle: ScopeHandle | None = None,
    input: Any = None,
    metadata: Any = None,
    attributes: list[str] | None = None,
    data_schema: Any = None,
    timestamp: datetime | float | None = None,
) -> ScopeHandle:
    """Opens a scope and makes it current; end it with `pop`."""
    opened = default_runtime().open_scope(
        name,
        type,
        parent=handle,
        input=input,
        metadata=metadata,
        attributes=attributes,
        data_schema=data_schema,
        timestamp=timestamp,
    )
    opened.enter()
    return opened


def pop(
    handle: ScopeHandle | None = None,
    *,
    output: Any = None,
    metadata: Any = None,
    outcome: str | None = None,
    error: BaseException | None = None,
    timestamp: datetime | float | None = None,
) -> None:
    """Ends a scope, by default the current one; the scopes open inside end first, as abandoned.

    It may be called from anywhere. Closing a closed scope does nothing.
    """
    target = get_handle() if handle is None else handle
    if target is None:
        return
    target.close(
        output,
        metadata=metadata,
        outcome=outcome,
        error=error,
        timestamp=timestamp,
    )
    target.step_out()


def event(
    name: str,
    data: Any = None,
    metadata: Any = None,
    *,
    handle: ScopeHandle | None = None,
    data_schema: Any = None,
    timestamp: datetime | float | None = None,
) -> None:
    """Emits a mark under the current scope or the one given."""
    default_runtime().mark(
        name, data, metadata, scope=handle, data_schema=data_schema, timestamp=timestamp
    )


__all__ = ["ScopeHandle", "ScopeType", "event", "get_handle", "pop", "push", "scope"]
