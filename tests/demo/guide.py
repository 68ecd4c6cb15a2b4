"""Tool middleware in one page: an audit log, a caller policy, a time limit and a concurrency limit, and five calls.

The tools work on a SQLite file; two callers call them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from callweir import (
    Tool,
    ToolCall,
    ToolCallDenied,
    ToolContext,
    ToolNotFound,
    ToolNotPermitted,
    ToolRegistry,
    tool,
)
from checks import Checks, output

EXPECTED = [
    "[audit] support-agent called inventory.lookup: succeeded in N ms",
    "7",
    "[audit] support-agent called billing.refund: denied (caller 'support-agent' may not call billing.refund) in N ms",
    "denied: caller 'support-agent' may not call billing.refund",
    "[audit] billing-agent called billing.refund: succeeded in N ms",
    "refunded 40.00 on A-1001",
    "[audit] support-agent called inventory.recount: failed (TimeoutError) in N ms",
    "failed: inventory.recount took longer than 1 s",
    "[audit] support-agent called inventory.restock: not found in N ms",
    "Tool 'inventory.restock' was not found.",
]
"""What the five calls print, apart from how long they took."""

Next = Callable[[ToolCall], Awaitable[Any]]


class Output:
    """Prints lines and keeps them, to compare them at the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        """Prints a line."""
        print(text, flush=True)
        self.lines.append(text)


class Audit:
    """Records who called which tool, the outcome and the time it took."""

    def __init__(self, output: Output) -> None:
        self.output = output

    async def __call__(self, call: ToolCall, next: Next) -> Any:
        started = time.perf_counter()
        outcome = "succeeded"
        try:
            return await next(call)
        except ToolCallDenied as denial:
            outcome = f"denied ({denial.reason})"
            raise
        except BaseException as error:
            outcome = f"failed ({type(error).__name__})"
            raise
        finally:
            self.write(call, outcome, time.perf_counter() - started)

    def on_refused(self, call: ToolCall, refusal: ToolNotFound) -> None:
        """Records a call to a tool that is not there."""
        self.write(call, "not permitted" if isinstance(refusal, ToolNotPermitted) else "not found", 0)

    def write(self, call: ToolCall, outcome: str, seconds: float) -> None:
        """Writes one line of the log."""
        caller = call.context.caller_id or "nobody"
        self.output.line(f"[audit] {caller} called {call.name}: {outcome} in {int(seconds * 1000)} ms")


class CallerPolicy:
    """Lets only named callers use certain tools."""

    def __init__(self, allowed: dict[str, set[str]]) -> None:
        self.allowed = allowed

    async def __call__(self, call: ToolCall, next: Next) -> Any:
        caller = call.context.caller_id or ""
        if caller not in self.allowed.get(call.name, {caller}):
            raise ToolCallDenied(call.name, f"caller '{caller}' may not call {call.name}")
        return await next(call)


class TimeLimit:
    """Gives every call a time limit; a tool that is still running then is cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def __call__(self, call: ToolCall, next: Next) -> Any:
        try:
            async with asyncio.timeout(self.seconds):
                return await next(call)
        except TimeoutError as error:
            raise TimeoutError(f"{call.name} took longer than {self.seconds:g} s") from error


class ConcurrencyLimit:
    """Lets at most so many calls through at once; the others wait for a slot."""

    def __init__(self, calls: int) -> None:
        self.slots = asyncio.Semaphore(calls)

    async def __call__(self, call: ToolCall, next: Next) -> Any:
        async with self.slots:
            return await next(call)


class Shop:
    """The shop's database, and what the tools tell about how they ran."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running = self.most_at_once = 0
        self.recount = {"started": False, "cancelled": False, "finished": False}
        with sqlite3.connect(path) as database:
            database.executescript(
                """CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER NOT NULL);
                   CREATE TABLE refunds (order_id TEXT NOT NULL, amount REAL NOT NULL);
                   INSERT INTO stock VALUES ('AB-12', 7), ('CD-34', 0);"""
            )
        database.close()

    async def query(self, sql: str, *values: Any) -> Any:
        """Runs one statement on a thread, where it may block, and gives its first row."""

        def work() -> Any:
            # A connection belongs to one thread; this one lives as long as the statement.
            database = sqlite3.connect(self.path, timeout=10)
            try:
                with database:
                    return database.execute(sql, values).fetchone()
            finally:
                database.close()

        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return await asyncio.to_thread(work)
        finally:
            self.running -= 1

    async def units(self, sku: str) -> int:
        """Gives the units of a SKU in stock."""
        (units,) = await self.query("SELECT coalesce(sum(units), 0) FROM stock WHERE sku = ?", sku)
        return units


