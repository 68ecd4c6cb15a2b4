"""The life of the process: import, end, threads that still run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from helpers import at_most, clean, script

CALLS = """
    import asyncio, sys
    from callweir import export, guardrails, scope, subscribers, tools
    export.jsonl(sys.argv[1] if len(sys.argv) > 1 else __PATH__)
    async def main():
        for number in range(100):
            await tools.execute(f"t{number}", {"n": number}, lambda args: args)
    asyncio.run(main())
"""


def run(code: str, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    whole = textwrap.dedent(CALLS).replace("__PATH__", repr(str(path))) + textwrap.dedent(code)
    with at_most(15):
        return script(whole, *options)


def pairs(path: Path) -> int:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    starts = [line["uuid"] for line in lines if line["scope_category"] == "start"]
    ends = [line["uuid"] for line in lines if line["scope_category"] == "end"]
    assert sorted(starts) == sorted(ends)
    return len(starts)


ENDS = {
    "end of file": ("", 0),
    "sys.exit": ("sys.exit(0)", 0),
    "exit code": ("sys.exit(7)", 7),
    "exception": ("raise ValueError('mine')", 1),
}


@pytest.mark.parametrize("end", ENDS)
def test_c65_the_end_of_a_script(end: str, tmp_path: Path) -> None:
    code, returncode = ENDS[end]
    path = tmp_path / "events.jsonl"
    done = run(code, path, "-X", "dev")
    assert done.returncode == returncode
    if end == "exception":
        assert done.stderr.startswith("Traceback") and done.stderr.endswith("ValueError: mine\n")
        assert "callweir" not in done.stderr
    else:
        assert done.stderr == ""
    assert pairs(path) == 100


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_c65_python_callbacks_get_the_tail_too(kind: str) -> None:
    define = "def note(event):" if kind == "plain" else "async def note(event):"
    done = script(f"""
        import asyncio, atexit
        from callweir import guardrails, subscribers, tools
        seen = []
        {define} seen.append(event.name)
        {define.replace("note(event)", "clean(name, args)")} return args
        guardrails.register_tool_sanitize_request("c", 0, clean)
        subscribers.register("s", note)
        async def main():
            for number in range(100):
                await tools.execute("t", {{}}, lambda args: args)
        asyncio.run(main())
        from callweir import _at_exit
        atexit.unregister(_at_exit)
        atexit.register(lambda: print(len(seen)))
        atexit.register(_at_exit)
    """)
    assert clean(done) == "200\n"


def test_c65_shutdown(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = run(
        """
        import callweir
        ran = []
        handle = scope.push("S")
        manual = tools.call("m", {})
        print(callweir.shutdown(5), callweir.shutdown(5))
        try:
            asyncio.run(tools.execute("late", {}, ran.append))
        except callweir.ShutDown as error:
            print(error.code)
        try:
            guardrails.register_tool_conditional_execution("g", 0, len)
        except callweir.ShutDown as error:
            print(error.code)
        scope.event("late")
        scope.pop(handle)
        print(ran)
    """,
        path,
    )
    assert clean(done) == "0 0\nshut_down\nshut_down\n[]\n"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    outcomes = {line["name"]: line["metadata"]["callweir.outcome"] for line in lines if line["scope_category"] == "end"}
    assert outcomes["m"] == outcomes["S"] == "abandoned" and "late" not in outcomes
    assert pairs(path) == 102


def test_c65_a_stuck_subscriber_does_not_hold_up_the_end() -> None:
    with at_most(12):
        done = script("""
            import time
            from callweir import scope, subscribers
            subscribers.register("stuck", lambda event: time.sleep(60))
            scope.event("m")
            print("end", flush=True)
        """)
    assert clean(done) == "end\n"


@pytest.mark.parametrize("how", ["signal", "_exit"])
def test_c65_no_promise_but_no_crash(how: str) -> None:
    last = "os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)" if how == "signal" else "os._exit(4)"
    done = script(f"""
        import asyncio, os, signal, time
        from callweir import subscribers, tools
        subscribers.register("s", lambda event: None)
        async def main():
            for number in range(50):
                await tools.execute("t", {{}}, lambda args: args)
        asyncio.run(main())
        {last}
    """)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM if how == "signal" else 4, "")


BACKGROUND = {
    "pool": "task = asyncio.create_task(registry.dispatch('slow', {})); await asyncio.sleep(0.02)",
    "thread": "threading.Thread(target=registry.dispatch_sync, args=('slow', {}), daemon=True).start()",
    "loop": "threading.Thread(target=lambda: asyncio.run(tools.execute('t', {}, work)), daemon=True).start()",
    "own": "task = asyncio.create_task(tools.execute('t', {}, work)); await asyncio.sleep(0)",
}


@pytest.mark.parametrize("how", BACKGROUND)
@pytest.mark.parametrize("shutdown", [False, True])
def test_c67_a_native_thread_meets_a_dying_interpreter(how: str, shutdown: bool) -> None:
    for seconds in (0.0, 0.05, 0.3):
        with at_most(12):
            done = script(f"""
                import asyncio, threading, time
                import callweir
                from callweir import ToolRegistry, subscribers, tool, tools
                subscribers.register("s", lambda event: None)
                async def note(event): await asyncio.sleep(0.001)
                subscribers.register("a", note)
                @tool
                def slow(): time.sleep({seconds})
                async def work(args): await asyncio.sleep({seconds})
                registry = ToolRegistry().register(slow)
                async def main():
                    {BACKGROUND[how]}
                asyncio.run(main())
                {"callweir.shutdown(1)" if shutdown else ""}
            """)
        assert (done.returncode, done.stderr) == (0, ""), (how, seconds, done)


def test_c77_import_is_quiet_and_starts_nothing() -> None:
    done = script(
        """
        import sys, threading
        before = sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True
        import callweir
        after = sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True
        import os
        tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
        sockets = [fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2] if os.path.isdir("/proc/self/fd") else []
        print(before == after, threading.active_count(), tasks, len(sockets) <= 1)
    """,
        "-W",
        "error",
        "-X",
        "dev",
    )
    assert clean(done) == "True 1 1 True\n"


INNER = """
try:
    import callweir, asyncio
    assert asyncio.run(callweir.tools.execute("t", 1, lambda args: args)) == 1
