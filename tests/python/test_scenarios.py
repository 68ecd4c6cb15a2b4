"""Replays every scenario through the Python door and compares its trace with the golden one."""

from __future__ import annotations

from typing import Any

import pytest
from driver import ASYNCIO, TRIO, UVLOOP, Host, Style, difference, names, read, replay

LACKING = {"component": "entries of a component come with plugins"}
"""What this door does not offer yet, and why."""


def cases(*hosts: Host) -> list[Any]:
    """Lists every scenario on every host."""
    return [pytest.param(name, host, id=f"{name}-{host!r}") for host in hosts for name in names()]


def check(name: str, style: Style, host: Host) -> None:
    """Fails with the first line of the trace that differs."""
    scenario = read(name)
    for need in scenario.get("needs", []):
        if need in LACKING:
            pytest.skip(LACKING[need])
    different = difference(name, replay(scenario, style, host))
    assert different is None, different


@pytest.mark.parametrize("style", Style, ids=repr)
@pytest.mark.parametrize(("name", "host"), cases(ASYNCIO))
def test_on_asyncio(name: str, host: Host, style: Style) -> None:
    check(name, style, host)


@pytest.mark.parametrize("style", [Style.ASYNC, Style.SYNC], ids=repr)
@pytest.mark.parametrize(("name", "host"), cases(UVLOOP, TRIO))
def test_on_other_loops(name: str, host: Host, style: Style) -> None:
    check(name, style, host)


def test_a_changed_trace_is_found() -> None:
    scenario = read("execution_intercepts_nest")
    assert difference("middleware_order", replay(scenario, Style.ASYNC, ASYNCIO)) is not None
