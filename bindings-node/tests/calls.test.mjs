/** Managed calls: order, `next`, nesting, many at once, and what they give back. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import vm from "node:vm";

import {
  CallRejected,
  currentCall,
  guardrails,
  intercepts,
  InvalidArgument,
  InvalidReturn,
  NotJson,
  Runtime,
  scope,
  tool,
  ToolContext,
  tools,
} from "callweir";

import {
  add,
  call,
  clear,
  deferred,
  echo,
  KINDS,
  made,
  quietly,
  Seen,
  thrownBy,
  within,
} from "./helpers.mjs";
import { STAGES } from "./stages.mjs";

afterEach(clear);

for (const [stage, { good, install, refusal }] of Object.entries(STAGES)) {
  test(`C-07 every kind of callable as ${stage}`, async () => {
    for (const kind of KINDS) {
      const seen = new Seen();
      let ran = 0;
      const act = install(
        made(kind, (...given) => {
          ran++;
          return good(...given);
        }),
      );
      const args = { a: 1 };
      await quietly(async () => {
        if (refusal === undefined) assert.deepEqual(await act(args), { a: 1 }, kind);
        else assert.ok((await thrownBy(act(args))) instanceof refusal, kind);
        await seen.flushed();
      });
      assert.ok(ran >= 1, `${kind} ran`);
      assert.ok(seen.events.length >= 1);
      for (const event of seen.events) assert.equal(event.metadata?.["callweir.payload"], undefined, kind);
      clear();
    }
  });
}

test("C-07 a thenable that is no promise is awaited, also one of another realm", async () => {
  const other = vm.runInNewContext("({ promise: Promise.resolve(7), thenable: { then(f) { f(8); } } })");
  assert.equal(await call("t", {}, () => other.promise), 7);
  assert.equal(await call("t", {}, () => other.thenable), 8);
  const callable = Object.assign(() => 0, { then: (resolve) => resolve(9) });
  assert.equal(await call("t", {}, () => callable), 9);
  class Kept extends Promise {}
  assert.equal(await call("t", {}, () => Kept.resolve(10)), 10);
  add("tool.conditional_execution", () => vm.runInNewContext("Promise.resolve('late no')"));
  assert.equal((await thrownBy(call())).reason, "late no");
});

test("C-07 a thenable that settles twice, or throws after it has settled, counts once", async () => {
  const greedy = {
    then(resolve, reject) {
      resolve(1);
      resolve(2);
      reject(new Error("late"));
      throw new Error("later");
    },
  };
  assert.equal(await quietly(() => call("t", {}, () => greedy)), 1);
  const nested = { then: (resolve) => resolve({ then: (inner) => inner("deep") }) };
  assert.equal(await call("t", {}, () => nested), "deep");
});

test("section 4: an allowed call runs its stages in order, on what the one before gave", async () => {
  const ran = [];
  const note = (stage) => (name, args) => void ran.push([stage, name, { ...args }]);
  guardrails.registerToolConditionalExecution("g", 0, note("guardrail"));
  intercepts.registerToolRequest("r", 0, false, (name, args) => {
    note("request")(name, args);
    return { ...args, r: 1 };
  });
  intercepts.registerToolExecution("e", 0, async (name, args, next) => {
    note("execution")(name, args);
    const result = await next({ ...args, e: 1 });
    ran.push(["after", result]);
    return [result];
  });
  const result = await call("t", { a: 1 }, (args) => {
    ran.push(["work", args]);
    return "done";
  });
  assert.deepEqual(result, ["done"]);
  assert.deepEqual(ran, [
    ["guardrail", "t", { a: 1 }],
    ["request", "t", { a: 1 }],
    ["execution", "t", { a: 1, r: 1 }],
    ["work", { a: 1, r: 1, e: 1 }],
    ["after", "done"],
  ]);
});

test("C-21 FAM-3 the tool waits for the guardrails; the first rejection is the last word", async () => {
  const seen = new Seen();
  let count = 0;
  let asked = 0;
  add(
    "tool.conditional_execution",
    async (_, { n }) => {
      await sleep(5);
      return n % 3 === 0 ? "third" : undefined;
    },
    { name: "slow" },
  );
  add(
    "tool.conditional_execution",
    (_, { n }) => {
      asked++;
      return n % 3 === 1 ? "second" : null;
    },
    { name: "then", priority: 1 },
  );
  add("tool.request", (_, args) => args);
  const calls = Array.from({ length: 99 }, (_, n) => call("t", { n }, () => ++count));
  const results = await Promise.allSettled(calls);
  assert.equal(count, 33);
  assert.equal(asked, 66);
  results.forEach(({ status, reason }, n) => {
    assert.equal(status, n % 3 === 2 ? "fulfilled" : "rejected");
    if (status === "rejected") {
      assert.ok(reason instanceof CallRejected);
      assert.equal(reason.reason, n % 3 === 0 ? "third" : "second");
      assert.equal(reason.by, n % 3 === 0 ? "slow" : "then");
      assert.equal(reason.targetName, "t");
    }
  });
  await seen.flushed();
  assert.equal(seen.of("start", "t").length, 33);
  assert.equal(seen.of("end", "t").length, 33);
  assert.equal(seen.of("start", "slow").length, 99);
  assert.equal(seen.of("start", "then").length, 66);
  const marks = seen.of("mark", "t");
  assert.equal(marks.length, 66);
  for (const mark of marks) {
    assert.equal(mark.metadata["callweir.mark"], "rejection");
    assert.equal(mark.data.rejected, true);
    const id = mark.metadata["callweir.call_uuid"];
    const own = seen.of("end").filter(({ metadata }) => metadata["callweir.call_uuid"] === id);
    assert.ok(own.length >= 1 && own.every(({ category }) => category === "guardrail"));
    assert.equal(own.at(-1).data.rejection_reason, mark.data.rejection_reason);
  }
});

test("C-22 the guardrail judges what the caller gave, later stages see what became of it", async () => {
  const seen = new Seen();
  const read = [];
  add("tool.conditional_execution", (_, { dest }) => void read.push(["guardrail", dest]));
  add("tool.request", (_, args) => {
    args.dest = "south";
    return args;
  });
  add("tool.execution", (_, args, next) => {
    read.push(["execution", args.dest]);
    return next(args);
  });
  await call("t", { dest: "north" }, ({ dest }) => read.push(["tool", dest]));
  assert.deepEqual(read, [
    ["guardrail", "north"],
    ["execution", "south"],
    ["tool", "south"],
  ]);
  await seen.flushed();
  assert.deepEqual(seen.start("t").data, { dest: "south" });
});

test("C-23 FAM-1 each family runs where the table says and nowhere else", async () => {
  const where = {
    "tool.conditional_execution": ["call"],
    "tool.request": ["call"],
    "tool.execution": ["call"],
    "tool.sanitize_request": ["call", "manual"],
    "tool.sanitize_response": ["call", "manual"],
    "mark.sanitize": ["mark"],
    "scope.sanitize_start": ["call", "manual", "scope"],
    "scope.sanitize_end": ["call", "manual", "scope"],
  };
  const good = Object.fromEntries(
    Object.keys(where).map((family) => [
      family,
      family.endsWith("execution") ? undefined : (_, second) => second,
    ]),
  );
  good["tool.conditional_execution"] = () => undefined;
  good["tool.execution"] = (_, args, next) => next(args);
  for (const [family, expected] of Object.entries(where)) {
    const seen = new Seen();
    const ran = [];
    add(family, (name, ...rest) => {
      ran.push(typeof name === "string" ? name : name.name);
      return good[family](name, ...rest);
    });
    assert.deepEqual(await call("call", { a: 1 }), { a: 1 }, family);
    tools.callEnd(tools.call("manual", { a: 1 }), { a: 1 });
    scope.event("mark", 1);
    scope.scope("scope", () => 0);
    await seen.flushed();
    assert.deepEqual(ran, expected, family);
    clear();
  }
});

test("each callback gets the arguments of the table and no more", async () => {
  const counts = {
    guardrail: 2,
    request: 2,
    execution: 3,
    middleware: 2,
    "refusal hook": 2,
    tool: 2,
    work: 1,
    "request sanitizer": 2,
    "response sanitizer": 2,
    "mark sanitizer": 2,
    "start sanitizer": 2,
    "end sanitizer": 2,
    subscriber: 1,
    "call subscriber": 1,
  };
  for (const [stage, count] of Object.entries(counts)) {
    const seen = new Seen();
    const given = [];
    const act = STAGES[stage].install((...all) => {
      given.push(all.length);
      return STAGES[stage].good(...all);
    });
    await act({ a: 1 }).catch(() => undefined);
    await seen.flushed();
    assert.ok(given.length > 0 && given.every((length) => length === count), `${stage}: ${given}`);
    clear();
  }
});

test("C-24 CALL-1 CALL-2 one start and one end, or none", async () => {
  const seen = new Seen();
  add("tool.execution", (name, args, next) => (name === "short" ? "instead" : next(args)));
  add("tool.conditional_execution", (name) => (name === "rejected" ? "no" : undefined), { name: "g" });
  let ran = 0;
  const work = (fails) => () => {
    ran++;
    if (fails) throw new RangeError("x");
    return 1;
  };
  assert.equal(await call("good", {}, work(false)), 1);
  assert.ok((await thrownBy(call("bad", {}, work(true)))) instanceof RangeError);
  assert.ok((await thrownBy(call("rejected", {}, work(false)))) instanceof CallRejected);
  assert.equal(await call("short", {}, work(false)), "instead");
  assert.equal(ran, 2);
  await seen.flushed();
  assert.equal(seen.end("good").outcome, "succeeded");
  assert.equal(seen.end("good").metadata["callweir.short_circuited"], undefined);
  assert.equal(seen.end("good").metadata["otel.status_code"], "OK");
  assert.equal(seen.end("bad").outcome, "failed");
  assert.equal(seen.end("bad").metadata["error.type"], "RangeError");
  assert.deepEqual([seen.of("start", "rejected").length, seen.of("end", "rejected").length], [0, 0]);
  assert.equal(seen.of("mark", "rejected").length, 1);
  assert.equal(seen.end("short").outcome, "succeeded");
  assert.equal(seen.end("short").metadata["callweir.short_circuited"], true);
});

test("C-24 the rejection mark is there right after the error", async () => {
  const seen = new Seen();
  add("tool.conditional_execution", () => "");
  assert.equal((await thrownBy(call("t"))).reason, "", "an empty reason rejects");
  await seen.flushed();
  assert.deepEqual(seen.shown(), ["start entry", "end entry", "mark t"]);
  assert.deepEqual(seen.of("start")[0].data, { kind: "tool_conditional_execution", target_name: "t" });
  assert.equal(seen.of("end")[0].data.rejected, true);
  assert.equal(seen.of("end")[0].data.allowed, false);
});

for (const kind of ["plain", "async", "thenable"]) {
  test(`C-80 ERR-1 what a ${kind} callback may return`, async () => {
    let ran = 0;
    const work = () => {
      ran++;
      return "real";
    };
    for (const verdict of [true, false, 0, 1, {}, [], Symbol("no"), () => undefined, 1n]) {
      const seen = new Seen();
      add(
        "tool.conditional_execution",
        made(kind, () => verdict),
      );
      const error = await thrownBy(call("t", {}, work));
      assert.ok(error instanceof InvalidReturn && !(error instanceof CallRejected), String(verdict));
      assert.deepEqual([error.family, error.entry], ["tool.conditional_execution", "entry"]);
      assert.deepEqual((await seen.flushed()).shown(), ["start entry", "end entry"]);
      assert.equal(seen.of("end")[0].data.allowed, false);
      clear();
    }
    for (const nothing of [undefined, null]) {
      const seen = new Seen();
      add(
        "tool.request",
        made(kind, (_, args) => {
          args.edited = true;
          return nothing;
        }),
      );
      const error = await thrownBy(call("t", {}, work));
      assert.ok(error instanceof InvalidReturn && error.family === "tool.request");
      assert.deepEqual((await seen.flushed()).events, []);
      clear();
    }
    assert.equal(ran, 0);
    for (const nothing of [undefined, null]) {
      const seen = new Seen();
      add(
        "tool.execution",
        made(kind, () => nothing),
      );
      assert.equal(await call("t", {}, work), nothing);
      assert.equal((await seen.flushed()).end("t").outcome, "succeeded");
      clear();
    }
  });
}

for (const [nothing, shown] of [
  [undefined, "undefined"],
  [null, "null"],
]) {
  test(`C-80 sanitizers that return ${shown}`, async () => {
    const seen = new Seen();
    const later = [];
    for (const side of ["request", "response"]) {
      add(`tool.sanitize_${side}`, () => nothing, { name: "omits" });
      add(`tool.sanitize_${side}`, (_, value) => later.push(side) && value, { name: "later", priority: 1 });
    }
    assert.equal(await call("t", { a: 1 }, () => "real"), "real");
    await seen.flushed();
    for (const event of [seen.start("t"), seen.end("t")]) {
      assert.equal(event.data, null);
      assert.equal(event.metadata["callweir.payload"], "omitted");
    }
    assert.deepEqual(later, []);
    clear();
    const other = new Seen();
    add("scope.sanitize_end", () => nothing);
    assert.equal(await call("t", { a: 1 }, () => "real", { metadata: { mine: 1 } }), "real");
    const end = (await other.flushed()).end("t");
    assert.equal(end.data, null);
    assert.equal(end.metadata.mine, undefined);
    assert.equal(end.metadata["callweir.outcome"], "succeeded");
    assert.equal(end.metadata["otel.status_code"], "OK");
  });
}

test("C-86 FAM-4 an entry that breaks the chain", async () => {
  const ran = [];
  let fails = false;
  const request = (n) => (_, args) => {
    ran.push(n);
    if (fails && n === 2) throw new RangeError("two");
    return { ...args, [`r${n}`]: 1 };
  };
  intercepts.registerToolRequest("1", 1, false, request(1));
  intercepts.registerToolRequest("2", 2, true, request(2));
  intercepts.registerToolRequest("3", 3, false, request(3));
  add("tool.conditional_execution", () => void ran.push("guardrail"));
  add("tool.execution", (_, args, next) => {
    ran.push("execution");
    return next(args);
  });
  assert.deepEqual(await call("t", {}), { r1: 1, r2: 1 });
  assert.deepEqual(ran, ["guardrail", 1, 2, "execution"]);
  fails = true;
  ran.length = 0;
  assert.ok((await thrownBy(call("t", {}))) instanceof RangeError);
  assert.deepEqual(ran, ["guardrail", 1, 2]);
});

test("PAY-1 arguments and results are the very objects", async () => {
  class Order {}
  const shapes = [
    {},
    [],
    new Order(),
    new Map(),
    Symbol("s"),
    () => 1,
    0,
    "",
    null,
    undefined,
    NaN,
    -0,
    1n,
    new Date(),
  ];
  for (const observed of [false, true]) {
    if (observed) new Seen();
    for (const args of shapes) {
      for (const result of shapes) {
        let got;
        const given = await tools.execute("t", args, (value) => {
          got = value;
          return result;
        });
        assert.ok(Object.is(got, args));
        assert.ok(Object.is(given, result));
      }
    }
  }
});

test("PAY-1 what an intercept returns is what the next stage gets", async () => {
  const made = [{ r: 1 }, { e: 2 }, { w: 3 }, { x: 4 }];
  const got = [];
  add("tool.request", () => made[0]);
  add("tool.execution", async (_, args, next) => {
    got.push(args);
    got.push(await next(made[1]));
    return made[3];
  });
  const result = await call("t", {}, (args) => {
    got.push(args);
    return made[2];
  });
  assert.equal(got[0], made[0]);
  assert.equal(got[1], made[1]);
  assert.equal(got[2], made[2]);
  assert.equal(result, made[3]);
});

test("tools.execute with arguments of the wrong type rejects, and nothing leaks", async () => {
  const seen = new Seen();
  const wrong = [
    [undefined, {}, echo],
    [5, {}, echo],
    [Symbol("n"), {}, echo],
    [{ toString: () => "t" }, {}, echo],
    ["t", {}],
    ["t", {}, null],
    ["t", {}, "echo"],
    ["t", {}, {}],
  ];
  await quietly(async () => {
    for (const given of wrong) {
      const promise = tools.execute(...given);
      assert.ok(promise instanceof Promise);
      assert.ok((await thrownBy(promise)) instanceof TypeError);
      assert.ok((await thrownBy(Runtime.default().execute(...given))) instanceof TypeError);
    }
    for (let times = 0; times < 200; times++) await thrownBy(tools.execute(times, {}, echo));
  });
  assert.equal(await call("after", 1), 1);
  await seen.flushed();
  assert.deepEqual(seen.shown(), ["start after", "end after"]);
});

test("helpers and options of the wrong type are errors that name them", async () => {
  for (const name of [undefined, 5, Symbol("n")]) {
    for (const way of [tools.conditionalExecution, tools.requestIntercepts]) {
      assert.ok(
        (await quietly(() => thrownBy((async () => way(name, {}))()))) instanceof TypeError,
        way.name,
      );
    }
  }
  const error = await thrownBy(call("t", {}, echo, { metadata: { a: [1, new Map()] } }));
  assert.ok(error instanceof NotJson);
  assert.equal(error.path, "$.a[1]");
  for (const toolCallId of [5, {}, Symbol("id")]) {
    assert.ok((await thrownBy(call("t", {}, echo, { toolCallId }))) instanceof TypeError, typeof toolCallId);
  }
  for (const signal of [5, "abort", {}, null]) {
    for (const made of [() => call("t", {}, echo, { signal }), async () => new ToolContext({ signal })]) {
      const error = await thrownBy(made());
      assert.ok(error instanceof InvalidArgument, typeof signal);
      assert.equal(error.path, "$.signal");
    }
  }
  assert.equal(await call("t", 1, echo, {}), 1);
  assert.equal(await call("t", 1, echo, { metadata: null, toolCallId: undefined, signal: undefined }), 1);
});

test("CALL-1 the options of a call reach its events", async () => {
  const seen = new Seen();
  await call("t", {}, echo, { metadata: { run: [1, { z: 1, a: 2 }] }, toolCallId: "c1" });
  await seen.flushed();
  assert.deepEqual(seen.start("t").category_profile, { tool_call_id: "c1" });
  assert.deepEqual(seen.end("t").category_profile, { tool_call_id: "c1" });
  assert.equal(JSON.stringify(seen.start("t").metadata.run), '[1,{"z":1,"a":2}]');
});

test("CALL-5 calls in calls, a hundred levels deep, with all their guardrails", async () => {
  const seen = new Seen();
  let asked = 0;
  add("tool.conditional_execution", async () => {
    asked++;
    await turn();
  });
  const level = (depth) =>
    call(`l${depth}`, depth, async () => (depth === 100 ? 1 : 1 + (await level(depth + 1))));
  assert.equal(await within(level(1)), 100);
  assert.equal(asked, 100);
  await seen.flushed();
  for (let depth = 2; depth <= 100; depth++) {
    assert.equal(seen.start(`l${depth}`).parent_uuid, seen.start(`l${depth - 1}`).uuid);
  }
});

const nested = (depth, last) => {
  const inner = () => (depth === last ? 1 : nested(depth + 1, last).then((n) => n + 1));
  return call(`l${depth}`, depth, inner);
};

test("CALL-5 synchronous calls in calls", async () => {
  assert.equal(await within(nested(1, 50)), 50);
  add("tool.execution", (_, args, next) => next(args));
  assert.equal(await within(nested(1, 30)), 30);
});

for (const stage of ["guardrail", "request", "execution", "middleware", "tool", "work"]) {
  test(`C-01 CALL-5 a managed call inside ${stage}`, async () => {
    const seen = new Seen();
    let asked = 0;
    add("tool.conditional_execution", (name) => void (name === "inner" && asked++), { name: "all" });
    const { good, install } = STAGES[stage];
    const act = install(async (...given) => {
      if (given[0] === "inner") return good(...given);
      assert.equal(await call("inner", 5), 5);
      return good(...given);
    });
    assert.deepEqual(await within(act({ a: 1 })), { a: 1 });
    assert.equal(asked, 1);
    await seen.flushed();
    const expected = ["guardrail", "request"].includes(stage) ? null : seen.start("t").uuid;
    assert.equal(seen.end("inner").parent_uuid, expected);
  });
}

test("a thousand calls at once, each with its own", async () => {
  const seen = new Seen();
  add("tool.conditional_execution", async (_, { n }) => {
    await sleep(n % 5);
  });
  add("tool.request", async (_, args) => ({ ...args, r: args.n }));
  add("tool.execution", async (_, args, next) => {
    await turn();
    return { ...(await next({ ...args, e: args.n })), after: args.n };
  });
  const shared = async (args) => {
    await sleep(args.n % 3);
    assert.equal(currentCall().name, `t${args.n}`);
    return args;
  };
  const calls = Array.from({ length: 1000 }, (_, n) => call(`t${n}`, { n }, shared));
  const results = await within(Promise.all(calls));
  results.forEach((result, n) => assert.deepEqual(result, { n, r: n, e: n, after: n }));
  await seen.flushed();
  assert.equal(seen.of("end").filter(({ category }) => category === "tool").length, 1000);
});

test("one callback object as the work and entry of many calls at once", async () => {
  const gates = Array.from({ length: 50 }, deferred);
  const both = async (first, second, next) => {
    if (next !== undefined) return [await next(second)];
    await gates[first.n].promise;
    return first.n;
  };
  add("tool.execution", both, { name: "one" });
  add("tool.execution", both, { name: "two", priority: 1 });
  const calls = gates.map((_, n) => call("t", { n }, both));
  for (const { resolve } of gates.toReversed()) {
    resolve();
    await turn();
  }
  assert.deepEqual(
    await within(Promise.all(calls)),
    gates.map((_, n) => [[n]]),
  );
});

test("section 4: the standalone helpers run one phase", async () => {
  const seen = new Seen();
  const ran = [];
  add("tool.conditional_execution", async (_, { bad }) => {
    ran.push("guardrail");
    return bad ? "no" : undefined;
  });
  add("tool.request", (_, args) => {
    ran.push("request");
    return { ...args, r: 1 };
  });
  add("tool.execution", () => assert.fail("an execution intercept ran"));
  const args = { a: 1 };
  assert.deepEqual(await tools.requestIntercepts("t", args), { a: 1, r: 1 });
  assert.deepEqual(args, { a: 1 });
  assert.deepEqual((await seen.flushed()).events, []);
  assert.equal(await tools.conditionalExecution("t", args), undefined);
  assert.deepEqual(ran, ["request", "guardrail"]);
  assert.deepEqual((await seen.flushed()).shown(), ["start entry", "end entry"]);
  const error = await thrownBy(tools.conditionalExecution("t", { bad: true }));
  assert.ok(error instanceof CallRejected);
  assert.equal(error.by, "entry");
});

test("FAM-6 a call keeps the chains that it entered with", async () => {
  const seen = new Seen();
  const gate = deferred();
  add("tool.sanitize_response", () => "masked");
  const running = call("t", {}, () => gate.promise);
  await turn();
  clear();
  add("tool.execution", () => assert.fail("registered during the call"));
  gate.resolve("real");
  assert.equal(await running, "real");
  await seen.flushed();
  assert.equal(seen.end("t").data, "masked");
});

test("FAM-6 entries that register and remove while they run change later calls only", async () => {
  const ran = [];
  add("tool.request", (_, args) => {
    ran.push("first");
    if (ran.length === 1) {
      add("tool.request", (_, later) => ran.push("added") && later, { name: "added", priority: 9 });
      assert.ok(intercepts.deregisterToolRequest("entry"));
    }
    return args;
  });
  add("tool.request", (_, args) => ran.push("second") && args, { name: "second", priority: 1 });
  await call();
  assert.deepEqual(ran, ["first", "second"]);
  await call();
  assert.deepEqual(ran, ["first", "second", "second", "added"]);
});

test("CALL-5 synchronous calls in calls, a hundred levels deep, with an intercept", async () => {
  add("tool.execution", (_, args, next) => next(args));
  assert.equal(await within(nested(1, 100), 2000), 100);
});
