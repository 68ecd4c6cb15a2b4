/** What callbacks throw, and what becomes of it. */

import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import vm from "node:vm";

import * as callweir from "callweir";
import {
  CallweirError,
  Cancellation,
  Denied,
  forModel,
  Runtime,
  scope,
  tool,
  ToolRegistry,
  tools,
} from "callweir";

import { add, call, clear, echo, made, quietly, Seen, thrownBy, within } from "./helpers.mjs";
import { CLOSED, failures, OPEN, STAGES } from "./stages.mjs";

afterEach(clear);

class Quota extends Error {
  constructor(status, requestId) {
    super(`quota ${status}`, { cause: new RangeError("window") });
    this.status = status;
    this.requestId = requestId;
  }
}

/** Everything that a program may throw, a fresh one each time. */
const THROWN = {
  "an error class of its own": () => new Quota(429, "r1"),
  "a frozen error": () => Object.freeze(new Quota(429, "r1")),
  "a frozen object": () => Object.freeze({ code: 5 }),
  "an object without a prototype": () => Object.create(null),
  "an error of another realm": () => vm.runInNewContext("new TypeError('other')"),
  "an aggregate": () => new AggregateError([new Error("a")], "many"),
  "an error of Callweir's": () => new callweir.TimedOut("mine"),
  "an error whose message throws": () => {
    return Object.defineProperty(new Error(), "message", { get: () => assert.fail("message was read") });
  },
  "an error that is a thenable": () => Object.assign(new Error("x"), { then: () => undefined }),
  "a promise": () => Promise.resolve(1),
  "a function": () => () => 1,
  undefined: () => undefined,
  null: () => null,
  zero: () => 0,
  "minus zero": () => -0,
  "not a number": () => NaN,
  "an empty text": () => "",
  "a text": () => "text",
  "a lone surrogate": () => "\ud800",
  false: () => false,
  "a big integer": () => 0n,
  "a symbol": () => Symbol("s"),
};

const ways = {
  synchronously: (value) => () => {
    throw value;
  },
  "as a rejection": (value) => async () => {
    await turn();
    throw value;
  },
  "as a rejection at once": (value) => () => Promise.reject(value),
  "by a thenable": (value) => () => ({ then: (_, reject) => reject(value) }),
};

/** Gives what was thrown in a list: a thenable would not come out of an asynchronous function. */
const caught = (promise) =>
  promise.then(
    () => assert.fail("nothing was thrown"),
    (error) => [error],
  );

/** Wraps a call in so many intercepts that only pass it on, and notes what each sees. */
function passOn(count, noted, kind = "async") {
  for (let n = 0; n < count; n++) {
    add(
      "tool.execution",
      made(kind, async (_, args, next) => {
        try {
          return await next(args);
        } catch (error) {
          noted.push(error);
          throw error;
        }
      }),
      { name: `pass ${n}`, priority: n },
    );
  }
}

describe("C-15 ERR-2 the caller gets the very thing that was thrown", () => {
  for (const [what, make] of Object.entries(THROWN)) {
    test(what, async () => {
      for (const count of [0, 1, 5]) {
        for (const [way, throwing] of Object.entries(ways)) {
          const value = make();
          const noted = [];
          passOn(count, noted);
          const [got] = await quietly(() => caught(call("t", {}, throwing(value))));
          assert.ok(Object.is(got, value), `${way} through ${count}`);
          assert.equal(noted.length, count);
          assert.ok(noted.every((error) => Object.is(error, value)));
          clear();
        }
      }
    });

    test(`${what}, from every stage`, async () => {
      for (const stage of CLOSED) {
        for (const [way, throwing] of Object.entries(ways)) {
          const value = make();
          const act = STAGES[stage].install(throwing(value));
          const [got] = await quietly(() => caught(act({ a: 1 })));
          assert.ok(Object.is(got, value), `${way} from ${stage}`);
          clear();
        }
      }
    });
  }
});

test("C-15 an error keeps its class, its fields, its cause and its stack", async () => {
  const error = new Quota(429, "r1");
  const { stack } = error;
  passOn(5, []);
  const got = await thrownBy(
    call("t", {}, async () => {
      throw error;
    }),
  );
  assert.ok(got instanceof Quota && !(got instanceof CallweirError));
  assert.deepEqual([got.status, got.requestId, got.stack], [429, "r1", stack]);
  assert.ok(got.cause instanceof RangeError);
  assert.deepEqual(Object.keys(got), ["status", "requestId"]);
});

