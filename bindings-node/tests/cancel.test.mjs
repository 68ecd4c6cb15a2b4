/** Cancelling: signals, Callweir's own cancellations, deadlines. */

import assert from "node:assert/strict";
import { defaultMaxListeners, getEventListeners, setMaxListeners } from "node:events";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";

import {
  CallRejected,
  Cancellation,
  Cancelled,
  Denied,
  subscribers,
  TimedOut,
  tool,
  ToolCallDenied,
  ToolContext,
  ToolRegistry,
  tools,
} from "callweir";

import {
  add,
  call,
  clear,
  deferred,
  echo,
  made,
  quietly,
  Seen,
  thrownBy,
  until,
  within,
} from "./helpers.mjs";

afterEach(clear);

const STAGES = ["guardrail", "request", "execution", "middleware", "tool"];

/** A registry and chain in which one stage waits for as long as `gate` is shut. */
class Path {
  reached = [];
  left = [];
  gate = deferred();

  constructor(stage, kind = "async") {
    this.stage = stage;
    add(
      "tool.conditional_execution",
      made(kind, () => this.at("guardrail")),
      { name: "g" },
    );
    add(
      "tool.request",
      made(kind, async (_, args) => {
        await this.at("request");
        return args;
      }),
      { name: "r" },
    );
    add(
      "tool.execution",
      made(kind, async (_, args, next) => {
        await this.at("execution");
        return this.passing("execution", () => next(args));
      }),
      { name: "e" },
    );
    const middleware = made(kind, async (one, next) => {
      await this.at("middleware");
      return this.passing("middleware", () => next(one));
    });
    const work = made(kind, async (args) => {
      await this.at("tool");
      return args;
    });
    this.registry = new ToolRegistry().register(tool({ name: "t" }, work)).use(middleware);
  }

  async at(stage) {
    this.reached.push(stage);
    if (stage === this.stage) await this.gate.promise;
  }

  async passing(stage, next) {
    try {
      return await next();
    } catch (error) {
      this.left.push([stage, error]);
      throw error;
    }
  }

  async until(count = 1) {
    await until(() => this.reached.filter((stage) => stage === this.stage).length === count, this.stage);
  }

  dispatch(signal, args = {}) {
    return this.registry.dispatch("t", args, new ToolContext({ signal }));
  }

  async check(seen, count = 1) {
    await seen.flushed();
    assert.deepEqual(new Set(this.reached), new Set(STAGES.slice(0, STAGES.indexOf(this.stage) + 1)));
    const outcomes = (name) => seen.of("end", name).map(({ outcome }) => outcome);
    const isInside = STAGES.indexOf(this.stage) >= 2;
    assert.deepEqual(outcomes("t"), Array(isInside ? count : 0).fill("cancelled"));
    const guarded = this.stage === "guardrail" ? "cancelled" : "succeeded";
    assert.deepEqual(outcomes("g"), Array(count).fill(guarded));
    if (this.stage === "guardrail") assert.equal(seen.of("end", "g")[0].data.cancelled, true);
  }
}

const REASONS = {
  "an error": () => new Error("why"),
  "an object": () => Object.freeze({ why: 1 }),
  "a text": () => "why",
  null: () => null,
  zero: () => 0,
  nothing: () => undefined,
};

describe("C-30 CALL-3 a signal fires while a stage waits", () => {
  for (const stage of STAGES) {
    for (const kind of ["async", "thenable", "async_method"]) {
      test(`in ${stage} (${kind})`, async () => {
        const seen = new Seen();
        const path = new Path(stage, kind);
        const controller = new AbortController();
        const running = path.dispatch(controller.signal);
        await path.until();
        const reason = new Error("why");
        await quietly(async () => {
          controller.abort(reason);
          assert.equal(await within(thrownBy(running), 2000), reason);
          path.gate.resolve();
          await sleep(2);
        });
        await path.check(seen);
        assert.equal(getEventListeners(controller.signal, "abort").length, 0);
      });
    }

    test(`in ${stage}, whatever the reason is`, async () => {
      for (const make of Object.values(REASONS)) {
        const path = new Path(stage);
        const controller = new AbortController();
        const running = path.dispatch(controller.signal);
        await path.until();
        controller.abort(make());
        assert.equal(await within(thrownBy(running), 2000), controller.signal.reason);
        clear();
      }
    });

    test(`in ${stage}, fifty at once, with a slow subscriber`, async () => {
      const seen = new Seen();
      const release = deferred();
      subscribers.register("slow", () => release.promise);
      const path = new Path(stage);
      const controllers = Array.from({ length: 50 }, () => new AbortController());
      const running = controllers.map(({ signal }) => path.dispatch(signal));
      await path.until(50);
      controllers.forEach((controller, n) => controller.abort(n));
      const errors = await within(Promise.all(running.map(thrownBy)), 5000);
      assert.deepEqual(
        errors,
        controllers.map((_, n) => n),
      );
      release.resolve();
      await path.check(seen, 50);
    });

    test(`in ${stage}, by a Cancellation`, async () => {
      const seen = new Seen();
      const path = new Path(stage);
      const cancellation = new Cancellation();
      const running = path.dispatch(cancellation.signal);
      await path.until();
      assert.equal(cancellation.cancelled, false);
      cancellation.cancel();
      cancellation.cancel();
      const error = await within(thrownBy(running), 2000);
      assert.ok(error instanceof Cancelled);
      assert.equal(error.code, "cancelled");
      await path.check(seen);
    });
  }
});

