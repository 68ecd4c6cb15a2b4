"""Steps: what a scenario does with the runtime, one after another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine
from typing import Any

import callweir

from . import callbacks
from .behaviour import context_of
from .forms import error_form, line, shown
from .world import Broken, Token, World, known

PATIENCE = 10.0
"""Seconds; long enough for everything that a scenario queues."""

_NO_ACTION = ("label", "in")


async def run_step(world: World, step: dict[str, Any], queued: bool = False) -> None:
    """Runs a step from the top, or from a callback; only a step with a label may fail."""
    action = next(name for name in step if name not in _NO_ACTION)
    scope = world.maybe_scope(step.get("in"))
    entered = None if scope is None else scope.enter()
    entry: dict[str, Any] = {"label": step.get("label")}
    try:
        # A scenario's own values must not be what callbacks change in place.
        entry["result"] = await _act(world, action, copy.deepcopy(step[action]), queued)
    except Broken:
        raise
    except Exception as error:
        if entry["label"] is None:
            raise
        entry["error"] = error_form(world, error)
    finally:
        if scope is not None:
            scope.leave(entered)
    if entry["label"] is not None:
        world.note_step(entry, queued)


async def _act(world: World, action: str, asked: dict[str, Any], queued: bool) -> Any:
    match action:
        case "execute":
            return shown(await _execute(world, asked))
        case "dispatch":
            return shown(await _dispatch(world, asked))
        case "direct":
            tool = known("tool", f"{asked['registry']} {asked['tool']}", world.tools)
            return shown(await _maybe(tool.execute_with(asked["arguments"], callweir.ToolContext())))
        case "alone":
            call = callweir.ToolCall(asked["name"], asked["arguments"], callweir.ToolContext())
            middleware = callbacks.Scripted(world, asked["middleware"])
            return shown(await _maybe(middleware(call, callbacks.next_alone(world, asked["next"]))))
        case "guardrails":
            return await _maybe(world.runtime.conditional_execution(asked["name"], asked["arguments"]))
        case "requests":
            return shown(await _maybe(world.runtime.request_intercepts(asked["name"], asked["arguments"])))
        case "use_next":
            return shown(await known("next", asked["slot"], world.nexts)(asked["arguments"]))
        case "flush":
            return await world.runtime.flush_async(PATIENCE)
        case "shutdown":
            return await world.runtime.shutdown_async(PATIENCE)
        case _:
            return _NOW[action](world, asked)


async def _maybe(value: Any) -> Any:
    """Awaits what is awaitable: plain callbacks give their results at once."""
    return await value if hasattr(value, "__await__") else value


async def _execute(world: World, asked: dict[str, Any]) -> Any:
    name, token = asked["name"], asked.get("token")
    running = world.runtime.execute(
        name,
        asked["arguments"],
        callbacks.work(world, name, asked.get("run", [])),
        metadata=asked.get("metadata"),
        tool_call_id=asked.get("tool_call_id"),
        cancellation=None if token is None else world.token(token).cancellation,
    )
    return await _cancelled_on(world, asked, running)


async def _dispatch(world: World, asked: dict[str, Any]) -> Any:
    registry = known("registry", asked["registry"], world.registries)
    arguments = asked["text"] if "text" in asked else asked.get("arguments", {})
    dispatch = registry.dispatch_json if asked.get("as_text") else registry.dispatch
    context = context_of(world, asked.get("context", {}))
    return await _cancelled_on(world, asked, dispatch(asked["tool"], arguments, context))


async def _cancelled_on(world: World, asked: dict[str, Any], running: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a call, cancelled as the event loop does it when a token fires."""
    if "cancel_on" not in asked:
        return await running
    token: Token = world.token(asked["cancel_on"])
    return await world.host.cancellable(token, running)


def _register(world: World, asked: dict[str, Any]) -> None:
    family, name, run = asked["family"], asked["name"], asked["run"]
    world.runtime.register(
        family,
        name,
        callbacks.handler(world, family, name, run),
        priority=asked.get("priority", 0),
        scope=world.maybe_scope(asked.get("scope")),
        break_chain=asked.get("break_chain", False),
    )


def _deregister(world: World, asked: dict[str, Any]) -> bool:
    return world.runtime.deregister(asked["family"], asked["name"], scope=world.maybe_scope(asked.get("scope")))


def _subscribe(world: World, asked: dict[str, Any]) -> None:
    target = callbacks.subscriber(world, asked["name"], asked["run"])
    scope = world.maybe_scope(asked.get("scope"))
    world.runtime.subscribe(asked["name"], target, scope=scope, inline=world.inline)


