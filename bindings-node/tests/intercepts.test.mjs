/** Intercepts: how they fold, in which order, and what they may do. */

import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { InvalidArgument, intercepts, explain, Runtime, scope, tool, ToolRegistry } from "callweir";

import { add, call, clear, echo, KINDS, made, quietly, Seen, thrownBy, within } from "./helpers.mjs";

afterEach(clear);

for (const kind of KINDS) {
  test(`section 3: request and execution intercepts fold (${kind})`, async () => {
    const push = (name) => made(kind, (_, args) => [...args, name]);
    intercepts.registerToolRequest("r2", 2, false, push("r2"));
    intercepts.registerToolRequest("r1", 1, false, push("r1"));
    const around = (name) =>
      made(kind, async (_, args, next) => [...(await next([...args, name])), `after ${name}`]);
    intercepts.registerToolExecution("e2", 2, around("e2"));
    intercepts.registerToolExecution("e1", 1, around("e1"));
    const expected = ["r1", "r2", "e1", "e2", "after e2", "after e1"];
    assert.deepEqual(await call("t", []), expected);
    const registry = new ToolRegistry().register(tool({ name: "t" }, ({ list }) => list));
    clear();
    intercepts.registerToolRequest(
      "r",
      0,
      false,
      made(kind, (_, { list }) => ({ list: [...list, "r"] })),
    );
    assert.deepEqual(await registry.dispatch("t", { list: [1] }), [1, "r"]);
  });
}

/** Registers entries of one family at all levels in a random order, and calls where all apply. */
async function tied(family, note) {
  const entries = (outer, inner) => [
    ["b", undefined, 0],
    ["B", undefined, 0],
    ["a", undefined, 0],
    ["a", outer, 0],
    ["a", inner, 0],
    ["z", undefined, -5],
  ];
  return scope.scope("outer", (outer) =>
    scope.scope("inner", async (inner) => {
      for (const [name, level, priority] of entries(outer, inner).toSorted(() => Math.random() - 0.5)) {
        const shown = { undefined: name, outer: "outer a", inner: "inner a" }[level?.name];
        add(family, (...given) => note(shown, ...given), { name, scope: level, priority });
      }
      const lines = explain("tool", "t").filter(({ stage }) => stage === family);
      return [
        await call("t", []),
        lines.map(({ name, level }) => (level === "global" ? name : `${level} ${name}`)),
      ];
    }),
  );
}

const TIED = ["z", "B", "a", "outer a", "inner a", "b"];

test("C-85 FAM-2 ties over levels, in a transform family", async () => {
  for (let times = 0; times < 10; times++) {
    const [result, lines] = await tied("tool.request", (shown, _, args) => [...args, shown]);
    assert.deepEqual(result, TIED);
    assert.deepEqual(lines, ["z", "B", "a", "scope a", "scope a", "b"]);
    clear();
  }
});

test("C-85 FAM-2 ties over levels, in an around family from the outside in", async () => {
  for (let times = 0; times < 10; times++) {
    const [result] = await tied("tool.execution", (shown, _, args, next) => next([...args, shown]));
    assert.deepEqual(result, TIED);
    clear();
  }
});

test("C-85 nothing of the scopes is left when they have closed", async () => {
  await tied("tool.request", (shown, _, args) => [...args, shown]);
  assert.deepEqual(await call("t", []), ["z", "B", "a", "b"]);
  assert.equal(explain("tool", "t").length, 4);
});

test("FAM-8 an entry of a scope is seen by it and by what is inside it", async () => {
  const noted = [];
  const note = (name) => (_, args) => noted.push(name) && args;
  await scope.scope("s", async (handle) => {
    intercepts.registerToolRequest("r", 0, false, note("r"), { scope: handle });
    await call("inside", {}, () => call("deep"));
    await scope.scope("sibling", () => call());
  });
  await call("outside");
  assert.deepEqual(noted, ["r", "r", "r"]);
});

test("FAM-4 break_chain belongs to request intercepts, and to entries that ran", async () => {
  const noted = [];
  const note = (name) => (_, args) => noted.push(name) && args;
  Runtime.default().register("tool.request", "one", note("one"), { priority: 1, breakChain: true });
  Runtime.default().register("tool.request", "two", note("two"), { priority: 2 });
  await scope.scope("s", async (handle) => {
    intercepts.registerToolRequest("zero", 0, false, note("zero"), { scope: handle });
    await call();
  });
  assert.deepEqual(noted, ["zero", "one"]);
  for (const family of ["tool.execution", "tool.conditional_execution", "tool.sanitize_request"]) {
    const act = () => Runtime.default().register(family, "x", echo, { breakChain: true });
    assert.throws(act, InvalidArgument, family);
  }
});

