"""Subscribers: who receives finished events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ._native import Event, ScopeHandle, ToolCallCompleted, ToolCallStarted, default_runtime


def register(
    name: str, fn: Callable[[Event], Any], *, scope: ScopeHandle | None = None, inline: bool = False
) -> None:
    """Registers a subscriber of every event.

    A synchronous one runs on the dispatcher's thread, an asynchronous one on the loop where the event was
    emitted. `inline=True` drains a quick synchronous one on that loop too, which is cheaper.
    """
    default_runtime().subscribe(name, fn, scope=scope, inline=inline)


def register_calls(
    name: str,
    fn: Callable[[ToolCallStarted | ToolCallCompleted], Any],
    *,
    scope: ScopeHandle | None = None,
    inline: bool = False,
) -> None:
    """Registers a subscriber of typed records of registry calls, which never carry arguments or results."""
    default_runtime().subscribe_calls(name, fn, scope=scope, inline=inline)


def deregister(name: str, *, scope: ScopeHandle | None = None) -> bool:
    """Removes a subscriber; returns whether it was there. What was emitted before is still delivered to it."""
    return default_runtime().unsubscribe(name, scope=scope)


def flush(timeout: float | None = None) -> int:
    """Waits until everything emitted before is delivered; returns how many events are still pending, 0 if none.

    In a sanitizer or subscriber, and on a running event loop, it is `WouldDeadlock`.
    """
    return default_runtime().flush(timeout)


def flush_async(timeout: float | None = None) -> Awaitable[int]:
    """Like `flush`, awaitable."""
    return default_runtime().flush_async(timeout)


__all__ = ["deregister", "flush", "flush_async", "register", "register_calls"]