test("C-15 an intercept may replace what was thrown, or answer instead", async () => {
  const seen = new Seen();
  const inner = new Quota(1);
  const outer = new TypeError("outer", { cause: inner });
  add("tool.execution", async (name, args, next) => {
    try {
      return await next(args);
    } catch (error) {
      assert.equal(error, inner);
      if (name === "instead") return "fallback";
      throw outer;
    }
  });
  const fail = () => {
    throw inner;
  };
  assert.equal(await thrownBy(call("t", {}, fail)), outer);
  assert.equal(await call("instead", {}, fail), "fallback");
  await seen.flushed();
  assert.equal(seen.end("t").metadata["error.type"], "TypeError");
  assert.equal(seen.end("instead").outcome, "succeeded");
});

test("ERR-3 error.type is the class or type as the language shows it", async () => {
  const seen = new Seen();
  const expected = {
    "an error class of its own": "Quota",
    "a frozen object": "Object",
    "an object without a prototype": "Object",
    "an error of another realm": "TypeError",
    "an aggregate": "AggregateError",
    "an error of Callweir's": "timed_out",
    undefined: "undefined",
    null: null,
    zero: "number",
    "a text": "string",
    false: "boolean",
    "a big integer": "bigint",
    "a symbol": "symbol",
    "a function": "function",
  };
  for (const what of Object.keys(expected)) {
    await thrownBy(call(what, {}, ways.synchronously(THROWN[what]())));
  }
  await seen.flushed();
  for (const [what, type] of Object.entries(expected)) {
    const { metadata, outcome, data } = seen.end(what);
    assert.equal(metadata["error.type"], type, what);
    assert.ok("error.type" in metadata);
    assert.equal(metadata["otel.status_code"], "ERROR");
    assert.equal(outcome, "failed");
    assert.equal(data, null);
  }
});

test("C-16 EVT-6 no event and no warning has the text of an error", async () => {
  const warnings = [];
  const listener = (warning) => warnings.push(String(warning.message));
  process.on("warning", listener);
  const seen = new Seen();
  const card = "card PRIVATE-1111";
  for (const stage of [...CLOSED, ...OPEN]) {
    const act = STAGES[stage].install(ways.synchronously(new Error(card)));
    await act({ a: 1 }).catch((error) => assert.equal(error.message, card));
    await seen.flushed();
    for (const event of seen.events) assert.ok(!String(event).includes("PRIVATE"), `${stage}: ${event}`);
    clear();
    seen.events.length = 0;
    seen.runtime.subscribe("seen", (event) => void seen.events.push(event));
  }
  await turn();
  process.off("warning", listener);
  assert.ok(
    warnings.every((message) => !message.includes("PRIVATE")),
    warnings.join(),
  );
});

test("EVT-6 the text of an error is there when it is switched on, through the sanitizers", async () => {
  const runtime = new Runtime({ errorText: true });
  const seen = new Seen("seen", runtime);
  const fail = (value) => () => {
    throw value;
  };
  await thrownBy(runtime.execute("error", {}, fail(new Error("a\ud800b"))));
  await thrownBy(runtime.execute("text", {}, fail("plain")));
  await thrownBy(runtime.execute("broken", {}, fail({ toString: () => assert.fail() })));
  runtime.register("scope.sanitize_end", "mask", (_, fields) => {
    return JSON.parse(JSON.stringify(fields).replaceAll("PRIVATE", "****"));
  });
  await thrownBy(runtime.execute("masked", {}, fail(new Error("card PRIVATE"))));
  await seen.flushed();
  assert.ok(String(seen.end("error")).includes("a\ufffdb"));
  assert.ok(String(seen.end("text")).includes("plain"));
  assert.ok(seen.end("broken"));
  assert.ok(String(seen.end("masked")).includes("card ****"));
  await runtime.shutdown();
});

/** A proxy that throws whatever is asked of it. */
function hostile(value) {
  const traps = Object.getOwnPropertyNames(Reflect);
  const fail = () => {
    throw value;
  };
  return new Proxy(function () {}, Object.fromEntries(traps.map((trap) => [trap, fail])));
}

const throwingGetter = (value) => ({
  get x() {
    throw value;
  },
});

