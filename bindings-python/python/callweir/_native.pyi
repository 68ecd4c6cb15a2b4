"""Types of the native module. CI compares them with the library by `mypy.stubtest`."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import Token
from datetime import datetime
from os import PathLike
from types import ModuleType, TracebackType
from typing import Any, Literal, Self, TypeVar, final, overload

from typing_extensions import disjoint_base

__all__ = [
    "Cancellation",
    "Descriptor",
    "Drive",
    "Event",
    "ManualCall",
    "NativeRegistry",
    "NativeTool",
    "Next",
    "Runtime",
    "ScopeHandle",
    "ToolCall",
    "ToolCallCompleted",
    "ToolCallStarted",
    "ToolContext",
    "__version__",
    "after_fork",
    "argument_error",
    "at_exit",
    "current_call",
    "default_runtime",
    "describe",
    "for_model",
    "get_handle",
    "setup",
]

_T = TypeVar("_T")

__version__: str

@final
class Drive(Coroutine[Any, Any, Any]):
    """An awaitable that runs on the host's thread. It counts as a coroutine wherever one is asked for."""

    def __await__(self) -> Self: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    @overload
    def throw(
        self, kind: type[BaseException], value: BaseException | object = None, traceback: TracebackType | None = None
    ) -> Any: ...
    @overload
    def throw(self, kind: BaseException, value: None = None, traceback: TracebackType | None = None) -> Any: ...
    def close(self) -> None:
        """Gives the call up; what was started ends as cancelled."""

@final
class Cancellation:
    """A token that cancels the calls it was given to, once it is fired."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None:
        """Cancels every call that was given the token, or one made from it."""
    @property
    def cancelled(self) -> bool:
        """Whether the token has fired."""
    def child(self) -> Cancellation:
        """Returns a token that fires with this one, and can be fired alone."""

@final
class ToolContext:
    """Who makes a call and under which limits. `deadline` is a number of seconds from now."""

    def __new__(
        cls,
        caller_id: str | None = None,
        metadata: Any = None,
        cancellation: Cancellation | None = None,
        deadline: float | None = None,
    ) -> Self: ...
    @property
    def caller_id(self) -> str | None:
        """The caller's id."""
    @property
    def metadata(self) -> Any:
        """Metadata of the run, the very object that was given."""
    @property
    def cancellation(self) -> Cancellation | None:
        """The token that cancels the call."""
    @property
    def deadline(self) -> float | None:
        """Seconds left until the deadline; less than 0 when it has passed."""
    def with_caller_id(self, caller_id: str) -> ToolContext:
        """Returns a copy with another caller's id."""
    def with_metadata(self, metadata: Any) -> ToolContext:
        """Returns a copy with other metadata."""
    def with_cancellation(self, cancellation: Cancellation) -> ToolContext:
        """Returns a copy with another token."""
    def with_deadline(self, deadline: float) -> ToolContext:
        """Returns a copy with a deadline in so many seconds, unless it has an earlier one."""

@final
class Descriptor:
    """What a registry tells about a tool."""

    def __new__(
        cls,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
        idempotent: bool = False,
    ) -> Self: ...
    @property
    def name(self) -> str:
        """The tool's name."""
    @property
    def description(self) -> str:
        """What the tool does."""
    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
    @property
    def read_only(self) -> bool:
        """Whether the tool changes nothing."""
    @property
    def idempotent(self) -> bool:
        """Whether running the tool twice is as good as once."""
    def check(self, arguments: object) -> None:
        """Checks the names of arguments, as a dispatch does: a missing or unexpected one is `InvalidArgument`."""

@final
class ToolCall:
    """One tool call on its way in."""

    def __new__(
        cls,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        descriptor: Descriptor | None = None,
    ) -> Self: ...
    @property
    def name(self) -> str:
        """The tool's name; it cannot be changed."""
    @property
    def arguments(self) -> Any:
        """The arguments, as the stage before left them."""
    @property
    def context(self) -> ToolContext:
        """Who makes the call."""
    @property
    def descriptor(self) -> Descriptor | None:
        """The tool's manifest entry; None outside a registry."""
    def with_arguments(self, arguments: Any) -> ToolCall:
        """Returns the call with other arguments."""
    def with_context(self, context: ToolContext) -> ToolCall:
        """Returns the call with another context; a later deadline is ignored."""
    def with_cancellation(self, cancellation: Cancellation) -> ToolCall:
        """Returns the call with another token."""

