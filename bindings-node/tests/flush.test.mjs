/** Flushing, bounds of the queue, and callbacks of the dispatcher that are stuck. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import {
  guardrails,
  InvalidArgument,
  Runtime,
  scope,
  ShutDown,
  subscribers,
  tool,
  ToolRegistry,
  WouldDeadlock,
} from "callweir";

import { add, atMost, call, clearAfterEach, deferred, echo, made, pairsIn, pause, Seen } from "./helpers.mjs";
import { thrownBy, within } from "./helpers.mjs";

clearAfterEach();

const KINDS = ["plain", "async", "async_method", "thenable"];

/** Tells what flush gave or threw, before and after awaiting something else. */
async function flushes(results) {
  const started = performance.now();
  for (let round = 0; round < 2; round++) {
    results.push(await subscribers.flush(2000).catch((error) => error));
    await pause();
    results.push(await Runtime.default().flush(2000).catch((error) => error));
  }
  results.push(performance.now() - started);
}

function marks(runtime, count, prefix = "m") {
  for (let number = 0; number < count; number++) runtime.mark(`${prefix}${number}`, { n: number });
}

const names = (count, prefix = "m") => Array.from({ length: count }, (_, number) => `${prefix}${number}`);

/** Puts a function that flushes into each place of the dispatcher. */
const QUEUED = {
  subscriber: (fn) => subscribers.register("flushes", fn),
  "record subscriber": (fn) => subscribers.registerCalls("flushes", fn),
  "payload sanitizer": (fn) => guardrails.registerToolSanitizeRequest("flushes", 0, fn),
  "event sanitizer": (fn) => guardrails.registerMarkSanitize("flushes", 0, fn),
};

/** Makes a callback that flushes before it returns (plain), or that has flushed when it is settled. */
function flushing(kind, results, waits) {
  if (kind !== "plain") return made(kind, async (...given) => (await flushes(results), given[1]));
  return (...given) => {
    waits.push(flushes(results));
    return given[1];
  };
}

describe("C-06, EVT-8: flush in callbacks", () => {
  for (const [where, register] of Object.entries(QUEUED)) {
    for (const kind of ["plain", "async", "async_method"]) {
      it(`in a ${where} is WouldDeadlock, and the rest is delivered (${kind})`, async () => {
        const seen = new Seen();
        const [results, waits] = [[], []];
        register(flushing(kind, results, waits));
        scope.event("one");
        await new ToolRegistry().register(tool({ name: "t" }, echo)).dispatch("t", { a: 1 });
        scope.event("two");
        await within(seen.flushed(), 8000);
        await within(Promise.all(waits), 8000);
        assert.ok(results.length >= 5);
        for (const result of results) {
          if (typeof result === "number") assert.ok(result < 1000, `took ${result} ms`);
          else assert.ok(result instanceof WouldDeadlock, String(result));
        }
        assert.equal(results.filter((result) => result instanceof WouldDeadlock).length % 4, 0);
        assert.deepEqual(seen.shown(), ["mark one", "start t", "end t", "mark two"]);
        assert.deepEqual(seen.start("t").data, { a: 1 });
      });
    }
  }

  for (const where of ["subscriber", "sanitizer"]) {
    it(`in the thenable of a ${where} is WouldDeadlock`, async () => {
      const runtime = new Runtime();
      const got = [];
      const flushing = async () => {
        await pause();
        got.push(await runtime.flush(50).catch((error) => error));
      };
      const lazy = () => ({ then: (resolve, reject) => void flushing().then(resolve, reject) });
      if (where === "subscriber") runtime.subscribe("s", lazy);
      else runtime.register("mark.sanitize", "s", lazy);
      new Seen("seen", runtime);
      runtime.mark("m");
      assert.equal(await runtime.flush(2000), 0);
      assert.ok(got[0] instanceof WouldDeadlock, String(got));
    });
  }

  for (const where of ["guardrail", "request", "execution", "middleware", "tool"]) {
    for (const kind of KINDS) {
      it(`in a ${where} works (${kind})`, async () => {
        const seen = new Seen();
        const got = [];
        const work = async (...given) => {
          const last = given.at(-1);
          scope.event("before");
          got.push(await subscribers.flush(5000), seen.of("mark", "before").length);
          await pause();
          got.push(await subscribers.flush(5000));
          if (where === "guardrail") return undefined;
          return typeof last === "function" ? last() : last;
        };
        const fn = made(kind === "plain" ? "async" : kind, work);
        if (where === "guardrail") add("tool.conditional_execution", fn);
        if (where === "request") add("tool.request", fn);
        if (where === "execution") add("tool.execution", fn);
        if (where === "middleware" || where === "tool") {
          const registry = new ToolRegistry().use((one, next) => (where === "tool" ? next() : fn(one, next)));
          registry.register(tool({ name: "t" }, where === "tool" ? (args) => fn(args) : echo));
          await atMost(8000, () => registry.dispatch("t", {}));
        } else {
          await atMost(8000, () => call("t"));
        }
        assert.deepEqual(got, [0, 1, 0]);
      });
    }
  }

  it("work that a subscriber starts and does not await may not flush either", async () => {
    const got = [];
    subscribers.register("s", () => {
      setTimeout(() => void thrownBy(subscribers.flush(500)).then((error) => got.push(error)), 5);
    });
    scope.event("m");
    assert.equal(await subscribers.flush(2000), 0);
    await pause(30);
    assert.ok(got[0] instanceof WouldDeadlock);
  });

  it("shutdown in a subscriber is WouldDeadlock too", async () => {
    const runtime = new Runtime();
    const got = [];
    runtime.subscribe("s", async () => void got.push(await thrownBy(runtime.shutdown(500))));
    runtime.mark("m");
    assert.equal(await runtime.flush(2000), 0);
    assert.ok(got[0] instanceof WouldDeadlock);
    assert.equal(runtime.isShut, false);
  });

  it("a time limit is a number from 0", async () => {
    for (const bad of [-1, Number.NaN, "5", null, -0.001, {}]) {
      assert.ok((await thrownBy(subscribers.flush(bad))) instanceof InvalidArgument, String(bad));
    }
    for (const good of [0, 0.5, 1, Infinity, undefined, 1e12]) assert.equal(await subscribers.flush(good), 0);
    assert.equal(await subscribers.flushAsync(10), 0);
  });
});