def inventory(shop: Shop) -> list[Tool]:
    """Makes the tools of the stock-room."""

    @tool("inventory.lookup", read_only=True)
    async def lookup(sku: str) -> int:
        """Looks up the units of a SKU in stock.

        Args:
            sku: The article, such as AB-12.
        """
        return await shop.units(sku)

    @tool("inventory.recount")
    async def recount(sku: str) -> int:
        """Counts the units of a SKU on the shelf.

        Args:
            sku: The article, such as AB-12.
        """
        shop.recount["started"] = True
        try:
            # Stands in for a slow call to the warehouse.
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            shop.recount["cancelled"] = True
            raise
        shop.recount["finished"] = True
        return await shop.units(sku)

    return [lookup, recount]


def billing(shop: Shop) -> Tool:
    """Makes the tool of the cash desk."""

    @tool("billing.refund")
    async def refund(orderId: str, amount: float) -> str:  # noqa: N803  (the model's name for it)
        """Refunds an amount on an order.

        Args:
            orderId: The order, such as A-1001.
            amount: How much, in dollars.
        """
        await shop.query("INSERT INTO refunds VALUES (?, ?)", orderId, amount)
        return f"refunded {amount:.2f} on {orderId}"

    return refund


async def ask(tools: ToolRegistry, name: str, arguments: str, context: ToolContext) -> str:
    """Makes a call and puts what came of it into words."""
    try:
        answer = json.loads(await tools.dispatch_json(name, arguments, context))
    except ToolCallDenied as denial:
        return f"denied: {denial.reason}"
    except ToolNotFound as refusal:
        return str(refusal)
    except TimeoutError as error:
        return f"failed: {error}"
    return str(answer["result"])


async def five_calls(tools: ToolRegistry, output: Output) -> None:
    """Makes the calls of the guide."""
    support, billing = ToolContext("support-agent"), ToolContext("billing-agent")
    refund = '{"orderId":"A-1001","amount":40}'
    for name, arguments, context in [
        ("inventory.lookup", '{"sku":"AB-12"}', support),
        ("billing.refund", refund, support),
        ("billing.refund", refund, billing),
        ("inventory.recount", '{"sku":"AB-12"}', support),
        ("inventory.restock", '{"sku":"AB-12"}', support),
    ]:
        output.line(await ask(tools, name, arguments, context))


async def crowd(shop: Shop, limit: ConcurrencyLimit) -> int:
    """Makes many calls at once through the same limit, and returns how many of them ran at once."""
    tools = ToolRegistry().register(*inventory(shop)).use(limit)
    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(ask(tools, "inventory.lookup", '{"sku":"AB-12"}', ToolContext()))
    return shop.most_at_once


async def free_slots(limit: ConcurrencyLimit, most: int) -> int:
    """Counts the slots that can be had without waiting."""
    had = 0
    while had < most and not limit.slots.locked():
        await limit.slots.acquire()
        had += 1
    for _ in range(had):
        limit.slots.release()
    return had


def without_times(line: str) -> str:
    """Replaces how long a call took."""
    return re.sub(r"^(\[audit\] .*) in \d+ ms$", r"\1 in N ms", line)


async def main() -> int:
    """Runs the guide and checks it."""
    shop, written, limit = Shop(output("guide-python.sqlite")), Output(), ConcurrencyLimit(4)
    tools = (
        ToolRegistry()
        .register(*inventory(shop), billing(shop))
        .use(Audit(written), CallerPolicy({"billing.refund": {"billing-agent"}}), TimeLimit(1), limit)
    )
    started = time.perf_counter()
    await five_calls(tools, written)
    took = time.perf_counter() - started

    checks = Checks()
    lines = [without_times(line) for line in written.lines]
    checks.equal("the five calls print what the guide says", EXPECTED, lines)
    stopped = {"started": True, "cancelled": True, "finished": False}
    checks.equal("the recount started, was cancelled, and did not finish", stopped, shop.recount)
    checks.check("the recount was not waited for", 1 <= took < 5)
    checks.equal("the stopped call gave its slot back", 4, await free_slots(limit, 5))
    checks.equal("of many calls at once four run", 4, await crowd(shop, limit))
    refunds = await shop.query("SELECT count(*), sum(amount) FROM refunds")
    checks.equal("the database holds the one refund", (1, 40.0), refunds)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