@final
class Next:
    """The rest of a chain: an execution intercept gives it arguments, a middleware the call."""

    def __call__(self, argument: Any) -> Coroutine[Any, Any, Any]:
        """Runs the rest of the chain, once the result is awaited."""

@final
class ScopeHandle:
    """A handle of a scope; all handles of one scope are equal."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def uuid(self) -> str:
        """The id."""
    @property
    def name(self) -> str:
        """The name."""
    @property
    def scope_type(self) -> str:
        """The type."""
    @property
    def parent_uuid(self) -> str | None:
        """The id of the scope around it."""
    @property
    def parent(self) -> ScopeHandle | None:
        """The scope around it."""
    @property
    def is_open(self) -> bool:
        """Whether it has not ended yet."""
    def close(
        self,
        output: Any = None,
        *,
        metadata: Any = None,
        outcome: str | None = None,
        error: BaseException | None = None,
        error_type: str | None = None,
        timestamp: datetime | float | None = None,
    ) -> None:
        """Closes the scope; what is open inside ends first. Closing a closed scope does nothing."""
    def enter(self) -> Token[ScopeHandle | None]:
        """Makes the scope current; returns what `leave` needs."""
    def leave(self, token: Token[ScopeHandle | None]) -> None:
        """Makes the scope from before `enter` current again."""
    def step_out(self) -> None:
        """Makes the nearest open scope around this one current, if this one is."""
    def propagation(self) -> dict[str, Any]:
        """Returns what another process needs to continue under the scope."""

@final
class ManualCall:
    """A call that the program runs itself."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def scope(self) -> ScopeHandle:
        """The scope of the call."""
    @property
    def uuid(self) -> str:
        """The id of the call."""
    def end(
        self,
        result: Any,
        *,
        error: BaseException | None = None,
        outcome: str | None = None,
        timestamp: datetime | float | None = None,
    ) -> None:
        """Ends the call."""

@final
class Event:
    """One event. Its payloads are this subscriber's own copies."""

    @property
    def kind(self) -> Literal["scope", "mark"]:
        """`scope` or `mark`."""
    @property
    def scope_category(self) -> Literal["start", "end"] | None:
        """`start` or `end`; None for a mark."""
    @property
    def atof_version(self) -> str:
        """The version of the format."""
    @property
    def uuid(self) -> str:
        """The id; start and end share it."""
    @property
    def parent_uuid(self) -> str | None:
        """The id of the scope around it."""
    @property
    def timestamp(self) -> str:
        """When it happened, RFC 3339."""
    @property
    def name(self) -> str:
        """The name of the call, scope or mark."""
    @property
    def category(self) -> str | None:
        """The type of the scope; None for a mark."""
    @property
    def attributes(self) -> list[str]:
        """Flags of the scope."""
    @property
    def data(self) -> Any:
        """The payload."""
    @property
    def data_schema(self) -> Any:
        """The schema of the payload."""
    @property
    def metadata(self) -> Any:
        """Free metadata and Callweir's own."""
    @property
    def category_profile(self) -> Any:
        """Facts that belong to the category."""
    @property
    def outcome(self) -> str | None:
        """How it ended; None for starts and marks."""
    def to_dict(self) -> dict[str, Any]:
        """Returns the event in the wire format."""
    def to_json(self) -> str:
        """Returns the event as one line of JSON."""

@final
class ToolCallStarted:
    """Says that a registry call started."""

    @property
    def tool(self) -> str:
        """The tool's name."""
    @property
    def caller_id(self) -> str | None:
        """The caller's id."""
    @property
    def uuid(self) -> str:
        """The id of the call."""
    @property
    def timestamp(self) -> float:
        """When it started, in seconds since 1970."""

