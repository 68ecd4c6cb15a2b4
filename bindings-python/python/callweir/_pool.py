"""Threads for synchronous tools: one for each that runs, kept for the next."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

IDLE_SECONDS = 30.0
"""How long a thread waits for its next job."""


class _Pool:
    def __init__(self) -> None:
        self.lock = Lock()
        self.idle: list[_Worker] = []
        self.running = 0
        self.abandoned = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self.lock:
            self.running += 1
            worker = self.idle.pop() if self.idle else None
        if worker is None:
            worker = _Worker(self)
            try:
                worker.start()
            except BaseException:
                with self.lock:
                    self.running -= 1
                raise
        worker.jobs.put(job)


class _Worker(Thread):
    def __init__(self, pool: _Pool) -> None:
        # A tool that never ends must not keep the process alive.
        super().__init__(name="callweir-tool", daemon=True)
        self.pool = pool
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        from queue import Empty

        while True:
            try:
                job = self.jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                with self.pool.lock:
                    if self not in self.pool.idle:
                        continue
                    self.pool.idle.remove(self)
                return
            try:
                job()
            finally:
                # The job holds the caller's context and arguments; an idle thread must not.
                del job
                with self.pool.lock:
                    self.pool.running -= 1
                    self.pool.idle.append(self)


_pool = _Pool()


def run(context: Context, function: Callable[..., Any], keywords: dict[str, Any], done: Any) -> None:
    """Runs a function on a thread of the pool; `done(value, error)` takes its end."""

    def job() -> None:
        nonlocal function, keywords, context, done
        if done.is_abandoned():
            return
        try:
            value = context.run(function, **keywords)
        except BaseException as error:
            waited = done(None, error)
        else:
            waited = done(value, None)
            if not waited and hasattr(value, "__await__") and hasattr(value, "close"):
                # Nobody will await it; Python must not warn about that.
                value.close()
            del value
        if not waited:
            with _pool.lock:
                _pool.abandoned += 1
        # A closure in a traceback may outlive the job.
        del function, keywords, context, done

    _pool.submit(job)


def abandoned() -> int:
    """Returns how many tools ended after their caller had gone."""
    return _pool.abandoned


def after_fork() -> None:
    """Forgets the parent's threads, which the child does not have."""
    global _pool
    _pool = _Pool()


def wait(timeout: float) -> None:
    """Waits for running tools to end, at most this long: a thread that enters a dying interpreter may crash it."""
    until = monotonic() + timeout
    while _pool.running and monotonic() < until:
        sleep(0.005)


os.register_at_fork(after_in_child=after_fork)