test("C-30 the intercepts around see the cancellation, and their clean-up runs", async () => {
  const seen = new Seen();
  const path = new Path("tool");
  const controller = new AbortController();
  const running = path.dispatch(controller.signal);
  await path.until();
  const reason = new Error("why");
  controller.abort(reason);
  assert.equal(await thrownBy(running), reason);
  await until(() => path.left.length === 2, "the clean-up");
  assert.deepEqual(path.left.map(([stage]) => stage).toSorted(), ["execution", "middleware"]);
  for (const [, error] of path.left) assert.equal(error, reason);
  await path.check(seen);
});

test("C-30 a tool that listens to the signal of its context hears it at once", async () => {
  const seen = new Seen();
  let heard;
  const registry = new ToolRegistry().register(
    tool({ name: "t" }, (_, { signal }) => {
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          heard = signal.reason;
          reject(signal.reason);
        });
      });
    }),
  );
  const controller = new AbortController();
  const running = registry.dispatch("t", {}, new ToolContext({ signal: controller.signal }));
  await turn();
  controller.abort();
  const error = await thrownBy(running);
  assert.equal(error, controller.signal.reason);
  assert.equal(error.name, "AbortError");
  assert.equal(heard, error);
  await seen.flushed();
  assert.equal(seen.end("t").outcome, "cancelled");
});

describe("C-30 what counts as cancelled when the signal fires inside a callback", () => {
  const ways = {
    "a result": [() => 5, (got) => assert.deepEqual(got, { value: 5 }), "succeeded"],
    "a denial": [
      () => {
        throw new ToolCallDenied("t", "no");
      },
      ({ error }) => assert.ok(error instanceof ToolCallDenied),
      "refused",
    ],
    "another error": [
      () => {
        throw new RangeError("late");
      },
      ({ error }, reason) => assert.equal(error, reason),
      "cancelled",
    ],
  };
  for (const [what, [end, check, outcome]] of Object.entries(ways)) {
    test(`a synchronous tool ends with ${what}`, async () => {
      const seen = new Seen();
      const controller = new AbortController();
      const reason = new Error("why");
      const got = await call(
        "t",
        {},
        () => {
          controller.abort(reason);
          return end();
        },
        { signal: controller.signal },
      ).then(
        (value) => ({ value }),
        (error) => ({ error }),
      );
      check(got, reason);
      await seen.flushed();
      assert.equal(seen.end("t").outcome, outcome);
    });
  }

  test("Cancelled has the error as its cause", async () => {
    const cancellation = new Cancellation();
    const late = new RangeError("late");
    const error = await thrownBy(
      call(
        "t",
        {},
        () => {
          cancellation.cancel();
          throw late;
        },
        { signal: cancellation.signal },
      ),
    );
    assert.ok(error instanceof Cancelled);
    assert.equal(error.cause, late);
  });

  test("a rejection that came first stays one", async () => {
    const controller = new AbortController();
    add("tool.conditional_execution", () => {
      controller.abort();
      return "no";
    });
    const error = await thrownBy(call("t", {}, echo, { signal: controller.signal }));
    assert.ok(error instanceof CallRejected && error instanceof Denied);
  });

  test("a denial that came first stays one", async () => {
    const seen = new Seen();
    const controller = new AbortController();
    add("tool.execution", async () => {
      await turn();
      throw new ToolCallDenied("t", "no");
    });
    const running = call("t", {}, echo, { signal: controller.signal });
    running.catch(() => controller.abort());
    assert.ok((await thrownBy(running)) instanceof ToolCallDenied);
    await seen.flushed();
    assert.equal(seen.end("t").outcome, "refused");
  });

  for (const stage of ["tool.conditional_execution", "tool.request", "tool.execution"]) {
    test(`an abort inside ${stage} starts no later stage`, async () => {
      const seen = new Seen();
      const controller = new AbortController();
      const reason = new Error("why");
      let ran = 0;
      add(
        stage,
        (_, args, next) => {
          controller.abort(reason);
          if (next !== undefined) return next(args);
          return stage === "tool.request" ? args : undefined;
        },
        { name: "aborts" },
      );
      const later = (_, args, next) => {
        ran++;
        return next === undefined ? undefined : next(args);
      };
      add(stage, later, { name: "later", priority: 1 });
      const running = call("t", {}, () => ran++, { signal: controller.signal });
      assert.equal(await quietly(() => within(thrownBy(running), 2000)), reason);
      assert.equal(ran, 0);
      await seen.flushed();
      const ends = seen.of("end", "t").map(({ outcome }) => outcome);
      assert.deepEqual(ends, stage === "tool.execution" ? ["cancelled"] : []);
    });
  }
});