def _unsubscribe(world: World, asked: dict[str, Any]) -> bool:
    return world.runtime.unsubscribe(asked["name"], scope=world.maybe_scope(asked.get("scope")))


def _open(world: World, asked: dict[str, Any]) -> None:
    given = {key: asked[key] for key in ("input", "metadata", "attributes") if key in asked}
    world.scopes[asked["as"]] = world.runtime.open_scope(asked["name"], asked["type"], **given)


def _close(world: World, asked: dict[str, Any]) -> None:
    scope = known("scope", asked.pop("scope"), world.scopes)
    scope.close(**asked)


def _mark(world: World, asked: dict[str, Any]) -> None:
    world.runtime.mark(**asked)


def _call(world: World, asked: dict[str, Any]) -> None:
    given = {key: asked[key] for key in ("metadata", "tool_call_id") if key in asked}
    call = world.runtime.start_call(asked["name"], asked["arguments"], **given)
    world.calls[asked["as"]], world.scopes[asked["as"]] = call, call.scope


def _end(world: World, asked: dict[str, Any]) -> None:
    error = world.fail(asked["fail"]) if "fail" in asked else None
    call = known("call", asked["call"], world.calls)
    call.end(asked.get("result"), error=error, outcome=asked.get("outcome"))


def _registry(world: World, asked: dict[str, Any]) -> None:
    world.registries[asked["as"]] = callweir.ToolRegistry(runtime=world.runtime)
    named = asked | {"registry": asked["as"]}
    _add(world, named)
    _use(world, named)


def _add(world: World, asked: dict[str, Any]) -> None:
    name = asked["registry"]
    tools = [callbacks.tool(world, spec) for spec in asked.get("tools", [])]
    inner = [known("registry", one, world.registries) for one in asked.get("registries", [])]
    known("registry", name, world.registries).register(*tools, *inner)
    world.tools |= {f"{name} {tool.name}": tool for tool in tools}


def _use(world: World, asked: dict[str, Any]) -> None:
    registry = known("registry", asked["registry"], world.registries)
    registry.use(*(callbacks.Scripted(world, spec) for spec in asked.get("middleware", [])))


def _subset(world: World, asked: dict[str, Any]) -> None:
    world.registries[asked["as"]] = known("registry", asked["registry"], world.registries).subset(asked["names"])


def _manifest(world: World, asked: dict[str, Any]) -> Any:
    return known("registry", asked["registry"], world.registries).manifest(asked.get("provider"))


def _middleware(world: World, asked: dict[str, Any]) -> list[str]:
    registry = known("registry", asked["registry"], world.registries)
    return [middleware.__name__ for middleware in registry.middleware()]


def _explain(world: World, asked: dict[str, Any]) -> Any:
    if "registry" in asked:
        lines = known("registry", asked["registry"], world.registries).explain(asked["tool"])
    else:
        lines = world.runtime.explain(asked.get("kind", "tool"), "any")
    return [line(one) for one in lines]


def _registrations(world: World, _: dict[str, Any]) -> Any:
    return [line(one) for one in world.runtime.registrations()]


def _fire(world: World, asked: dict[str, Any]) -> None:
    world.token(asked["token"]).fire()


def _propagate(world: World, asked: dict[str, Any]) -> Any:
    value = known("scope", asked["scope"], world.scopes).propagation()
    world.propagations[asked["as"]] = dict(value)
    uuid, root = (value[key].replace("-", "") for key in ("uuid", "root"))
    if value["traceparent"] == f"00-{root}-{uuid[16:]}-01":
        value["traceparent"] = "well-formed"
    return value


def _attach(world: World, asked: dict[str, Any]) -> None:
    value = known("propagation", asked["from"], world.propagations) if "from" in asked else asked.get("value")
    world.scopes[asked["as"]] = world.runtime.attach(value)


def _counts(world: World, _: dict[str, Any]) -> Any:
    return {"failures": world.runtime.counts()["failures"]}


_NOW: dict[str, Callable[[World, dict[str, Any]], Any]] = {
    "register": _register,
    "deregister": _deregister,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "open": _open,
    "close": _close,
    "mark": _mark,
    "call": _call,
    "end": _end,
    "registry": _registry,
    "add": _add,
    "use": _use,
    "subset": _subset,
    "manifest": _manifest,
    "middleware": _middleware,
    "explain": _explain,
    "registrations": _registrations,
    "fire": _fire,
    "propagate": _propagate,
    "attach": _attach,
    "counts": _counts,
}
"""The steps that never wait."""
