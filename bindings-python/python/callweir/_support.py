"""What the native module does in Python: plain forms of values, event loops, threads.

Nothing here is public.
"""

from __future__ import annotations

import sys
from asyncio import _get_running_loop  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Generator
from contextvars import Context, ContextVar
from types import CoroutineType, coroutine
from typing import Any, cast
from weakref import WeakSet

from . import _pool

__all__ = ["CoroutineType"]

NOT_PLAIN: Any = object()
"""What `plain` gives for a value that has no plain form."""

current_scope: ContextVar[Any] = ContextVar("callweir_scope", default=None)
echo: ContextVar[int | None] = ContextVar("callweir_echo", default=None)
"""How many callbacks of the dispatcher lie behind a task; None outside them."""

run_pooled = _pool.run


def plain(value: Any) -> Any:
    """Gives the plain form of a date, data class, model or object with `toJSON`."""
    datetime = sys.modules.get("datetime")
    if datetime is not None:
        if isinstance(value, datetime.datetime):
            # RFC 3339 wants an offset; a naive time is local time, as everywhere in Python.
            aware = value if value.tzinfo is not None else value.astimezone()
            text: str = aware.isoformat()
            return text[:-6] + "Z" if text.endswith("+00:00") else text
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
    kind = cast(Any, type(value))
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        dataclasses = sys.modules["dataclasses"]
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json")
    if callable(getattr(kind, "toJSON", None)):
        return value.toJSON()
    return NOT_PLAIN


def parse(text: str) -> Any:
    """Reads JSON text that holds lone surrogates, which only Python's own strings can; `NOT_PLAIN` if it is no JSON."""
    import json
    from math import isfinite

    def number(shown: str) -> float:
        value = float(shown)
        if not isfinite(value):
            raise ValueError(shown)
        return value

    try:
        return json.loads(text, parse_float=number, parse_constant=number)
    except (ValueError, RecursionError):
        return NOT_PLAIN


def log(message: str) -> None:
    """Writes a warning; it names types and never the text of an error."""
    import logging

    logging.getLogger("callweir").warning(message)


def read_verdict(value: Any) -> tuple[bool, str] | None:
    """Reads a verdict object; None for anything else."""
    from . import Verdict

    return (value.allowed, value.reason) if isinstance(value, Verdict) else None