except ImportError:
    pass
"""


def test_c77_a_sub_interpreter() -> None:
    done = script(f"""
        import asyncio, sys
        import callweir
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            try:
                import _interpreters as interpreters
            except ImportError:
                sys.exit(0)
        one = interpreters.create()
        failed = interpreters.run_string(one, {INNER!r})
        assert failed is None, failed
        interpreters.destroy(one)
        assert asyncio.run(callweir.tools.execute("t", 1, lambda args: args)) == 1
    """)
    clean(done)


def test_c77_the_stubs_and_the_marker_are_installed() -> None:
    import callweir

    assert (Path(callweir.__file__).parent / "py.typed").exists()


def test_signals_interrupt_blocking_waits() -> None:
    done = script("""
        import os, signal, threading, time
        from callweir import scope, subscribers
        release = threading.Event()
        subscribers.register("stuck", lambda event: release.wait(10))
        scope.event("m")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.perf_counter()
        try:
            subscribers.flush(8)
        except KeyboardInterrupt:
            print(time.perf_counter() - started < 4)
        release.set()
    """)
    assert clean(done) == "True\n"


def test_an_interrupted_program_is_quiet() -> None:
    code = textwrap.dedent("""
        import asyncio
        from callweir import tools
        async def work(args):
            print("running", flush=True)
            await asyncio.sleep(20)
        asyncio.run(tools.execute("t", {}, work))
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert errors.rstrip().endswith("KeyboardInterrupt") and "callweir" not in errors.lower().replace("/callweir", "")
    assert process.returncode in (-signal.SIGINT, 130, 1)