test("PAY-4 a request intercept edits in place and returns the same object", async () => {
  intercepts.registerToolRequest("r", 0, false, (_, args) => {
    args.list.push(1);
    return args;
  });
  let got;
  intercepts.registerToolExecution("e", 0, (_, args, next) => {
    got = args;
    args.list.push(2);
    return next();
  });
  const given = { list: [] };
  const result = await call("t", given);
  assert.equal(result, got);
  assert.deepEqual([result.list, given.list], [[1, 2], []]);
});

test("an execution intercept that edits the arguments after next was called", async () => {
  const seen = new Seen();
  intercepts.registerToolExecution("e", 0, async (_, args, next) => {
    const running = next(args);
    args.late = true;
    return running;
  });
  await call("t", {}, async (args) => {
    await turn();
    return args;
  });
  await seen.flushed();
  assert.deepEqual(seen.start("t").data, {});
  assert.deepEqual(seen.end("t").data, { late: true });
});

test("CALL-2 what counts as answering without the work", async () => {
  const seen = new Seen();
  intercepts.registerToolExecution("e", 0, async (name, args, next) => {
    if (name === "after") await next(args);
    if (name === "caught") await next(args).catch(() => undefined);
    return name;
  });
  const work = ({ fails }) => {
    if (fails) throw new Error("x");
  };
  for (const name of ["before", "after", "caught"]) {
    assert.equal(await call(name, { fails: name === "caught" }, work), name);
  }
  await seen.flushed();
  const short = (name) => seen.end(name).metadata["callweir.short_circuited"];
  assert.deepEqual(["before", "after", "caught"].map(short), [true, undefined, undefined]);
});

test("an intercept may answer with any value, promises of it too", async () => {
  for (const value of [
    undefined,
    null,
    0,
    "",
    false,
    NaN,
    1n,
    Symbol("s"),
    () => 1,
    new Error("a value"),
    {},
  ]) {
    for (const wrap of [(one) => one, async (one) => one]) {
      intercepts.registerToolExecution("e", 0, () => wrap(value));
      assert.ok(Object.is(await call("t", {}, () => assert.fail("the tool ran")), value));
      clear();
    }
  }
});

describe("many intercepts", () => {
  test("asynchronous ones", async () => {
    for (let n = 0; n < 200; n++) {
      intercepts.registerToolExecution(`e${n}`, n, async (_, args, next) => {
        await turn();
        return (await next(args + 1)) + 1;
      });
    }
    assert.equal(await within(call("t", 0, async (n) => n)), 400);
  });

  test("synchronous ones that pass on what next gives", async () => {
    for (let n = 0; n < 50; n++)
      intercepts.registerToolExecution(`e${n}`, n, (_, args, next) => next(args + 1));
    assert.equal(await within(call("t", 0)), 50);
    for (let n = 0; n < 200; n++) intercepts.registerToolRequest(`r${n}`, n, false, (_, args) => args + 1);
    assert.equal(await within(call("t", 0)), 250);
  });
});

test("one function may be registered under many names and in many families", async () => {
  const both = (name, args, next) =>
    next === undefined ? [...args, "request"] : next([...args, "execution"]);
  for (const name of ["a", "b"]) {
    intercepts.registerToolRequest(name, 0, false, both);
    intercepts.registerToolExecution(name, 0, both);
  }
  assert.deepEqual(await call("t", []), ["request", "request", "execution", "execution"]);
  assert.equal(intercepts.deregisterToolRequest("a"), true);
  assert.deepEqual(await call("t", []), ["request", "execution", "execution"]);
});

test("an intercept that calls itself by a call of its own", async () => {
  let depth = 0;
  intercepts.registerToolExecution("e", 0, async (name, args, next) => {
    if (depth < 5) {
      depth++;
      return [await call("inner", args), await next(args)];
    }
    return next(args);
  });
  const result = await within(call("t", 1));
  assert.deepEqual(result, [[[[[1, 1], 1], 1], 1], 1]);
});

test("next is awaited in parts, raced and chained as any promise", async () => {
  intercepts.registerToolExecution("e", 0, (_, args, next) => {
    const running = next(args);
    assert.ok(running instanceof Promise);
    return running.then((value) => value + 1).finally(() => undefined);
  });
  assert.equal(await call("t", 1), 2);
  assert.equal(await call("t", 1, async (n) => n * 10), 11);
});

test("a next whose failure the intercept never looks at before it fails itself", async () => {
  const own = new Error("own");
  intercepts.registerToolExecution("e", 0, async (_, args, next) => {
    const running = next(args);
    running.catch(() => undefined);
    await turn();
    throw own;
  });
  const got = await quietly(() => thrownBy(call("t", {}, () => Promise.reject(new Error("inner")))));
  assert.equal(got, own);
});