describe("C-17 a callback that misbehaves does not end the process", () => {
  const broken = {
    "throws at once": (value) => ways.synchronously(value),
    rejects: (value) => ways["as a rejection"](value),
    "returns a thenable that throws": (value) => () => ({ then: ways.synchronously(value) }),
    "returns an object whose `then` throws": (value) => () =>
      Object.defineProperty({}, "then", {
        get: ways.synchronously(value),
      }),
    "returns a proxy that throws": (value) => () => hostile(value),
    "returns a promise of a proxy that throws": (value) => async () => hostile(value),
  };
  for (const stage of [...CLOSED, ...OPEN]) {
    for (const [what, make] of Object.entries(broken)) {
      test(`${stage} ${what}`, async () => {
        const seen = new Seen();
        const value = new Quota(1);
        const { install, closed } = STAGES[stage];
        const before = failures();
        const act = install(make(value));
        if (closed) {
          assert.equal(await quietly(() => within(thrownBy(act({ a: 1 })))), value);
        } else {
          // A failure of these is told to nobody but the log.
          assert.deepEqual(await within(act({ a: 1 })), { a: 1 });
          await seen.flushed();
          assert.ok(failures() > before);
        }
        clear();
        assert.equal(await call("after", 1), 1);
      });
    }

    test(`${stage} returns an object with a getter that throws`, async () => {
      const seen = new Seen();
      const value = new Quota(1);
      const { install, value: fate, refusal, isWork } = STAGES[stage];
      const result = throwingGetter(value);
      const running = install(() => result)({ a: 1 });
      if (fate === "refused") {
        assert.ok((await thrownBy(running)) instanceof callweir.InvalidReturn);
      } else if (refusal !== undefined) {
        assert.ok((await thrownBy(running)) instanceof refusal);
      } else if (fate === "passed") {
        assert.equal(await running, result);
        await seen.flushed();
        if (isWork) assert.equal(seen.end("t").metadata["callweir.payload"], "not_json");
        if (isWork) assert.equal(seen.end("t").metadata["callweir.not_json_path"], "$.x");
      } else {
        assert.deepEqual(await running, { a: 1 });
      }
      await quietly(() => seen.flushed());
    });

    if (stage === "refusal hook" || STAGES[stage].closed) {
      test(`${stage} never settles, and the call is cancelled`, async () => {
        const seen = new Seen();
        const controller = new AbortController();
        const reached = [];
        const act = STAGES[stage].install(() => {
          reached.push(stage);
          return new Promise(() => undefined);
        });
        const running = act({ a: 1 }, controller.signal);
        running.catch(() => undefined);
        await turn();
        assert.deepEqual(reached, [stage]);
        const reason = new Quota(2);
        controller.abort(reason);
        assert.equal(await quietly(() => within(thrownBy(running))), reason);
        await seen.flushed();
        const ends = seen.of("end", "t").map(({ outcome }) => outcome);
        const outside = ["guardrail", "request", "refusal hook"].includes(stage);
        assert.deepEqual(ends, outside ? [] : ["cancelled"]);
      });
    }
  }

  for (const stage of OPEN) {
    test(`${stage} never settles`, async () => {
      const runtime = Runtime.default();
      runtime.configure({ sanitizerTimeout: 30 });
      try {
        const act = STAGES[stage].install(() => new Promise(() => undefined));
        assert.deepEqual(await within(act({ a: 1 })), { a: 1 });
        assert.equal(await within(runtime.flush(5000)), 0);
        clear();
        const seen = new Seen("later");
        assert.equal(await call("after", 1), 1);
        assert.equal((await seen.flushed()).end("after").data, 1);
      } finally {
        runtime.configure({ sanitizerTimeout: 10_000 });
      }
    });
  }
});

test("C-17 a converter that throws, or gives something odd", async () => {
  for (const convert of [
    ways.synchronously(new Quota(1)),
    () => hostile(new Quota(1)),
    () => throwingGetter(1),
    () => Promise.reject(new Quota(1)),
    (value) => value,
    () => undefined,
  ]) {
    const runtime = new Runtime({ default: convert });
    const seen = new Seen("seen", runtime);
    const value = new Map();
    await quietly(async () => {
      assert.equal(await runtime.execute("t", {}, () => value), value);
      await seen.flushed();
    });
    assert.equal(seen.end("t").metadata["callweir.payload"], "not_json");
    await runtime.shutdown();
  }
});

