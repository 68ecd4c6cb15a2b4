"""After a fork."""

from __future__ import annotations

import sys

import pytest

from helpers import at_most, clean, script

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")

BEFORE = """
    import asyncio, os, sys, threading, warnings
    from callweir import ToolRegistry, guardrails, scope, subscribers, tool, tools
    warnings.simplefilter("ignore", DeprecationWarning)
    hold = threading.Event()
    events = []
    def note(event):
        hold.wait(0.2)
        events.append((os.getpid(), event.name))
    subscribers.register("s", note)
    async def slow(name, args): await asyncio.sleep(0)
    guardrails.register_tool_conditional_execution("g", 0, slow)
    registry = ToolRegistry().register(tool(name="r")(lambda: os.getpid()))
    async def use(name):
        assert await registry.dispatch("r", {}) == os.getpid()
        return await tools.execute(name, {}, lambda args: os.getpid())
    assert asyncio.run(use("parent")) == os.getpid()
    scope.event("queued by the parent")

    def child():
        del events[:]
        hold.set()
        assert asyncio.run(use("child")) == os.getpid()
        subscribers.register("late", lambda event: None)
        assert subscribers.flush(5) == 0
        names = {name for pid, name in events if pid == os.getpid()}
        assert "child" in names and "r" in names, events
        assert not names & {"parent", "queued by the parent"}, names

    def parent_goes_on():
        hold.set()
        assert asyncio.run(use("later")) == os.getpid()
        assert subscribers.flush(5) == 0
        names = [name for _, name in events]
        assert names.count("queued by the parent") == 1 and "later" in names and "child" not in names, names
        print("parent is well")
"""


@pytest.mark.parametrize("ends", ["exit", "_exit"])
def test_c66_os_fork(ends: str) -> None:
    with at_most(15):
        done = script(
            BEFORE
            + f"""
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException:
            import traceback; traceback.print_exc(); os._exit(9)
        {"os._exit(0)" if ends == "_exit" else "sys.exit(0)"}
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    parent_goes_on()
"""
        )
    assert clean(done) == "parent is well\n"


def test_c66_a_fork_on_another_thread_and_a_child_that_does_nothing() -> None:
    done = script(
        BEFORE
        + """
    def forks():
        pid = os.fork()
        if pid == 0:
            os._exit(0) if sys.argv[0] == "never" else child()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    thread = threading.Thread(target=forks)
    thread.start()
    thread.join()
    parent_goes_on()
"""
    )
    assert clean(done) == "parent is well\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_c66_multiprocessing(method: str, tmp_path: object) -> None:
    path = f"{tmp_path}/main.py"
    body = BEFORE.replace("\n    ", "\n")
    if method == "spawn":
        body += """
def alone():
    assert asyncio.run(use("child")) == os.getpid()
    assert subscribers.flush(5) == 0
"""
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            body
            + f"""
if __name__ == "__main__":
    import multiprocessing
    context = multiprocessing.get_context({method!r})
    process = context.Process(target={"child" if method == "fork" else "alone"})
    process.start()
    process.join(20)
    assert process.exitcode == 0, process.exitcode
    parent_goes_on()
"""
        )
    import subprocess

    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30, check=False)
    assert clean(done) == "parent is well\n"