describe("C-61, EVT-7: bounds", () => {
  const stuckRuntime = (settings) => {
    const runtime = new Runtime(settings);
    const [events, release] = [[], deferred()];
    runtime.subscribe("stuck", async (event) => {
      await release.promise;
      events.push(event);
    });
    return { runtime, events, release };
  };
  const flood = async (runtime, count) => {
    for (let number = 0; number < count; number++) {
      await runtime.execute(`t${number}`, { x: "y".repeat(1000) }, echo);
      if (number % 50 === 49) await pause();
    }
  };

  it("over the event bound events are dropped in pairs, and one mark tells how many", async () => {
    const { runtime, events, release } = stuckRuntime({ queueEvents: 100 });
    await atMost(5000, () => flood(runtime, 2000));
    assert.ok(runtime.counts().pending <= 110, `${runtime.counts().pending}`);
    release.resolve();
    assert.equal(await runtime.flush(10_000), 0);
    runtime.mark("later");
    assert.equal(await runtime.flush(10_000), 0);
    const calls = events.filter((event) => event.kind === "scope");
    const delivered = pairsIn(calls);
    assert.ok(delivered > 0 && delivered <= 60, `${delivered}`);
    const reports = events.filter((event) => event.kind === "mark" && event.name !== "later");
    assert.equal(reports.length, 1);
    assert.equal(reports[0].data.events, 4000 - 2 * delivered);
    assert.equal(runtime.counts().dropped, 4000 - 2 * delivered);
    const starts = calls.filter((event) => event.scope_category === "start");
    const order = starts.map((event) => Number(event.name.slice(1)));
    assert.deepEqual(order, [...order].sort((a, b) => a - b));
    assert.equal(await runtime.shutdown(), 0);
  });

  it("over the byte bound events come without their payload", async () => {
    const { runtime, events, release } = stuckRuntime({ queueBytes: 64 * 1024 });
    await flood(runtime, 500);
    assert.ok(runtime.counts().pendingBytes < 1200 * 1024, "an event without payload is small");
    release.resolve();
    assert.equal(await runtime.flush(10_000), 0);
    runtime.mark("later");
    assert.equal(await runtime.flush(10_000), 0);
    const calls = events.filter((event) => event.kind === "scope");
    const whole = calls.filter((event) => event.data !== null);
    const without = calls.filter((event) => event.data === null);
    assert.ok(whole.length > 0 && without.length > 0);
    assert.ok(without.every((event) => event.metadata["callweir.payload"] === "dropped"));
    pairsIn(calls);
    const reports = events.filter((event) => event.kind === "mark" && event.name !== "later");
    const lost = reports.reduce((sum, mark) => sum + mark.data.events, 0);
    assert.equal(lost, 1000 - calls.length);
    assert.equal(runtime.counts().dropped, lost);
    assert.ok(whole.reduce((sum, event) => sum + JSON.stringify(event).length, 0) < 128 * 1024);
    assert.equal(await runtime.shutdown(), 0);
  });

  it("settings are checked", () => {
    const wrong = [{ queueEvents: -1 }, { queueBytes: 1.5 }, { sanitizerTimeout: -1 }, { queueEvents: "5" }];
    for (const bad of wrong) {
      assert.throws(() => new Runtime(bad), InvalidArgument, JSON.stringify(bad));
    }
  });
});