test("C-30 an abort after the call has ended changes nothing", async () => {
  const seen = new Seen();
  const controller = new AbortController();
  assert.equal(await call("t", 1, echo, { signal: controller.signal }), 1);
  controller.abort();
  await turn();
  await seen.flushed();
  assert.equal(seen.end("t").outcome, "succeeded");
});

test("C-30 a call inside a cancelled one goes on by itself, and ends once", async () => {
  const seen = new Seen();
  const gate = deferred();
  const controller = new AbortController();
  let inner;
  const running = call("outer", {}, () => (inner = call("inner", 1, () => gate.promise)), {
    signal: controller.signal,
  });
  await turn();
  controller.abort();
  assert.equal(await thrownBy(running), controller.signal.reason);
  gate.resolve(7);
  assert.equal(await inner, 7);
  await seen.flushed();
  assert.equal(seen.end("outer").outcome, "cancelled");
  assert.equal(seen.end("inner").outcome, "succeeded");
  assert.equal(seen.end("inner").parent_uuid, seen.start("outer").uuid);
});

test("C-30 a signal given by a middleware cancels what is inside it", async () => {
  const controller = new AbortController();
  const reason = new Error("inner");
  const caught = [];
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => new Promise(() => undefined)));
  registry.use(async (one, next) => {
    const running = next(one.withCancellation(controller.signal));
    await turn();
    controller.abort(reason);
    try {
      return await running;
    } catch (error) {
      caught.push(error);
      return "instead";
    }
  });
  assert.equal(await within(registry.dispatch("t", {}), 2000), "instead");
  assert.deepEqual(caught, [reason]);
  assert.equal(getEventListeners(controller.signal, "abort").length, 0);
});

test("C-30 a middleware that passes on an aborted signal", async () => {
  const reason = new Error("before");
  let ran = 0;
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => ran++));
  registry.use((one, next) => next(one.withCancellation(AbortSignal.abort(reason))));
  assert.equal(await thrownBy(registry.dispatch("t", {})), reason);
  assert.equal(ran, 0);
});

test("C-35 FAM-5 a cancel during the first of two attempts", async () => {
  const seen = new Seen();
  const controller = new AbortController();
  let ran = 0;
  add("tool.execution", async (_, args, next) => {
    await next(args).catch(() => undefined);
    return next(args);
  });
  const running = call(
    "t",
    {},
    () => {
      ran++;
      return new Promise(() => undefined);
    },
    { signal: controller.signal },
  );
  await until(() => ran === 1);
  await quietly(async () => {
    controller.abort(new Error("why"));
    assert.equal(await thrownBy(running), controller.signal.reason);
    await sleep(2);
  });
  assert.equal(ran, 1);
  await seen.flushed();
  assert.equal(seen.end("t").outcome, "cancelled");
});

test("C-36 a signal that has fired: the cancellation at once, and nothing runs", async () => {
  const seen = new Seen();
  const ran = [];
  add("tool.conditional_execution", () => void ran.push("guardrail"));
  add("tool.request", (_, args) => ran.push("request") && args);
  add("tool.execution", (_, args, next) => ran.push("execution") && next(args));
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => ran.push("tool")));
  registry.use({
    run: (one, next) => ran.push("middleware") && next(one),
    onRefused: () => void ran.push("refused"),
  });
  const cancellation = new Cancellation();
  cancellation.cancel();
  const signals = Object.values(REASONS).map((make) => AbortSignal.abort(make()));
  for (const signal of [...signals, cancellation.signal]) {
    const context = new ToolContext({ signal });
    for (const act of [
      () => call("t", {}, () => ran.push("work"), { signal }),
      () => registry.dispatch("t", {}, context),
      () => registry.dispatch("unknown", {}, context),
      () => registry.dispatch("t", "not json", context),
      () => registry.dispatchJson("t", {}, context),
    ]) {
      assert.equal(await quietly(() => thrownBy(act())), signal.reason);
    }
  }
  assert.ok(cancellation.signal.reason instanceof Cancelled);
  assert.deepEqual(ran, []);
  assert.deepEqual((await seen.flushed()).events, []);
});

