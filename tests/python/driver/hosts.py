"""The event loops that scenarios run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import trio
import uvloop

from .world import HostCancelled, Token

LONGEST = 20.0
"""Seconds that a scenario may take; one that hangs fails after them."""

Cancellable = Callable[[Token, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Host:
    """One kind of event loop: how it runs a coroutine, sleeps, and cancels."""

    name: str
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    cancellable: Cancellable

    def __repr__(self) -> str:
        return self.name


async def _cancel_task(token: Token, running: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a call in a task of its own, which the token cancels."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(running)

    def cancel() -> None:
        # A token may be fired where a pool thread runs a synchronous tool.
        if asyncio._get_running_loop() is loop:  # pyright: ignore[reportPrivateUsage]
            task.cancel()
        else:
            loop.call_soon_threadsafe(task.cancel)

    token.when_fired(cancel)
    try:
        return await task
    except asyncio.CancelledError as error:
        if task.cancelled():
            raise HostCancelled from error
        raise


async def _cancel_scope(token: Token, running: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a call in a cancel scope, which the token cancels."""
    here = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:

        def cancel() -> None:
            if trio.lowlevel.in_trio_run():
                scope.cancel()
            else:
                here.run_sync_soon(scope.cancel)

        token.when_fired(cancel)
        return await running
    raise HostCancelled


def _run_asyncio(running: Coroutine[Any, Any, Any], factory: Any = None) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(LONGEST):
            return await running

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(limited())


def _run_trio(running: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        with trio.fail_after(LONGEST):
            return await running

    return trio.run(limited)


ASYNCIO = Host("asyncio", _run_asyncio, _cancel_task)
UVLOOP = Host("uvloop", lambda running: _run_asyncio(running, uvloop.new_event_loop), _cancel_task)
TRIO = Host("trio", _run_trio, _cancel_scope)