@final
class ToolCallCompleted:
    """Says how a registry call ended."""

    @property
    def tool(self) -> str:
        """The tool's name."""
    @property
    def caller_id(self) -> str | None:
        """The caller's id."""
    @property
    def uuid(self) -> str:
        """The id of the call."""
    @property
    def timestamp(self) -> float:
        """When it ended, in seconds since 1970."""
    @property
    def outcome(self) -> str:
        """How it ended."""
    @property
    def error_type(self) -> str | None:
        """The type of the failure."""
    @property
    def duration(self) -> float:
        """How long it took, in seconds, middleware included."""
    @property
    def short_circuited(self) -> bool:
        """Whether it was answered without running the tool."""

@final
class NativeTool:
    """A tool made from a Python function."""

    def __new__(
        cls,
        descriptor: Descriptor,
        function: Callable[..., Any],
        bind: Callable[[Mapping[str, Any], Any], dict[str, Any]] | None,
        blocking: bool,
    ) -> Self: ...

@final
class NativeRegistry:
    """The native half of a registry."""

    def __new__(cls, runtime: Runtime) -> Self: ...
    def register(self, items: Sequence[NativeTool | NativeRegistry]) -> None:
        """Registers tools and registries: all or none."""
    def use_middleware(self, middleware: Callable[..., Any], name: str) -> None:
        """Adds a middleware inside those that are there."""
    def middleware(self) -> list[Any]:
        """Lists the middleware objects, outermost first."""
    def descriptors(self) -> list[Descriptor]:
        """Lists the tools' manifest entries."""
    def subset(self, names: Sequence[str]) -> NativeRegistry:
        """Copies the named tools and the middleware as they are now."""
    def manifest(self, provider: str | None = None) -> Any:
        """Renders the tools for a provider, or neutrally."""
    def explain(self, name: str, scope: ScopeHandle | None = None) -> list[dict[str, Any]]:
        """Lists what runs for a call to `name` made here."""
    def dispatch(
        self,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Makes a call; the awaitable gives the tool's own result."""
    def dispatch_json(
        self,
        name: str,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
    ) -> Coroutine[Any, Any, str]:
        """Makes a call; the awaitable gives the text `{"result": ...}`."""

@disjoint_base
class Runtime:
    """Registrations, scopes and the dispatcher that belong together. Two runtimes share nothing."""

    def __new__(cls, *, default: Callable[[Any], Any] | None = None, settings: Mapping[str, Any] | None = None) -> Self: ...
    def change(self, *, default: Callable[[Any], Any] | None = None, settings: Mapping[str, Any] | None = None) -> None:
        """Changes the settings that are given."""
    def register(
        self,
        family: str,
        name: str,
        fn_: Callable[..., Any],
        *,
        priority: int = 0,
        scope: ScopeHandle | None = None,
        break_chain: bool = False,
    ) -> None:
        """Registers a callback of a family."""
    def deregister(self, family: str, name: str, *, scope: ScopeHandle | None = None) -> bool:
        """Removes a callback; returns whether it was there."""
    def subscribe(
        self, name: str, fn_: Callable[[Event], Any], *, scope: ScopeHandle | None = None, inline: bool = False
    ) -> None:
        """Registers a subscriber of events."""
    def subscribe_calls(
        self,
        name: str,
        fn_: Callable[[ToolCallStarted | ToolCallCompleted], Any],
        *,
        scope: ScopeHandle | None = None,
        inline: bool = False,
    ) -> None:
        """Registers a subscriber of typed registry-call records."""
    def unsubscribe(self, name: str, *, scope: ScopeHandle | None = None) -> bool:
        """Removes a subscriber; returns whether it was there."""
    def export_jsonl(self, path: str | PathLike[str], name: str) -> None:
        """Writes events to a file as JSON lines."""
    @overload
    def execute(
        self,
        name: str,
        args: Any,
        func: Callable[[Any], Coroutine[Any, Any, _T]],
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
        cancellation: Cancellation | None = None,
    ) -> Coroutine[Any, Any, _T]:
        """Makes a managed call; the awaitable gives the function's own result."""
    @overload
    def execute(
        self,
        name: str,
        args: Any,
        func: Callable[[Any], Awaitable[_T]],
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
        cancellation: Cancellation | None = None,
    ) -> Coroutine[Any, Any, _T]: ...
    @overload
    def execute(
        self,
        name: str,
        args: Any,
        func: Callable[[Any], _T],
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
        cancellation: Cancellation | None = None,
    ) -> Coroutine[Any, Any, _T]: ...
    def run_blocking(self, awaitable: Coroutine[Any, Any, _T]) -> _T:
        """Runs an awaitable of this package to its end on this thread, outside any event loop."""
    def conditional_execution(self, name: str, args: Any) -> Awaitable[None] | None:
        """Runs the guardrails of a tool call."""
    def request_intercepts(self, name: str, args: Any) -> Any:
        """Runs the request intercepts of a tool call and gives the arguments."""
    def start_call(
        self,
        name: str,
        args: Any,
        *,
        metadata: Any = None,
        tool_call_id: str | None = None,
        attributes: list[str] | None = None,
        scope: ScopeHandle | None = None,
        timestamp: datetime | float | None = None,
    ) -> ManualCall:
        """Starts a call that the program runs itself."""
    def open_scope(
        self,
        name: str,
        scope_type: str,
        *,
        parent: ScopeHandle | None = None,
        input: Any = None,
        metadata: Any = None,
        attributes: list[str] | None = None,
        data_schema: Any = None,
        timestamp: datetime | float | None = None,
    ) -> ScopeHandle:
        """Opens a scope under the current one or the one given; it is not made current."""
    def mark(
        self,
        name: str,
        data: Any = None,
        metadata: Any = None,
        *,
        scope: ScopeHandle | None = None,
        data_schema: Any = None,
        timestamp: datetime | float | None = None,
    ) -> None:
        """Emits a mark."""
    def attach(self, value: Any) -> ScopeHandle:
        """Returns a scope that stands for one of another process."""
    def flush(self, timeout: float | None = None) -> int:
        """Waits until everything emitted before is delivered; returns how many events are still pending."""
    def flush_async(self, timeout: float | None = None) -> Coroutine[Any, Any, int]:
        """Like `flush`, awaitable."""
    def shutdown(self, timeout: float = 5.0) -> int:
        """Ends what is open, delivers what is queued and stops; returns how many events were not delivered."""
    def shutdown_async(self, timeout: float = 5.0) -> Coroutine[Any, Any, int]:
        """Like `shutdown`, awaitable."""
    @property
    def is_shut(self) -> bool:
        """Whether the runtime has been shut down."""
    def registrations(self) -> list[dict[str, Any]]:
        """Lists what is installed, with its owners."""
    def explain(self, kind: str, name: str, *, scope: ScopeHandle | None = None) -> list[dict[str, Any]]:
        """Lists what applies to a call made here, in the order in which it runs."""
    def counts(self) -> dict[str, int]:
        """Returns the dispatcher's counters."""

def setup(errors: dict[str, type[Any]], error_base: type[BaseException], support: ModuleType) -> None:
    """Hands over the package's Python part; called once by `callweir/__init__.py`."""

def argument_error(path: str, message: str) -> Exception: ...
def describe(kind: str, fields: dict[str, str]) -> str:
    """Returns the text of an error of Callweir's own, for exceptions that a program makes itself."""

def for_model(error: BaseException) -> str:
    """Returns the text that a model may read of an exception."""

def get_handle() -> ScopeHandle | None:
    """Returns the current scope, or None."""

def current_call() -> ScopeHandle | None:
    """Returns the call that this code runs in, or None."""

def default_runtime() -> Runtime:
    """Returns the runtime that the module-level functions use."""

def after_fork() -> None:
    """Makes every runtime usable in the child of a fork."""

def at_exit(timeout: float) -> None:
    """Delivers what is queued when the interpreter ends, for at most `timeout` seconds."""