describe("C-62, EVT-8: stuck callbacks of the dispatcher", () => {
  const never = () => new Promise(() => undefined);

  it("a sanitizer that hangs holds up events, not calls, and flush tells how many", async () => {
    const runtime = new Runtime();
    const seen = new Seen("seen", runtime);
    let hung = false;
    runtime.register("tool.sanitize_request", "hangs", (_, args) => (hung ? args : ((hung = true), never())));
    await atMost(5000, async () => {
      for (let number = 0; number < 1000; number++) await runtime.execute(`t${number}`, {}, echo);
    });
    const left = await atMost(1100, () => runtime.flush(300));
    assert.equal(left, 2000);
    assert.equal(seen.events.length, 0);
    assert.ok((await atMost(1100, () => runtime.shutdown(200))) > 0);
  });

  it("after its limit that payload is withheld and marked, and the rest arrives in order", async () => {
    const runtime = new Runtime({ sanitizerTimeout: 300 });
    const seen = new Seen("seen", runtime);
    runtime.register("tool.sanitize_request", "hangs", (name, args) => (name === "t0" ? never() : args));
    for (let number = 0; number < 1000; number++) await runtime.execute(`t${number}`, { n: number }, echo);
    await atMost(5000, () => seen.flushed());
    const expected = names(1000, "t").flatMap((name) => [`start ${name}`, `end ${name}`]);
    assert.deepEqual(seen.shown(), expected);
    const first = seen.start("t0");
    assert.deepEqual([first.data, first.metadata["callweir.payload"]], [null, "withheld"]);
    assert.deepEqual(seen.start("t1").data, { n: 1 });
    assert.ok(!JSON.stringify(seen.end("t1").metadata).includes("withheld"));
    assert.equal(await runtime.shutdown(), 0);
  });

  it("an event sanitizer likewise, by a limit that is configured later", async () => {
    const runtime = new Runtime();
    const seen = new Seen("seen", runtime);
    runtime.configure({ sanitizerTimeout: 200 });
    runtime.register("mark.sanitize", "hangs", (event, fields) => (event.name === "m0" ? never() : fields));
    marks(runtime, 20);
    await atMost(5000, () => seen.flushed());
    assert.deepEqual(seen.events.map((event) => event.name), names(20));
    assert.equal(seen.events[0].data, null);
    assert.equal(seen.events[0].metadata["callweir.payload"], "withheld");
    assert.equal(await runtime.shutdown(), 0);
  });

  it("a subscriber that hangs is skipped, the other gets all, and it may come back", async () => {
    const runtime = new Runtime({ sanitizerTimeout: 200 });
    const [hung, release] = [[], deferred()];
    runtime.subscribe("hangs", (event) => {
      hung.push(event.name);
      return hung.length === 1 ? release.promise : undefined;
    });
    const seen = new Seen("seen", runtime);
    marks(runtime, 50);
    await atMost(5000, () => seen.flushed());
    assert.deepEqual(seen.events.map((event) => event.name), names(50));
    assert.deepEqual(hung, ["m0"]);
    const { skipped, dropped } = runtime.counts();
    assert.ok(skipped + dropped >= 49, JSON.stringify(runtime.counts()));
    release.resolve();
    await pause(5);
    runtime.mark("back");
    await seen.flushed();
    assert.deepEqual(hung, ["m0", "back"]);
    assert.equal(await runtime.shutdown(), 0);
  });

  it("shutdown keeps its own limit", async () => {
    const runtime = new Runtime();
    runtime.subscribe("hangs", never);
    marks(runtime, 10);
    const left = await atMost(3000, () => runtime.shutdown(200));
    assert.ok(left > 0);
    assert.equal(runtime.isShut, true);
    assert.ok((await thrownBy(runtime.execute("t", {}, echo))) instanceof ShutDown);
  });
});

