"""Callweir decides which tool and model calls may run, changes them, wraps them, and records them."""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _native, _pool, _support, errors
from .errors import *  # noqa: F403

_native.setup(errors.BY_NAME, errors.Error, _support)

# `as` marks what is public; a list of names would have to repeat those of the errors.
from . import (  # noqa: E402
    export as export,
    guardrails as guardrails,
    intercepts as intercepts,
    scope as scope,
    subscribers as subscribers,
    tools as tools,
)
from ._native import (  # noqa: E402
    Cancellation as Cancellation,
    Descriptor as Descriptor,
    Event as Event,
    ManualCall as ManualCall,
    Next as Next,
    ScopeHandle as ScopeHandle,
    ToolCall as ToolCall,
    ToolCallCompleted as ToolCallCompleted,
    ToolCallStarted as ToolCallStarted,
    ToolContext as ToolContext,
    __version__ as __version__,
    current_call as current_call,
    for_model as for_model,
)
from ._registry import (  # noqa: E402
    Tool as Tool,
    ToolRegistry as ToolRegistry,
    tool as tool,
)
from ._runtime import (  # noqa: E402
    Runtime as Runtime,
    Verdict as Verdict,
    attach as attach,
    configure as configure,
    explain as explain,
    propagation as propagation,
    registrations as registrations,
    shutdown as shutdown,
    shutdown_async as shutdown_async,
)
from .scope import ScopeType as ScopeType  # noqa: E402

EXIT_SECONDS = 5.0
"""How long queued events, and tools that still run, may hold up the end of the process."""


def _at_exit() -> None:
    from time import monotonic

    until = monotonic() + EXIT_SECONDS
    _native.at_exit(EXIT_SECONDS)
    _pool.wait(until - monotonic())


_atexit.register(_at_exit)
_os.register_at_fork(after_in_child=_native.after_fork)
