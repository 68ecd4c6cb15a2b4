/** The dispatcher: it never blocks the loop, and delivers in order whoever is slow. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { guardrails, Runtime, scope, subscribers, tool, ToolContext, ToolRegistry } from "callweir";

import { add, atMost, call, clean, clearAfterEach, deferred, heartbeat, pause } from "./helpers.mjs";
import { script, Seen, thrownBy } from "./helpers.mjs";

clearAfterEach();

const many = (count, fn) => Promise.all(Array.from({ length: count }, (_, number) => fn(number)));

/** Runs `body` with a heartbeat, and checks the largest gap, in milliseconds. */
async function beating(most, body) {
  await pause(20);
  const beats = heartbeat();
  const result = await body();
  const gap = beats.stop();
  assert.ok(gap < most, `a gap of ${gap.toFixed(0)} ms, more than ${most}`);
  return result;
}

describe("C-34, EVT-2: waiting does not block the loop", () => {
  it("100 calls wait for a guardrail", async () => {
    const release = deferred();
    add("tool.conditional_execution", () => release.promise);
    await beating(300, async () => {
      const waiting = many(100, (number) => call(`t${number}`, number));
      await pause(200);
      release.resolve();
      assert.deepEqual(await waiting, Array.from({ length: 100 }, (_, number) => number));
    });
  });

  it("100 flushes wait for a subscriber, 100 dispatches for their deadline", async () => {
    const release = deferred();
    subscribers.register("slow", () => release.promise);
    const registry = new ToolRegistry().register(tool({ name: "slow" }, () => release.promise));
    const context = () => new ToolContext({ deadline: 100 });
    await beating(300, async () => {
      scope.event("m");
      const flushes = many(100, () => subscribers.flush(5000));
      const errors = await many(100, () => thrownBy(registry.dispatch("slow", {}, context())));
      assert.deepEqual(new Set(errors.map((error) => error.constructor.name)), new Set(["TimedOut"]));
      release.resolve();
      assert.deepEqual(new Set(await flushes), new Set([0]));
    });
  });

  it("a payload of 5 MB passes, with and without a reader", async () => {
    const rows = Array.from({ length: 5000 }, (_, number) => ({ number, text: "x".repeat(1000) }));
    const runtime = new Runtime({ queueBytes: 2 ** 30 });
    runtime.register("tool.request", "r", (_, args) => args);
    runtime.register("tool.execution", "e", (_, args, next) => next(args));
    for (const observed of [false, true]) {
      const seen = observed ? new Seen("seen", runtime) : undefined;
      await beating(1000, async () => {
        const result = await runtime.execute("t", { rows }, (args) => args.rows);
        assert.equal(result.length, rows.length);
        await runtime.flush(10_000);
      });
      if (observed) assert.equal(seen.end("t").data.length, rows.length);
    }
  });

  it("20,000 events are delivered while the loop turns", async () => {
    let count = 0;
    subscribers.register("s", (event) => void (count += event.name.length));
    guardrails.registerMarkSanitize("s", 0, (_, fields) => fields);
    await beating(1000, async () => {
      for (let round = 0; round < 20; round++) {
        for (let number = 0; number < 1000; number++) scope.event("m", { number });
        await pause(1);
      }
      assert.equal(await subscribers.flush(20_000), 0);
    });
    assert.equal(count, 20_000);
  });
});

describe("EVT-2: delivery", () => {
  it("two subscribers, one slow: the same order, and the quick one does not wait", async () => {
    const [slow, quick] = [[], []];
    const release = deferred();
    subscribers.register("slow", async (event) => {
      await (slow.length === 0 ? release.promise : pause());
      slow.push(event.uuid + event.scope_category);
    });
    subscribers.register("quick", (event) => void quick.push(event.uuid + event.scope_category));
    await many(50, (number) =>
      call(`t${number}`, {}, async () => {
        await pause(number % 4);
        scope.event(`m${number}`);
      }),
    );
    await pause(20);
    assert.deepEqual([quick.length, slow.length], [150, 0]);
    release.resolve();
    assert.equal(await subscribers.flush(10_000), 0);
    assert.deepEqual(slow, quick);
  });

  it("what a subscriber registers or removes while it runs counts from the next event on", async () => {
    const [later, log] = [[], []];
    subscribers.register("first", (event) => {
      log.push(event.name);
      if (event.name !== "one") return;
      subscribers.deregister("second");
      subscribers.register("third", (other) => void later.push(other.name));
    });
    subscribers.register("second", (event) => void log.push(`second ${event.name}`));
    scope.event("one");
    scope.event("two");
    await subscribers.flush();
    scope.event("three");
    await subscribers.flush();
    assert.deepEqual(log.filter((name) => !name.startsWith("second")), ["one", "two", "three"]);
    assert.deepEqual(log.filter((name) => name.startsWith("second")), ["second one", "second two"]);
    assert.deepEqual(later, ["three"]);
  });

  it("with no subscriber nothing is queued or sanitized, and no payload is read (PAY-6)", async () => {
    const runtime = new Runtime();
    let asked = 0;
    for (const family of ["tool.sanitize_request", "scope.sanitize_start", "mark.sanitize"]) {
      runtime.register(family, "s", (_, value) => ((asked += 1), value));
    }
    const watched = { toJSON: () => assert.fail("nobody asked") };
    assert.equal(await runtime.execute("t", watched, () => watched), watched);
    runtime.mark("m");
    assert.equal(runtime.counts().pending, 0);
    assert.equal(await runtime.flush(), 0);
    assert.equal(asked, 0);
  });

  it("emission does not wait for a sanitizer, nor for a subscriber", async () => {
    const release = deferred();
    guardrails.registerToolSanitizeRequest("s", 0, async (_, args) => (await release.promise, args));
    subscribers.register("s", () => release.promise);
    await atMost(2000, () => many(100, () => call("t")));
    assert.equal(Runtime.default().counts().pending, 200);
    release.resolve();
    assert.equal(await subscribers.flush(10_000), 0);
    assert.equal(Runtime.default().counts().pending, 0);
  });

  for (const kind of ["plain", "async", "two", "sanitized"]) {
    it(`a program that never turns its loop loses no event (${kind})`, async () => {
      const [delivered, dropped, turned] = JSON.parse(clean(await script("microtasks.mjs", [kind, 100_000])));
      assert.deepEqual([delivered, dropped, turned], [200_000, 0, false]);
    });
  }

  it("failures of subscribers are counted, and the others get their events", async () => {
    const runtime = new Runtime();
    const seen = new Seen("seen", runtime);
    const fail = () => {
      throw new TypeError("mine");
    };
    runtime.subscribe("a", fail);
    runtime.subscribe("b", async () => fail());
    runtime.subscribe("z", () => Promise.reject(undefined));
    for (let number = 0; number < 10; number++) runtime.mark(`m${number}`);
    await seen.flushed();
    assert.equal(seen.events.length, 10);
    assert.equal(runtime.counts().failures, 30);
  });
});
