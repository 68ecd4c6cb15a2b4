"""trio as the native module sees event loops: the few methods of an asyncio loop that it uses.

Nothing here is public. It is imported only where trio runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

import trio


class Task:
    """A system task, as far as its end matters."""

    def __init__(self, loop: Loop, coro: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._coro = coro
        self._done: list[Callable[[Task], Any]] = []

    def add_done_callback(self, callback: Callable[[Task], Any]) -> None:
        """Calls back when the task has ended."""
        self._done.append(callback)

    def get_loop(self) -> Loop:
        """Returns the loop that the task runs on."""
        return self._loop

    def get_coro(self) -> Coroutine[Any, Any, Any]:
        """Returns what the task runs."""
        return self._coro

    async def run(self) -> None:
        """Runs the coroutine; a failure that went to nobody must not end trio."""
        try:
            await self._coro
        except Exception:
            pass
        finally:
            for callback in self._done:
                callback(self)


class Loop:
    """One run of trio."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._closed = False

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> None:
        """Calls back soon, from any thread; a run that has ended is a `RuntimeError`."""
        try:
            self._token.run_sync_soon(callback, *args)
        except trio.RunFinishedError as error:
            self._closed = True
            raise RuntimeError("the run of trio has ended") from error

    call_soon = call_soon_threadsafe

    def is_closed(self) -> bool:
        """Says whether the run has ended."""
        if not self._closed:
            try:
                self._token.run_sync_soon(_nothing, idempotent=True)
            except trio.RunFinishedError:
                self._closed = True
        return self._closed

    def is_running(self) -> bool:
        """Says whether the run goes on."""
        return not self.is_closed()

    def create_task(self, coro: Coroutine[Any, Any, Any], *, context: Context | None = None) -> Task:
        """Starts a task beside the program's own; called on trio's thread."""
        task = Task(self, coro)
        trio.lowlevel.spawn_system_task(task.run, context=context)
        return task


def _nothing() -> None:
    pass


_loops: WeakKeyDictionary[trio.lowlevel.TrioToken, Loop] = WeakKeyDictionary()


def running() -> Loop | None:
    """Returns the run on this thread."""
    if not trio.lowlevel.in_trio_run():
        return None
    token = trio.lowlevel.current_trio_token()
    loop = _loops.get(token)
    if loop is None:
        loop = _loops[token] = Loop(token)
    return loop