describe("C-20 ERR-1 what the failure of each family does", () => {
  const fail = (error) => () => {
    throw error;
  };
  const act = async (name = "t") => {
    let ran = 0;
    const work = (args) => {
      ran++;
      scope.event("m", { secret: 1 });
      return args;
    };
    const outcome = await call(name, { a: 1 }, work, { metadata: { mine: 1 } }).then(
      (value) => ({ value }),
      (error) => ({ error }),
    );
    return { ...outcome, ran };
  };

  test("a guardrail", async () => {
    const seen = new Seen();
    const error = new Quota(1);
    add("tool.conditional_execution", fail(error));
    add("tool.request", () => assert.fail("a later stage ran"));
    assert.deepEqual(await act(), { error, ran: 0 });
    await seen.flushed();
    assert.deepEqual(seen.shown(), ["start entry", "end entry"]);
    assert.equal(seen.end("entry").data.error, "Quota");
    assert.equal(seen.end("entry").data.allowed, false);
    assert.equal(seen.end("entry").outcome, "failed");
  });

  test("a request intercept", async () => {
    const seen = new Seen();
    const error = new Quota(1);
    add("tool.request", fail(error));
    assert.deepEqual(await act(), { error, ran: 0 });
    assert.deepEqual((await seen.flushed()).events, []);
  });

  test("an execution intercept before and after next", async () => {
    const seen = new Seen();
    const error = new Quota(1);
    add("tool.execution", async (name, args, next) => {
      if (name === "after") await next(args);
      throw error;
    });
    assert.deepEqual(await act("before"), { error, ran: 0 });
    assert.deepEqual(await act("after"), { error, ran: 1 });
    await seen.flushed();
    for (const name of ["before", "after"]) {
      assert.equal(seen.end(name).outcome, "failed");
      assert.equal(seen.end(name).metadata["error.type"], "Quota");
    }
  });

  for (const side of ["request", "response"]) {
    test(`a ${side} sanitizer`, async () => {
      const seen = new Seen();
      const before = failures();
      add(`tool.sanitize_${side}`, fail(new Quota(1)));
      add(`tool.sanitize_${side}`, () => assert.fail("a later sanitizer ran"), { name: "z" });
      assert.deepEqual(await act(), { value: { a: 1 }, ran: 1 });
      await seen.flushed();
      const [broken, whole] = side === "request" ? ["start", "end"] : ["end", "start"];
      assert.equal(seen[broken]("t").data, null);
      assert.equal(seen[broken]("t").metadata["callweir.payload"], "withheld");
      assert.deepEqual(seen[whole]("t").data, { a: 1 });
      assert.equal(seen.end("t").outcome, "succeeded");
      assert.equal(failures(), before + 1);
    });
  }

  for (const [family, category, name] of [
    ["mark.sanitize", "mark", "m"],
    ["scope.sanitize_start", "start", "t"],
    ["scope.sanitize_end", "end", "t"],
  ]) {
    test(`an event sanitizer: ${family}`, async () => {
      const seen = new Seen();
      add(family, fail(new Quota(1)));
      assert.deepEqual(await act(), { value: { a: 1 }, ran: 1 });
      await seen.flushed();
      const [event] = seen.of(category, name);
      assert.equal(event.data, null);
      assert.equal(event.metadata.mine, undefined);
      assert.equal(event.metadata["callweir.payload"], "withheld");
      assert.equal(event.category_profile ?? null, null);
      for (const other of seen.events.filter((one) => one !== event)) assert.notEqual(other.data, null);
      if (category === "end") assert.equal(event.outcome, "succeeded");
    });
  }

  test("a subscriber", async () => {
    const before = failures();
    Runtime.default().subscribe("fails", fail(new Quota(1)));
    const seen = new Seen("z");
    assert.deepEqual(await act(), { value: { a: 1 }, ran: 1 });
    await seen.flushed();
    assert.deepEqual(seen.shown(), ["start t", "mark m", "end t"]);
    assert.equal(failures(), before + 3);
  });

  test("a registry's middleware and refusal hook", async () => {
    const seen = new Seen();
    const error = new Quota(1);
    const registry = new ToolRegistry().register(tool({ name: "t" }, echo));
    registry.use({ name: "both", run: fail(error), onRefused: fail(error) });
    assert.equal(await thrownBy(registry.dispatch("t", {})), error);
    assert.equal(await thrownBy(registry.dispatch("nope", {})), error);
    await seen.flushed();
    assert.equal(seen.end("t").outcome, "failed");
  });
});

