"""Callweir decides which tool and model calls may run, changes them, wraps them, and records them."""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _native, _pool, _support, errors
from .errors import *  # noqa: F403

_native.setup(errors.BY_NAME, errors.Error, _support)

from . import export, guardrails, intercepts, scope, subscribers, tools  # noqa: E402
from ._native import (  # noqa: E402
    Cancellation,
    Descriptor,
    Event,
    ManualCall,
    Next,
    ScopeHandle,
    ToolCall,
    ToolCallCompleted,
    ToolCallStarted,
    ToolContext,
    __version__,
    current_call,
    for_model,
)
from ._registry import Tool, ToolRegistry, tool  # noqa: E402
from ._runtime import (  # noqa: E402
    Runtime,
    Verdict,
    attach,
    configure,
    explain,
    propagation,
    registrations,
    shutdown,
    shutdown_async,
)
from .scope import ScopeType  # noqa: E402

EXIT_SECONDS = 5.0
"""How long queued events, and tools that still run, may hold up the end of the process."""


def _at_exit() -> None:
    from time import monotonic

    until = monotonic() + EXIT_SECONDS
    _native.at_exit(EXIT_SECONDS)
    _pool.wait(until - monotonic())


_atexit.register(_at_exit)
_os.register_at_fork(after_in_child=_native.after_fork)

__all__ = [
    "Cancellation",
    "Descriptor",
    "Event",
    "ManualCall",
    "Next",
    "Runtime",
    "ScopeHandle",
    "ScopeType",
    "Tool",
    "ToolCall",
    "ToolCallCompleted",
    "ToolCallStarted",
    "ToolContext",
    "ToolRegistry",
    "Verdict",
    "__version__",
    "attach",
    "configure",
    "current_call",
    "errors",
    "explain",
    "export",
    "for_model",
    "guardrails",
    "intercepts",
    "propagation",
    "registrations",
    "scope",
    "shutdown",
    "shutdown_async",
    "subscribers",
    "tool",
    "tools",
]
__all__ += errors.__all__
