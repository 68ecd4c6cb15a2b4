"""Runtimes, and the module-level functions over the default one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import ScopeHandle, default_runtime

if TYPE_CHECKING:
    from collections.abc import Generator


class Verdict:
    """What a guardrail decided, where None and a reason are not explicit enough."""

    __slots__ = ("allowed", "reason")

    def __init__(self, allowed: bool, reason: str = "") -> None:
        self.allowed = allowed
        self.reason = reason

    @classmethod
    def allow(cls) -> Verdict:
        """Lets the call go on."""
        return cls(True)

    @classmethod
    def reject(cls, reason: str) -> Verdict:
        """Rejects the call."""
        return cls(False, reason)

    def __repr__(self) -> str:
        return "Verdict.allow()" if self.allowed else f"Verdict.reject({self.reason!r})"


def _settings(**given: Any) -> dict[str, Any]:
    names = ("queue_events", "queue_bytes", "sanitizer_timeout", "credential_headers", "error_text")
    settings = {name: given.get(name) for name in names}
    if settings["credential_headers"] is not None:
        settings["credential_headers"] = list(settings["credential_headers"])
    return settings


class Runtime(_native.Runtime):
    """Registrations, scopes and the dispatcher that belong together. Two runtimes share nothing.

    `default` converts values that JSON has no form for. `queue_events` and `queue_bytes` bound the event queue
    (32,768 and 64 MiB); `sanitizer_timeout` is the time in seconds that one sanitizer or subscriber may take for
    one event (10); `credential_headers` are removed from observed requests beside the built-in ones;
    `error_text` puts the text of errors into end events.
    """

    def __new__(
        cls,
        *,
        default: Callable[[Any], Any] | None = None,
        queue_events: int | None = None,
        queue_bytes: int | None = None,
        sanitizer_timeout: float | None = None,
        credential_headers: Iterable[str] | None = None,
        error_text: bool | None = None,
    ) -> Runtime:
        settings = _settings(
            queue_events=queue_events,
            queue_bytes=queue_bytes,
            sanitizer_timeout=sanitizer_timeout,
            credential_headers=credential_headers,
            error_text=error_text,
        )
        return super().__new__(cls, default=default, settings=settings)  # type: ignore[return-value]

    @staticmethod
    def default() -> _native.Runtime:
        """Returns the runtime that the module-level functions use."""
        return default_runtime()


def configure(
    *,
    default: Callable[[Any], Any] | None = None,
    queue_events: int | None = None,
    queue_bytes: int | None = None,
    sanitizer_timeout: float | None = None,
    credential_headers: Iterable[str] | None = None,
    error_text: bool | None = None,
) -> None:
    """Changes settings of the default runtime; what is not given stays. See `Runtime` for their meaning."""
    settings = _settings(
        queue_events=queue_events,
        queue_bytes=queue_bytes,
        sanitizer_timeout=sanitizer_timeout,
        credential_headers=credential_headers,
        error_text=error_text,
    )
    default_runtime().change(default=default, settings=settings)


def shutdown(timeout: float = 5.0) -> int:
    """Ends what is open, delivers what is queued and stops, within `timeout` seconds.

    Returns how many events were not delivered. Calls and registrations fail with `ShutDown` from then on; a
    second shutdown does nothing. On a running event loop await `shutdown_async`.
    """
    return default_runtime().shutdown(timeout)


def shutdown_async(timeout: float = 5.0) -> Awaitable[int]:
    """Like `shutdown`, awaitable."""
    return default_runtime().shutdown_async(timeout)


def explain(kind: str, name: str, *, scope: ScopeHandle | None = None) -> list[dict[str, Any]]:
    """Lists what applies to a call of `kind` (`tool` or `llm`) made here, in the order in which it runs."""
    return default_runtime().explain(kind, name, scope=scope)


def registrations() -> list[dict[str, Any]]:
    """Lists what is installed, with its owners."""
    return default_runtime().registrations()


def propagation() -> dict[str, Any] | None:
    """Returns what another process needs to continue under the current scope; None outside any scope."""
    handle = _native.get_handle()
    return None if handle is None else handle.propagation()


def attach(value: Any) -> AbstractContextManager[ScopeHandle]:
    """Continues under a scope of another process, for the length of a `with` block; it is never ended here.

    A value that `propagation` did not give is `InvalidArgument`.
    """
    handle = default_runtime().attach(value)

    @contextmanager
    def attached() -> Generator[ScopeHandle, None, None]:
        token = handle.enter()
        try:
            yield handle
        finally:
            handle.leave(token)

    return attached()