describe("C-64, EVT-8: what a flush covers", () => {
  for (const kind of KINDS) {
    it(`all that was emitted before, also to a removed subscriber (${kind})`, async () => {
      const slow = [];
      subscribers.register("slow", made(kind, (event) => void slow.push(event.name)));
      guardrails.registerMarkSanitize("s", 0, async (_, fields) => (await pause(), fields));
      marks(Runtime.default(), 50, "a");
      const waiting = subscribers.flush(10_000);
      await pause();
      marks(Runtime.default(), 50, "b");
      assert.equal(await waiting, 0);
      assert.deepEqual(slow.slice(0, 50), names(50, "a"));
      await call("t");
      scope.event("removed");
      assert.equal(subscribers.deregister("slow"), true);
      assert.equal(subscribers.deregister("slow"), false);
      scope.event("after");
      assert.equal(await subscribers.flush(10_000), 0);
      assert.deepEqual(slow.slice(50), [...names(50, "b"), "t", "t", "removed"]);
    });
  }

  it("8 at once, each covers what was emitted before it; one event at a time", async () => {
    const seen = new Seen();
    let inside = 0;
    const overlaps = [];
    subscribers.register("serial", async (event) => {
      if (++inside > 1) overlaps.push(event.name);
      await pause();
      inside -= 1;
    });
    const work = async (number) => {
      for (let one = 0; one < 40; one++) {
        scope.event(`w${number}`, one);
        if (one % 10 !== 9) continue;
        assert.equal(await subscribers.flush(10_000), 0);
        const mine = seen.of("mark", `w${number}`).map((event) => event.data);
        assert.ok(mine.length > one);
        assert.deepEqual(mine, Array.from(mine.keys()));
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, number) => work(number)));
    assert.deepEqual(overlaps, []);
    assert.equal(seen.events.length, 320);
    const same = await Promise.all(Array.from({ length: 8 }, () => subscribers.flush()));
    assert.deepEqual(same, Array(8).fill(0));
  });

  it("a flush whose time is over leaves the events to the next one", async () => {
    const [release, got] = [deferred(), []];
    subscribers.register("slow", async (event) => {
      await release.promise;
      got.push(event.name);
    });
    marks(Runtime.default(), 5);
    assert.equal(await atMost(1000, () => subscribers.flush(0)), 5);
    assert.equal(await atMost(1000, () => subscribers.flush(50)), 5);
    const long = subscribers.flush(10_000);
    release.resolve();
    assert.equal(await long, 0);
    assert.deepEqual(got, names(5));
  });

  it("per call start, marks and end are in order", async () => {
    const seen = new Seen();
    guardrails.registerScopeSanitizeStart("s", 0, async (_, fields) => (await pause(2), fields));
    const one = (number) =>
      call(`t${number}`, {}, async () => {
        scope.event(`m${number}`);
        await pause(number % 3);
        scope.event(`m${number}`);
      });
    await Promise.all(Array.from({ length: 20 }, (_, number) => one(number)));
    await seen.flushed();
    for (let number = 0; number < 20; number++) {
      const [t, m] = [`t${number}`, `m${number}`];
      const mine = seen.shown().filter((line) => [t, m].includes(line.split(" ")[1]));
      assert.deepEqual(mine, [`start ${t}`, `mark ${m}`, `mark ${m}`, `end ${t}`]);
    }
  });
});

describe("EVT-9: shutdown of a runtime", () => {
  it("ends what is open, and nothing works after it", async () => {
    const runtime = new Runtime();
    const seen = new Seen("seen", runtime);
    const handle = runtime.openScope("S");
    const manual = runtime.startCall("m", {});
    assert.equal(await runtime.shutdown(), 0);
    assert.equal(runtime.isShut, true);
    assert.equal(await runtime.shutdown(), 0);
    assert.deepEqual([seen.end("S").outcome, seen.end("m").outcome], ["abandoned", "abandoned"]);
    let ran = false;
    const error = await thrownBy(runtime.execute("t", {}, () => (ran = true)));
    assert.ok(error instanceof ShutDown && error.code === "shut_down");
    const registry = new ToolRegistry({ runtime }).register(tool({ name: "t" }, () => (ran = true)));
    assert.ok((await thrownBy(registry.dispatch("t", {}))) instanceof ShutDown);
    assert.throws(() => runtime.register("tool.request", "r", echo), ShutDown);
    assert.throws(() => runtime.subscribe("again", echo), ShutDown);
    runtime.mark("late");
    handle.close();
    assert.equal(await runtime.flush(100), 0);
    assert.equal(ran, false);
    assert.equal(seen.events.length, 4);
    assert.ok(manual);
  });

  it("delivers what is queued, and concurrent shutdowns agree", async () => {
    const runtime = new Runtime();
    const got = [];
    runtime.subscribe("slow", async (event) => (await pause(), void got.push(event.name)));
    marks(runtime, 50);
    assert.deepEqual(await Promise.all([runtime.shutdown(), runtime.shutdown(), runtime.flush()]), [0, 0, 0]);
    assert.deepEqual(got, names(50));
  });

  it("calls that run end by themselves", async () => {
    const runtime = new Runtime();
    const seen = new Seen("seen", runtime);
    const release = deferred();
    const running = runtime.execute("t", {}, () => release.promise);
    assert.equal(await runtime.shutdown(500), 0);
    release.resolve(7);
    assert.equal(await within(running, 2000), 7);
    assert.equal(seen.of("start").length, 1);
  });
});
