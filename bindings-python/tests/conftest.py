"""Fixtures of the Python door's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from callweir import scope, subscribers

from helpers import Seen, clear


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test begins and ends with an empty default runtime, no scope, and nothing that went wrong unseen."""
    wrong: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", wrong.append)
    yield
    subscribers.flush(10)
    clear()
    assert scope.get_handle() is None
    assert not wrong, wrong


@pytest.fixture
def seen() -> Seen:
    """The events of the default runtime."""
    return Seen().subscribe()


@pytest.fixture(params=["asyncio", "uvloop", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Every event loop that the door knows."""
    pytest.importorskip(request.param)
    return str(request.param)
