"""Tool calls: managed, manual, and single phases of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _native
from ._native import Cancellation, ManualCall, ScopeHandle, default_runtime

if TYPE_CHECKING:
    # Only annotations name it, and it is slow to import.
    from datetime import datetime

T = TypeVar("T")


@overload
def execute(
    name: str,
    args: Any,
    func: Callable[[Any], Coroutine[Any, Any, T]],
    *,
    metadata: Any = None,
    tool_call_id: str | None = None,
    cancellation: Cancellation | None = None,
) -> Coroutine[Any, Any, T]: ...
@overload
def execute(
    name: str,
    args: Any,
    func: Callable[[Any], Awaitable[T]],
    *,
    metadata: Any = None,
    tool_call_id: str | None = None,
    cancellation: Cancellation | None = None,
) -> Coroutine[Any, Any, T]: ...
@overload
def execute(
    name: str,
    args: Any,
    func: Callable[[Any], T],
    *,
    metadata: Any = None,
    tool_call_id: str | None = None,
    cancellation: Cancellation | None = None,
) -> Coroutine[Any, Any, T]: ...
def execute(
    name: str,
    args: Any,
    func: Callable[[Any], Any],
    *,
    metadata: Any = None,
    tool_call_id: str | None = None,
    cancellation: Cancellation | None = None,
) -> Any:
    """Makes a managed tool call once it is awaited, and gives what `func` returned.

    Guardrails and request intercepts run first, execution intercepts around `func(args)`. A rejection is
    `CallRejected`; whatever a callback raises arrives as the same object. Cancelling the awaiting task reaches
    the innermost callback first; `cancellation` fires `Cancelled`.
    """
    return default_runtime().execute(
        name, args, func, metadata=metadata, tool_call_id=tool_call_id, cancellation=cancellation
    )


if not TYPE_CHECKING:
    # The runtime's own method: going through a Python function would add a fifth to the cost of a call.
    execute = default_runtime().execute


def execute_sync(
    name: str,
    args: Any,
    func: Callable[[Any], Any],
    *,
    metadata: Any = None,
    tool_call_id: str | None = None,
    cancellation: Cancellation | None = None,
) -> Any:
    """Makes a managed tool call on this thread, outside any event loop.

    An awaitable callback on the way is `InvalidReturn`, naming the entry.
    """
    awaitable = execute(
        name, args, func, metadata=metadata, tool_call_id=tool_call_id, cancellation=cancellation
    )
    return default_runtime().run_blocking(awaitable)


def call(
    name: str,
    args: Any,
    *,
    handle: ScopeHandle | None = None,
    metadata: Any = None,
    tool_call_id: str | None = None,
    attributes: list[str] | None = None,
    timestamp: datetime | float | None = None,
) -> ManualCall:
    """Starts a call that the program runs itself; end it with `call_end`. It runs no middleware."""
    return default_runtime().start_call(
        name,
        args,
        metadata=metadata,
        tool_call_id=tool_call_id,
        attributes=attributes,
        scope=handle,
        timestamp=timestamp,
    )


def call_end(
    handle: ManualCall,
    result: Any = None,
    *,
    error: BaseException | None = None,
    outcome: str | None = None,
    timestamp: datetime | float | None = None,
) -> None:
    """Ends a manual call; a second end is `AlreadyEnded`."""
    handle.end(result, error=error, outcome=outcome, timestamp=timestamp)


def conditional_execution(name: str, args: Any) -> Awaitable[None] | None:
    """Runs the guardrails of a call, with their events, and nothing else; a rejection is `CallRejected`.

    Outside a running event loop it returns at once, inside one it must be awaited.
    """
    return default_runtime().conditional_execution(name, args)


def request_intercepts(name: str, args: Any) -> Any:
    """Runs the request intercepts of a call and gives the arguments; emits nothing.

    Outside a running event loop it returns at once, inside one it must be awaited.
    """
    return default_runtime().request_intercepts(name, args)


current_call = _native.current_call

__all__ = [
    "call",
    "call_end",
    "conditional_execution",
    "current_call",
    "execute",
    "execute_sync",
    "request_intercepts",
]
