"""Replays a hundred recorded runs of an airline support agent.

Every tool call of theirs goes through a registry, under one scope for each run, and the events go to a file that
must not hold private data.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import callweir
from callweir import CallRejected, Tool, ToolCall, ToolContext, ToolRegistry, guardrails
from checks import TESTS, Checks, output

EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
NO_EMAIL = "<e-mail>"
NO_DATE = "<date of birth>"
CERTIFICATE_LIMIT = 100
"""Dollars that a certificate may be worth without a person who agrees."""


@dataclass(frozen=True)
class Recorded:
    """A recorded call and the result that the tool gave then."""

    id: str
    name: str
    arguments: str
    result: str


@dataclass(frozen=True)
class Run:
    """One recorded run of the agent."""

    task: int
    trial: int
    calls: list[Recorded]


def read_run(line: str) -> Run:
    """Reads a run, and pairs each call with the tool message that follows it: an id may occur twice in one run."""
    recorded = json.loads(line)
    messages: list[dict[str, Any]] = recorded["messages"]
    calls: list[Recorded] = []
    for index, message in enumerate(messages):
        answers = takewhile(lambda message: message["role"] == "tool", messages[index + 1 :])
        for call in message.get("tool_calls") or []:
            result = next(answers, {}).get("content") or ""
            calls.append(Recorded(call["id"], call["function"]["name"], call["function"]["arguments"], result))
    return Run(recorded["task"], recorded["trial"], calls)


def read_data(name: str) -> str:
    """Reads a file of recorded input."""
    return (TESTS / "data" / name).read_text(encoding="utf-8")


def every_call(runs: list[Run]) -> Iterator[Recorded]:
    """Gives the calls of all runs."""
    return (call for run in runs for call in run.calls)


class Audit:
    """Counts the calls that reached a tool, by tool and outcome."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    async def __call__(self, call: ToolCall, next: Callable[[ToolCall], Awaitable[Any]]) -> Any:
        try:
            result = await next(call)
        except BaseException:
            self.counts[call.name, "failed"] += 1
            raise
        self.counts[call.name, "succeeded"] += 1
        return result


def tools(audit: Audit) -> ToolRegistry:
    """Makes the fourteen tools; each answers with the recorded result that the call's context carries."""

    async def answer(recorded: ToolContext, **arguments: Any) -> str:
        return recorded.metadata

    made = [
        Tool(
            answer,
            name=spec["name"],
            description=spec["description"],
            parameters=spec["parameters"],
            read_only=spec["read_only"],
            idempotent=spec["idempotent"],
        )
        for spec in json.loads(read_data("airline_tools.json"))
    ]
    return ToolRegistry().register(*made).use(audit)


def certificate_limit(name: str, arguments: dict[str, Any]) -> str | None:
    """Rejects certificates that are worth too much."""
    if name != "send_certificate":
        return None
    amount = arguments.get("amount")
    if isinstance(amount, (int, float)) and amount <= CERTIFICATE_LIMIT:
        return None
    return f"a certificate over {CERTIFICATE_LIMIT} dollars needs a person"


def masked(value: Any) -> Any:
    """Masks e-mail addresses and dates of birth, also inside text that holds JSON."""
    match value:
        case str():
            try:
                inner = json.loads(value)
            except ValueError:
                inner = None
            if isinstance(inner, (dict, list)):
                return json.dumps(masked(inner), ensure_ascii=False)
            return EMAIL.sub(NO_EMAIL, value)
        case list():
            return [masked(item) for item in value]
        case dict():
            return {key: NO_DATE if key == "dob" else masked(item) for key, item in value.items()}
        case _:
            return value


def sanitize(_: str, copy: Any) -> Any:
    """Masks the copy of a payload that observers see."""
    return masked(copy)


@dataclass
class Tally:
    """What became of the calls, as their callers saw it."""

    outcomes: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0


async def replay(runs: list[Run], registry: ToolRegistry) -> Tally:
    """Makes every recorded call again."""
    tally = Tally()
    for run in runs:
        manager = callweir.scope.scope("airline support", "agent", input={"task": run.task, "trial": run.trial})
        async with manager:
            for call in run.calls:
                await one(call, registry, tally)
            manager.set_output({"calls": len(run.calls)})
    return tally


async def one(call: Recorded, registry: ToolRegistry, tally: Tally) -> None:
    """Makes one recorded call."""
    context = ToolContext("airline-agent", metadata=call.result)
    try:
        result = await registry.dispatch(call.name, call.arguments, context, tool_call_id=call.id)
    except CallRejected:
        tally.outcomes["rejected"] += 1
    except Exception:
        tally.outcomes["failed"] += 1
    else:
        tally.outcomes["succeeded"] += 1
        tally.unchanged += result is call.result