test("C-18 a callback that uses up the stack fails its own call and no other", async () => {
  const seen = new Seen();
  const endless = () => endless() + 1;
  for (const stage of CLOSED) {
    const act = STAGES[stage].install(endless);
    assert.ok((await quietly(() => thrownBy(act({ a: 1 })))) instanceof RangeError, stage);
    clear();
  }
  for (const stage of OPEN) {
    assert.deepEqual(await STAGES[stage].install(endless)({ a: 1 }), { a: 1 });
    assert.equal(await seen.runtime.flush(5000), 0);
    clear();
  }
  const calls = Array.from({ length: 100 }, (_, n) => call("t", n));
  assert.deepEqual(
    await Promise.all(calls),
    Array.from({ length: 100 }, (_, n) => n),
  );
});

test("C-18 calls that make themselves without end fail when the stack is full", async () => {
  const registry = new ToolRegistry().register(tool({ name: "t" }, (args) => args));
  let depth = 0;
  registry.use((call) => {
    depth += 1;
    return registry.dispatch("t", call.arguments);
  });
  for (let n = 0; n < 3; n += 1) {
    const error = await within(thrownBy(registry.dispatch("t", { n })), 20_000);
    assert.ok(error instanceof RangeError || error instanceof callweir.Internal, String(error));
  }
  assert.ok(depth > 100);
  assert.equal(await call("t", 1), 1);
});

/** How each of Callweir's own errors is made, with its fields. */
const OWN = {
  Denied: [["no"], { reason: "no" }],
  ToolCallDenied: [["pay", "no"], { tool: "pay", reason: "no" }],
  CallRejected: [["pay", "no", "g"], { targetName: "pay", reason: "no", by: "g" }],
  ToolNotFound: [["pay"], { tool: "pay" }],
  ToolNotPermitted: [["pay"], { tool: "pay" }],
  ToolCallFailed: [["pay", "Timeout"], { tool: "pay", type: "Timeout" }],
  Cancelled: [["stopped"], {}],
  TimedOut: [["late"], {}],
  Expired: [[], {}],
  AlreadyExists: [["x"], { targetName: "x" }],
  NotFound: [["x"], { targetName: "x" }],
  AlreadyEnded: [[], {}],
  NotJson: [["$.a"], { path: "$.a" }],
  InvalidArgument: [["$.a"], { path: "$.a" }],
  InvalidReturn: [["tool.request", "r"], { family: "tool.request", entry: "r" }],
  InvalidConfig: [["$.a"], { path: "$.a" }],
  Codec: [["$.a"], { path: "$.a" }],
  Plugin: [["p"], { component: "p" }],
  ShutDown: [[], {}],
  WouldDeadlock: [[], {}],
  Internal: [[], {}],
};

describe("ERR-3 Callweir's own errors", () => {
  for (const [kind, [given, fields]] of Object.entries(OWN)) {
    test(kind, async () => {
      const Class = callweir[kind];
      const cause = new Quota(1);
      const error = new Class(...given);
      assert.ok(error instanceof CallweirError && error instanceof Error);
      assert.equal(error.name, kind);
      assert.equal(error.kind, kind);
      for (const [field, value] of Object.entries(fields)) assert.equal(error[field], value);
      assert.notEqual(error.message, "");
      assert.ok(error.stack.includes("errors.test.mjs"));
      assert.ok(!("cause" in error));
      const snake = kind.replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
      const code = { ToolCallDenied: "denied", CallRejected: "rejected" }[kind] ?? snake;
      assert.equal(error.code, code);
      assert.equal(Class.code, code);
      const full = new Class(...given, ...(Object.keys(fields).length || given.length ? [] : [undefined]), {
        code: "own",
        cause,
      });
      assert.equal(full.code, "own");
      assert.equal(full.cause, cause);
      assert.equal(await thrownBy(call("t", {}, ways.synchronously(full))), full);
      assert.equal(typeof JSON.parse(error.forModel()).error, "string");
    });
  }

  test("the kinds that are kinds of others", () => {
    const { prototype } = Denied;
    for (const kind of ["ToolCallDenied", "CallRejected"])
      assert.ok(prototype.isPrototypeOf(callweir[kind].prototype));
    assert.ok(new callweir.ToolNotPermitted("x") instanceof callweir.ToolNotFound);
    assert.ok(new callweir.TimedOut() instanceof callweir.ToolCallFailed);
  });

  test("a class that a program derives works as one of its own", async () => {
    const seen = new Seen();
    class OverLimit extends callweir.ToolCallDenied {
      constructor(toolName, limit) {
        super(toolName, `over ${limit}`, { code: "over_limit" });
        this.limit = limit;
      }
    }
    const error = new OverLimit("pay", 5);
    add("tool.execution", ways.synchronously(error));
    assert.equal(await thrownBy(call("pay")), error);
    await seen.flushed();
    assert.equal(seen.end("pay").outcome, "refused");
    assert.equal(seen.end("pay").metadata["error.type"], "denied", "what was refused is counted as one");
    assert.equal(error.code, "over_limit");
    assert.equal(forModel(error), '{"error":"denied: over 5"}');
  });
});