test("C-36 a deadline that has passed", async () => {
  let ran = 0;
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => ran++));
  for (const deadline of [0, -5]) {
    assert.ok(
      (await thrownBy(registry.dispatch("t", {}, new ToolContext({ deadline })))) instanceof TimedOut,
    );
  }
  assert.equal(ran, 0);
});

test("REG-3 a deadline that passes while the tool runs", async () => {
  const seen = new Seen();
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => new Promise(() => undefined)));
  const running = registry.dispatch("t", {}, new ToolContext({ deadline: 20 }));
  assert.ok((await within(thrownBy(running), 5000)) instanceof TimedOut);
  await seen.flushed();
  assert.equal(seen.end("t").outcome, "failed");
  assert.equal(seen.end("t").metadata["error.type"], "timed_out");
});

/** A signal that counts its listeners. */
class Counting extends EventTarget {
  #controller = new AbortController();
  now = 0;
  most = 0;

  get aborted() {
    return this.#controller.signal.aborted;
  }

  get reason() {
    return this.#controller.signal.reason;
  }

  addEventListener(...given) {
    this.most = Math.max(this.most, ++this.now);
    super.addEventListener(...given);
  }

  removeEventListener(...given) {
    this.now--;
    super.removeEventListener(...given);
  }

  abort(reason) {
    this.#controller.abort(reason);
    this.dispatchEvent(new Event("abort"));
  }
}

describe("C-37 CALL-3 ten thousand calls with one signal", () => {
  const late = async (value) => {
    await turn();
    return value;
  };
  const works = [
    echo,
    () => {
      throw new Error("x");
    },
    late,
    () => Promise.reject(new Error("y")),
  ];

  async function spend(signal, count) {
    const registry = new ToolRegistry().register(tool({ name: "t" }, late));
    const context = new ToolContext({ signal });
    for (let round = 0; round < count / 100; round++) {
      const calls = Array.from({ length: 100 }, (_, n) => {
        if (n % 5 === 4) return registry.dispatch(n % 2 ? "t" : "unknown", {}, context);
        return call("t", n, works[n % 5], { signal });
      });
      await Promise.allSettled(calls);
    }
  }

  test("no listener is left", async () => {
    const { signal } = new AbortController();
    setMaxListeners(0, signal);
    await quietly(() => spend(signal, 10_000));
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });

  test("nobody warns, however many there are at once", async () => {
    assert.ok(defaultMaxListeners < 100);
    await quietly(() => spend(new AbortController().signal, 200));
  });

  test("each listener that was added is removed once, also where the signal fires", async () => {
    const signal = new Counting();
    setMaxListeners(0, signal);
    await quietly(() => spend(signal, 2000));
    assert.equal(signal.now, 0);
    assert.ok(signal.most >= 1);
    const running = Array.from({ length: 10 }, () =>
      call("t", {}, () => new Promise(() => undefined), { signal }),
    );
    await turn();
    assert.ok(signal.now >= 1);
    signal.abort("why");
    assert.deepEqual(await within(Promise.all(running.map(thrownBy)), 2000), Array(10).fill("why"));
    assert.equal(signal.now, 0);
  });
});

test("C-38 a guardrail that hung for one call does not disable the tool", async () => {
  const seen = new Seen();
  const first = deferred();
  let ran = 0;
  add("tool.conditional_execution", (_, { n }) => (n === 1 ? first.promise : undefined));
  const controller = new AbortController();
  const one = call("t", { n: 1 }, () => ++ran, { signal: controller.signal });
  await turn();
  controller.abort(new Error("why"));
  assert.equal(await thrownBy(one), controller.signal.reason);
  assert.equal(await call("t", { n: 2 }, () => ++ran), 1);
  first.resolve("too late");
  await turn();
  assert.equal(await call("t", { n: 3 }, () => ++ran), 2);
  await seen.flushed();
  assert.equal(seen.of("end", "t").length, 2);
  assert.equal(seen.of("mark").length, 0);
  assert.equal(seen.of("end", "entry").length, 3);
});

