"""What one replay holds: the runtime, everything that steps have named, and the trace so far."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import callweir

if TYPE_CHECKING:
    from .hosts import Host

T = TypeVar("T")


class Style(Enum):
    """How the driver writes its callbacks."""

    ASYNC = "async"
    """Every callback is a coroutine function."""
    SYNC = "sync"
    """Every callback that does not have to wait is a plain function."""
    INLINE = "inline"
    """As `SYNC`, with subscribers that are drained on the emitting loop."""

    def __repr__(self) -> str:
        return self.value


class HostError(Exception):
    """The failure that behaviours raise."""


class HostCancelled(Exception):
    """Says that a call ended as the event loop's own cancellation asked."""


class Broken(Exception):
    """A mistake in the scenario itself."""


@dataclass
class Token:
    """A token of Callweir's, and what else happens when it fires."""

    cancellation: callweir.Cancellation = field(default_factory=callweir.Cancellation)
    hooks: list[Callable[[], object]] = field(default_factory=list)

    def when_fired(self, hook: Callable[[], object]) -> None:
        """Calls `hook` when the token fires."""
        self.hooks.append(hook)

    def fire(self) -> None:
        """Fires the token."""
        self.cancellation.cancel()
        for hook in self.hooks:
            hook()


@dataclass
class Trace:
    """The lists that become the trace."""

    steps: list[Any] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    queued: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


class World:
    """A replay in progress."""

    def __init__(self, scenario: dict[str, Any], style: Style, host: Host) -> None:
        self.style = style
        self.host = host
        self.runtime = callweir.Runtime(**scenario.get("options", {}))
        self.trace = Trace()
        self.raised: list[HostError] = []
        self.registries: dict[str, callweir.ToolRegistry] = {}
        self.tools: dict[str, callweir.Tool] = {}
        self.scopes: dict[str, callweir.ScopeHandle] = {}
        self.calls: dict[str, callweir.ManualCall] = {}
        self.nexts: dict[str, Callable[[Any], Any]] = {}
        self.tokens: dict[str, Token] = {}
        self.propagations: dict[str, Any] = {}

    @property
    def inline(self) -> bool:
        """Whether subscribers are drained on the emitting loop."""
        return self.style is Style.INLINE

    @property
    def sync(self) -> bool:
        """Whether callbacks are plain functions where they can be."""
        return self.style is not Style.ASYNC

    def token(self, name: str) -> Token:
        """Finds a token, which comes into being when first named."""
        return self.tokens.setdefault(name, Token())

    def maybe_scope(self, name: str | None) -> callweir.ScopeHandle | None:
        """Finds a scope where one is named."""
        return None if name is None else known("scope", name, self.scopes)

    def fail(self, message: str) -> HostError:
        """Makes the failure that a behaviour raises, to be known again when it arrives."""
        error = HostError(message)
        self.raised.append(error)
        return error

    def log(self, entry: dict[str, Any], queued: bool) -> None:
        """Logs what a callback recorded, as it is now; what queued callbacks do is kept apart."""
        (self.trace.queued if queued else self.trace.log).append(copy.deepcopy(entry))

    def note_step(self, entry: dict[str, Any], queued: bool) -> None:
        """Notes a labelled step's end."""
        (self.trace.queued if queued else self.trace.steps).append(copy.deepcopy(entry))


def known(kind: str, name: str, found: dict[str, T]) -> T:
    """Finds what a step names; a scenario that names nothing is broken."""
    try:
        return found[name]
    except KeyError:
        raise Broken(f"no {kind} '{name}' in this scenario") from None