def is_async(function: Any) -> bool:
    """Says whether calling a function gives a coroutine, as far as can be seen without calling it."""
    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    if not hasattr(function, "__code__"):
        kind = cast(Any, type(function))
        function = function if hasattr(function, "__func__") else getattr(kind, "__call__", function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    # CO_COROUTINE; `inspect` says the same and takes ten times as long to import.
    return code is not None and bool(code.co_flags & 0x80)


def in_trio() -> bool:
    """Says whether trio runs on this thread."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def home_loop() -> Any:
    """Gives the loop of this thread to which queued callbacks may come back; a private one ends before they could."""
    loop = _get_running_loop()
    if loop is not None:
        return None if id(loop) in _private else loop
    if "trio" not in sys.modules:
        return None
    from . import _trio

    return _trio.running()


_private: set[int] = set()
"""The private loops that run now."""


def park() -> tuple[Any, Callable[[], None]]:
    """Gives an awaitable of the running loop's own kind, and what ends the wait for it from any thread."""
    loop = _get_running_loop()
    if loop is None:
        if not in_trio():
            raise RuntimeError("no event loop runs here to wait for the call; await it on one")
        return _park_trio()
    future = loop.create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    def resume() -> None:
        if _get_running_loop() is loop:
            settle()
            return
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop has closed: nobody waits there any more.
            pass

    return future.__await__(), resume


def _park_trio() -> tuple[Any, Callable[[], None]]:
    import trio

    task = trio.lowlevel.current_task()
    token = trio.lowlevel.current_trio_token()
    waiting = False

    def settle() -> None:
        nonlocal waiting
        if waiting:
            waiting = False
            trio.lowlevel.reschedule(task)

    def resume() -> None:
        try:
            token.run_sync_soon(settle, idempotent=True)
        except trio.RunFinishedError:
            pass

    def abort(_: Any) -> Any:
        nonlocal waiting
        waiting = False
        return trio.lowlevel.Abort.SUCCEEDED

    async def wait() -> None:
        nonlocal waiting
        waiting = True
        await trio.lowlevel.wait_task_rescheduled(abort)

    return wait(), resume


def trio_guard() -> tuple[Callable[[], None], Callable[[], None]]:
    """Enters a cancel scope; gives what cancels it from any thread, and what leaves it."""
    import trio

    scope = trio.CancelScope()
    scope.__enter__()
    token = trio.lowlevel.current_trio_token()

    def cancel() -> None:
        try:
            token.run_sync_soon(scope.cancel)
        except trio.RunFinishedError:
            pass

    def leave() -> None:
        scope.__exit__(None, None, None)

    return cancel, leave


def is_trio_cancelled(error: BaseException) -> bool:
    """Says whether an exception is trio's cancellation."""
    # It is the only exception of trio's that is no `Exception`.
    return type(error).__module__.startswith("trio") and not isinstance(error, Exception)


class _Awaiting:
    """Makes an awaitable of the iterator that `__await__` gave."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __await__(self) -> Any:
        return self.iterator


_tasks: dict[Any, Callable[[], None]] = {}
"""Tasks that run callbacks, which a loop refers to weakly, and what to do if their loop closes first."""
_guarded: WeakSet[Any] = WeakSet()
"""Loops whose end is noticed."""
FOR_EVER = 1e8
"""More than three years, in seconds; event loops refuse longer timers."""


class _Guard:
    """Waits in a loop's timers for ever, and so notices when the loop is closed: it forgets its timers then."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def __call__(self) -> None:
        self.loop.call_later(FOR_EVER, self)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _loop_closed(self.loop)


def _forget(task: Any) -> None:
    _tasks.pop(task, None)


def _keep(task: Any, closed: Callable[[], None]) -> None:
    loop = task.get_loop()
    # trio cancels what it runs before it ends, so there is nothing to notice.
    if loop not in _guarded and hasattr(loop, "call_later"):
        _guarded.add(loop)
        loop.call_later(FOR_EVER, _Guard(loop))
    _tasks[task] = closed
    task.add_done_callback(_forget)


def _loop_closed(loop: Any) -> None:
    """Ends what was under way on a loop that has closed, since nothing will ever resume it."""
    for task in list(_tasks):
        if task.get_loop() is not loop or (closed := _tasks.pop(task, None)) is None:
            continue
        closed()
        # Nothing is lost by accident here, so that nothing has to be reported.
        task._log_destroy_pending = False
        try:
            task.get_coro().close()
        except Exception:
            # What a callback raises in its clean-up has nobody to go to.
            pass


class _Away:
    """A callback's coroutine on its way to its own loop; one that the loop never began runs on a private loop."""

    def __init__(self, iterator: Any, context: Context | None, settle: Callable[[Any, Any], None]) -> None:
        self.work: tuple[Any, Context | None, Callable[[Any, Any], None]] | None = (iterator, context, settle)
        self.settle = settle

    def start(self, loop: Any) -> None:
        home = self.work[1] if self.work is not None else None
        task = loop.create_task(self.run(), context=home)
        _keep(task, self.loop_closed)
        # A task that is cancelled before its first step has not begun; its end may outlive it in a traceback.
        task.add_done_callback(self.ended)

    def ended(self, task: Any) -> None:
        self.__del__()

    async def run(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            await _settled(work[0], work[2])

    def loop_closed(self) -> None:
        from asyncio import CancelledError

        if self.work is None:
            self.settle(None, CancelledError())
        else:
            self.__del__()

    def __del__(self) -> None:
        # A loop that ends drops what it was asked to do, and cancels tasks before their first step.
        work, self.work = self.work, None
        if work is None or sys.is_finalizing():
            return
        from threading import Thread

        Thread(target=_run_privately, args=work, name="callweir-callback", daemon=True).start()


async def _settled(iterator: Any, settle: Callable[[Any, Any], None]) -> None:
    echo.set((echo.get() or 0) + 1)
    try:
        value = await cast(Any, iterator if type(iterator) is CoroutineType else _Awaiting(iterator))
    except BaseException as error:
        settle(None, error)
        if not isinstance(error, Exception):
            raise
    else:
        settle(value, None)


def run_away(iterator: Any, loop: Any, context: Context | None, settle: Callable[[Any, Any], None]) -> None:
    """Runs a callback's coroutine on its own loop, or on a private one where that loop has closed."""
    home = context.copy() if context is not None else None
    away = _Away(iterator, home, settle)
    if loop is not None and not loop.is_closed():
        try:
            if home_loop() is loop:
                away.start(loop)
            else:
                loop.call_soon_threadsafe(away.start, loop)
            return
        except RuntimeError:
            # It closed in between.
            pass
    away.work = None
    _run_privately(iterator, home, settle)


def _run_privately(iterator: Any, home: Context | None, settle: Callable[[Any, Any], None]) -> None:
    import asyncio

    async def main() -> None:
        key = id(asyncio.get_running_loop())
        _private.add(key)
        try:
            await _settled(iterator, settle)
        finally:
            _private.discard(key)

    if home is None:
        asyncio.run(main())
    else:
        home.run(asyncio.run, main())


@coroutine
def _cancel(target: Any, awaited: Any) -> Generator[Any, Any, None]:
    """Cancels a suspended coroutine as its task would have done, and lets its clean-up await."""
    import asyncio

    if isinstance(awaited, asyncio.Future):
        awaited.cancel()
    step: Callable[[], Any] = lambda: target.throw(asyncio.CancelledError())
    while True:
        try:
            yielded = step()
        except (StopIteration, asyncio.CancelledError):
            return
        try:
            value = yield yielded
        except BaseException as error:
            failure = error
            step = lambda: target.throw(failure)
        else:
            step = lambda: target.send(value)


def abandon(target: Any, awaited: Any, loop: Any) -> None:
    """Ends a coroutine that nobody waits for any more: cancelled on its loop, or closed where that has ended."""

    async def finish() -> None:
        try:
            await _cancel(target, awaited)
        except Exception:
            # Its caller has gone; what it raises in its clean-up has nobody to go to.
            pass

    def start() -> None:
        _keep(loop.create_task(finish()), lambda: None)

    if not hasattr(loop, "call_later"):
        # What is suspended in one task of trio cannot go on in another; it can only be closed.
        loop = None
    try:
        if loop is not None and home_loop() is loop:
            start()
            return
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(start)
            return
    except RuntimeError:
        pass
    try:
        target.close()
    except Exception:
        pass