class Private:
    """The private values in what was recorded for the calls."""

    def __init__(self, runs: list[Run]) -> None:
        self.emails: list[str] = []
        self.dates: list[str] = []
        for call in every_call(runs):
            for text in (call.arguments, call.result):
                self.emails += EMAIL.findall(text)
                try:
                    self._add_dates(json.loads(text))
                except ValueError:
                    # Not every result is JSON.
                    continue

    def _add_dates(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                if key == "dob" and isinstance(item, str):
                    self.dates.append(item)
                self._add_dates(item)
        elif isinstance(value, list):
            for item in value:
                self._add_dates(item)


def check_privacy(checks: Checks, text: str, private: Private) -> None:
    """Checks that the event file holds nothing private."""
    checks.equal("the event file holds no e-mail address", None, EMAIL.search(text))
    values = sorted({*private.emails, *private.dates})
    leaked = next((value for value in values if value in text), None)
    checks.equal("the event file holds no private value of the recording", None, leaked)
    counts = (len(private.emails), len(private.dates))
    checks.equal("all of them are masked", counts, (text.count(NO_EMAIL), text.count(NO_DATE)))
    checks.check("there was something to mask", all(counts))


class Summary:
    """What the event file says: events by kind, scopes that do not pair up, events that lie in no run."""

    def __init__(self, text: str) -> None:
        self.counts: Counter[str] = Counter()
        self.unpaired = self.astray = 0
        self._open: dict[str, int] = {}
        self._runs: set[str] = set()
        for line in text.splitlines():
            self._add(json.loads(line))
        self.unpaired += sum(count != 0 for count in self._open.values())

    def _add(self, event: dict[str, Any]) -> None:
        phase, category, uuid = event.get("scope_category"), event.get("category"), event["uuid"]
        metadata = event["metadata"] or {}
        match phase:
            case "start":
                self.counts[f"{category} start"] += 1
                self._open[uuid] = self._open.get(uuid, 0) + 1
            case "end":
                self.counts[f"{category} {metadata.get('callweir.outcome')}"] += 1
                # An end before its start never becomes right again.
                if self._open.get(uuid) == 1:
                    self._open[uuid] = 0
                else:
                    self.unpaired += 1
            case _:
                self.counts[f"mark {metadata.get('callweir.mark')}"] += 1
        if category == "agent":
            self._runs.add(uuid)
        else:
            self.astray += event["parent_uuid"] not in self._runs


def check_counts(checks: Checks, text: str, runs: list[Run], tally: Tally, audit: Audit) -> None:
    """Checks that callers, audit log and event file agree about what happened."""
    summary, asked = Summary(text), sum(1 for _ in every_call(runs))
    succeeded, rejected = tally.outcomes["succeeded"], tally.outcomes["rejected"]
    checks.equal("starts and ends pair up", 0, summary.unpaired)
    checks.equal("everything lies in the scope of its run", 0, summary.astray)
    checks.equal("every call was dispatched", asked, tally.outcomes.total())
    checks.equal("every call succeeded or was rejected", asked, succeeded + rejected)
    checks.equal("callers got the recorded results unchanged", succeeded, tally.unchanged)
    checks.equal("the file has the calls that started", succeeded, summary.counts["tool start"])
    checks.equal("the file has the calls that succeeded", succeeded, summary.counts["tool succeeded"])
    checks.equal("the file has the rejections", rejected, summary.counts["mark rejection"])
    checks.equal("the audit log has the calls that ran", succeeded, audit.counts.total())
    big = sum(is_big_certificate(call) for call in every_call(runs))
    checks.equal("the guardrail rejected the big certificates", big, rejected)
    checks.check("there was something to reject", big > 0)
    checks.equal("the guardrail was asked about every call", asked, summary.counts["guardrail start"])
    checks.equal("every run has its scope", len(runs), summary.counts["agent succeeded"])
    lines = 2 * (asked + succeeded + len(runs)) + rejected
    checks.equal("nothing else is in the file", lines, len(text.splitlines()))


def is_big_certificate(call: Recorded) -> bool:
    """Says whether a recorded call sent a certificate over the limit."""
    return call.name == "send_certificate" and json.loads(call.arguments)["amount"] > CERTIFICATE_LIMIT


def report(runs: list[Run], tally: Tally, audit: Audit, seconds: float, path: Path) -> None:
    """Prints what happened."""
    for (name, outcome), count in sorted(audit.counts.items()):
        print(f"[audit] {count:4} {outcome}: {name}")
    calls = tally.outcomes.total()
    print(f"{calls} calls of {len(runs)} runs: {dict(sorted(tally.outcomes.items()))}")
    print(f"{calls / seconds:.0f} calls per second")
    print(f"events: target/demo/{path.name}")


async def main() -> int:
    """Replays the recording and checks what became of it."""
    runs = [read_run(line) for line in read_data("airline.jsonl").splitlines()]
    path, audit = output("airline-python.jsonl"), Audit()
    callweir.export.jsonl(path)
    guardrails.register_tool_conditional_execution("certificate_limit", 0, certificate_limit)
    guardrails.register_tool_sanitize_request("privacy", 0, sanitize)
    guardrails.register_tool_sanitize_response("privacy", 0, sanitize)

    started = time.perf_counter()
    tally = await replay(runs, tools(audit))
    took = time.perf_counter() - started
    pending = await callweir.shutdown_async(10)
    report(runs, tally, audit, took, path)

    checks, text = Checks(), path.read_text(encoding="utf-8")
    checks.equal("every event was delivered", 0, pending)
    check_privacy(checks, text, Private(runs))
    check_counts(checks, text, runs, tally, audit)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