test("CALL-3 a late result or failure after the cancel is ignored", async () => {
  const seen = new Seen();
  for (const end of ["resolve", "reject"]) {
    const gate = deferred();
    const controller = new AbortController();
    const running = call("t", {}, () => gate.promise, { signal: controller.signal });
    await turn();
    await quietly(async () => {
      controller.abort();
      assert.equal(await thrownBy(running), controller.signal.reason);
      gate[end](new Error("late"));
      await sleep(2);
    });
    await seen.flushed();
    assert.equal(seen.end("t").outcome, "cancelled");
    seen.events.length = 0;
  }
});

test("CALL-3 one signal cancels calls in calls, all with its reason", async () => {
  const seen = new Seen();
  const controller = new AbortController();
  const { signal } = controller;
  setMaxListeners(0, signal);
  let deepest = 0;
  const level = (depth) =>
    call(
      `l${depth}`,
      {},
      async () => {
        await turn();
        deepest = depth;
        return depth === 20 ? new Promise(() => undefined) : level(depth + 1);
      },
      { signal },
    );
  const running = level(1);
  await until(() => deepest === 20, "the innermost");
  const reason = new Error("all");
  await quietly(async () => {
    controller.abort(reason);
    assert.equal(await within(thrownBy(running), 2000), reason);
  });
  await until(() => getEventListeners(signal, "abort").length === 0, "the listeners");
  await seen.flushed();
  for (let depth = 1; depth <= 20; depth++) assert.equal(seen.end(`l${depth}`).outcome, "cancelled");
});

test("CALL-3 AbortSignal.timeout and AbortSignal.any", async () => {
  const hang = () => new Promise(() => undefined);
  const keep = setInterval(() => undefined, 1000);
  const timed = await within(thrownBy(call("t", {}, hang, { signal: AbortSignal.timeout(10) })), 5000);
  assert.equal(timed.name, "TimeoutError");
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, new AbortController().signal]);
  const running = call("t", {}, hang, { signal });
  await turn();
  controller.abort("any");
  assert.equal(await within(thrownBy(running), 2000), "any");
  clearInterval(keep);
});

test("CALL-3 the standalone helpers know no signal, and are not disturbed by one", async () => {
  const controller = new AbortController();
  add("tool.request", (_, args) => {
    controller.abort();
    return args;
  });
  assert.deepEqual(await tools.requestIntercepts("t", { a: 1 }), { a: 1 });
});

describe("C-94 REG-3 a context's signal fires at its deadline too", () => {
  const waiting = tool({ name: "waits" }, (_, { signal }) => {
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const dispatch = (options) => {
    return new ToolRegistry().register(waiting).dispatch("waits", {}, new ToolContext(options));
  };

  test("and the caller gets TimedOut, whoever comes first", async () => {
    const errors = await Promise.all(Array.from({ length: 20 }, () => thrownBy(dispatch({ deadline: 15 }))));
    assert.deepEqual([...new Set(errors.map((error) => error.name))], ["TimedOut"]);
  });

  test("and with the caller's signal, with its reason", async () => {
    const controller = new AbortController();
    const reason = new Error("mine");
    setTimeout(() => controller.abort(reason), 5);
    assert.equal(await thrownBy(dispatch({ deadline: 60_000, signal: controller.signal })), reason);
  });

  test("a deadline that has passed has fired it", () => {
    assert.ok(new ToolContext({ deadline: -1 }).signal instanceof AbortSignal);
  });

  test("that of a call without limits never fires, and is the same each time", async () => {
    const context = new ToolContext();
    assert.ok(context.signal instanceof AbortSignal);
    assert.equal(context.signal, context.signal);
    assert.equal(context.signal.aborted, false);
    const listens = tool({ name: "t" }, (_, { signal }) => signal.aborted);
    assert.equal(await new ToolRegistry().register(listens).dispatch("t", {}), false);
  });

  test("what waits inside the call fails with TimedOut too", async () => {
    const inner = deferred();
    const registry = new ToolRegistry().register(tool({ name: "waits" }, () => new Promise(() => undefined)));
    registry.use(async (call, next) => {
      try {
        return await next();
      } catch (error) {
        inner.resolve(error);
        throw error;
      }
    });
    const running = registry.dispatch("waits", {}, new ToolContext({ deadline: 15 }));
    assert.equal((await thrownBy(running)).name, "TimedOut");
    assert.equal((await within(inner.promise, 2000)).name, "TimedOut");
  });
});