test("CALL-1 a denial is refused, from wherever it comes", async () => {
  const seen = new Seen();
  const denial = new callweir.ToolCallDenied("t", "no");
  for (const stage of ["execution", "middleware", "middleware object", "tool", "work"]) {
    for (const way of Object.keys(ways)) {
      assert.equal(await thrownBy(STAGES[stage].install(ways[way](denial))({})), denial);
      await seen.flushed();
      assert.equal(seen.end("t").outcome, "refused", `${way} from ${stage}`);
      assert.equal(seen.end("t").metadata["error.type"], "denied");
      seen.events.length = 0;
      clear();
      seen.runtime.subscribe("seen", (event) => void seen.events.push(event));
    }
  }
});

test("C-81 ERR-5 the text that a model gets", async () => {
  const fails = () => {
    throw new SyntaxError("card PRIVATE");
  };
  const parent = new ToolRegistry().register(
    tool({ name: "fails" }, fails),
    tool({ name: "pay" }, echo),
    tool({ name: "limited" }, echo),
  );
  parent.use((one, next) => {
    if (one.name === "limited") throw new callweir.ToolCallDenied("limited", "over limit");
    return next(one);
  });
  const registry = parent.subset(["fails", "limited"]);
  const said = async (name) => {
    const error = await thrownBy(registry.dispatch(name, {}));
    if (error instanceof CallweirError) assert.equal(error.forModel(), forModel(error));
    return forModel(error);
  };
  assert.equal(await said("limited"), '{"error":"denied: over limit"}');
  assert.equal(await said("nope"), '{"error":"not found: nope"}');
  assert.equal(await said("pay"), '{"error":"not permitted: pay"}');
  assert.equal(await said("fails"), '{"error":"failed: SyntaxError"}');
  add("tool.conditional_execution", () => 'say "no"');
  assert.equal(await said("limited"), JSON.stringify({ error: 'denied: say "no"' }));
});

test("ERR-5 anything thrown has a text for a model, and nothing else of it leaks", () => {
  const said = {
    "an error class of its own": "failed: Quota",
    "an error of Callweir's": "failed: timed_out",
    "an object without a prototype": "failed: Object",
    "an error whose message throws": "failed: Error",
    undefined: "failed: undefined",
    null: "failed: null",
    "a text": "failed: string",
    "a symbol": "failed: symbol",
  };
  for (const [what, text] of Object.entries(said)) {
    assert.deepEqual(JSON.parse(forModel(THROWN[what]())), { error: text }, what);
  }
  assert.equal(typeof JSON.parse(forModel(hostile(1))).error, "string");
});

test("CALL-1 an error that a program keeps can be thrown again by later calls", async () => {
  const error = new Quota(1);
  for (let times = 0; times < 3; times++)
    assert.equal(await thrownBy(call("t", {}, ways.synchronously(error))), error);
  const cancellation = new Cancellation();
  cancellation.cancel();
  const cancelled = await thrownBy(call("t", {}, echo, { signal: cancellation.signal }));
  assert.equal(await thrownBy(call("t", {}, ways.synchronously(cancelled))), cancelled);
});

test("ERR-1 a manual call, a scope and a mark throw at once what is wrong with them", () => {
  for (const act of [
    () => tools.call(5, {}),
    () => scope.event(5),
    () => scope.push(5),
    () => scope.scope(5, echo),
    () => scope.scope("s"),
    () => Runtime.default().register("tool.request", "r", "not a function"),
    () => Runtime.default().register("tool.request", 5, echo),
  ]) {
    assert.throws(act, TypeError);
  }
});
