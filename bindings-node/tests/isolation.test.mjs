/** Whose values are whose: the chain works on a copy, and observers have their own. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import vm from "node:vm";

import { subscribers, tool, ToolRegistry } from "callweir";

import { add, call, clear, echo, made, Seen, thrownBy } from "./helpers.mjs";

afterEach(clear);

const dispatched = (args) => new ToolRegistry().register(tool({ name: "t" }, echo)).dispatch("t", args);

test("C-59 PAY-4 PAY-5 the caller, the chain and each observer have their own", async () => {
  for (const kind of ["plain", "async", "thenable"]) {
    const seen = new Seen();
    const other = new Seen("other");
    const spoil = (value) => {
      if (value === null || typeof value !== "object" || !("messages" in value)) return value;
      value.messages.push("spoiled");
      value.messages[0].role = "spoiled";
      delete value.keep;
      return value;
    };
    subscribers.register(
      "spoils",
      made(kind, (event) => void spoil(event.data)),
    );
    add(
      "tool.conditional_execution",
      made(kind, (_, args) => void args.messages.push("guard")),
    );
    add(
      "tool.request",
      made(kind, (_, args) => (args.messages.push("request"), args)),
    );
    add(
      "tool.sanitize_request",
      made(kind, (_, args) => spoil(args)),
    );
    const args = { messages: [{ role: "user" }], keep: { t: [1, [2]] } };
    const before = structuredClone(args);
    let got;
    const result = await call("t", args, (given) => {
      got = structuredClone(given);
      given.messages.push("tool");
      return given;
    });
    assert.deepEqual(args, before);
    const expected = [{ role: "user" }, "guard", "request"];
    assert.deepEqual(got, { messages: expected, keep: { t: [1, [2]] } });
    assert.deepEqual(result.messages, [...expected, "tool"]);
    await seen.flushed();
    assert.deepEqual(seen.start("t").data, {
      messages: [{ role: "spoiled" }, "guard", "request", "spoiled"],
    });
    assert.deepEqual(other.end("t").data, { messages: [...expected, "tool"], keep: { t: [1, [2]] } });
    clear();
  }
});

for (const only of ["guardrail", "request", "execution", "middleware"]) {
  test(`C-59 ${only} alone makes the chain work on a copy`, async () => {
    const registry = new ToolRegistry().register(tool({ name: "t" }, echo));
    const edit = (args) => (args.list.push(only), args);
    if (only === "guardrail") add("tool.conditional_execution", (_, args) => void edit(args));
    if (only === "request") add("tool.request", (_, args) => edit(args));
    if (only === "execution") add("tool.execution", (_, args, next) => next(edit(args)));
    if (only === "middleware") registry.use((one, next) => (edit(one.arguments), next(one)));
    const args = { list: [], same: new Map(), when: new Date(0), custom: new (class Custom {})() };
    const result = await registry.dispatch("t", args);
    assert.deepEqual(args.list, []);
    assert.deepEqual(result.list, [only]);
    for (const key of ["same", "when", "custom"])
      assert.equal(result[key], args[key], "others go by reference");
  });
}

test("C-59 frozen arguments can be edited by the chain", async () => {
  const freeze = (value) => {
    if (typeof value === "object" && value !== null) Object.values(value).forEach(freeze);
    return Object.freeze(value);
  };
  add("tool.request", (_, args) => {
    args.list.push({ n: 1 });
    args.inner.added = true;
    return args;
  });
  const args = freeze({ list: [[0]], inner: { a: 1 } });
  assert.deepEqual(await call("t", args), { list: [[0], { n: 1 }], inner: { a: 1, added: true } });
  assert.deepEqual(args, { list: [[0]], inner: { a: 1 } });
});

test("C-59 without entries the tool gets the very object, and observers do not matter", async () => {
  new Seen();
  const args = { a: [] };
  assert.equal(await call("t", args), args);
  assert.equal(await dispatched(args), args);
});

test("C-59 containers that refer to themselves or to one another", async () => {
  add("tool.request", (_, args) => {
    args.one.push("edited");
    args.self.list.push("edited");
    return args;
  });
  const shared = [1];
  const args = { one: shared, two: shared, list: [] };
  args.self = args;
  const result = await call("t", args);
  assert.deepEqual([shared, args.list], [[1], []]);
  assert.deepEqual(result.one, [1, "edited"]);
  let inner = result;
  for (let level = 0; level < 50; level++) inner = inner.self;
  assert.notEqual(inner, args);
  assert.equal(args.self, args);
  let ladder = [];
  for (let level = 0; level < 400; level++) ladder = [ladder, ladder];
  clear();
  add("tool.conditional_execution", () => undefined);
  assert.equal(await call("t", ladder, () => 1), 1, "copying takes no exponential time");
});

test("C-59 the copy keeps the kind, the keys and the order of what it copies", async () => {
  add("tool.request", (_, args) => args);
  const symbol = Symbol("s");
  const bare = Object.assign(Object.create(null), { b: 1, a: [2] });
  const foreign = vm.runInNewContext("({ list: [1, { a: 1 }], bare: Object.create(null) })");
  const args = {
    bare,
    foreign,
    [symbol]: { s: 1 },
    holes: Object.assign([], { length: 3 }),
    9: 1,
    undefined: undefined,
    big: 1n,
    nan: NaN,
    proxy: new Proxy({ a: 1 }, {}),
    get computed() {
      return [1];
    },
  };
  Object.defineProperty(args, "__proto__", { value: { x: [1] }, enumerable: true });
  const result = await call("t", args);
  assert.notEqual(result, args);
  assert.deepEqual(Object.keys(result), Object.keys(args));
  assert.equal(Object.getPrototypeOf(result.bare), null);
  assert.notEqual(result.bare.a, bare.a);
  assert.deepEqual(result.bare.a, [2]);
  assert.deepEqual(JSON.stringify(result.foreign), JSON.stringify(foreign));
  assert.notEqual(result.foreign.list[1], foreign.list[1]);
  assert.equal(result[symbol], args[symbol]);
  assert.equal(result.holes.length, 3);
  assert.ok(!(0 in result.holes));
  assert.ok("undefined" in result && Object.is(result.nan, NaN) && result.big === 1n);
  assert.equal(result.proxy, args.proxy);
  assert.deepEqual(result.computed, [1]);
  assert.deepEqual(Object.getOwnPropertyDescriptor(result, "__proto__").value, { x: [1] });
  assert.notEqual(Object.getOwnPropertyDescriptor(result, "__proto__").value, args["__proto__"]);
  assert.equal(Object.getPrototypeOf(result), Object.prototype);
});

test("C-59 a getter that throws is no matter of the chain's copy", async () => {
  add("tool.conditional_execution", () => undefined);
  const error = new Error("asked");
  const args = {
    get x() {
      throw error;
    },
  };
  assert.equal(await call("t", { args }, () => "not asked"), "not asked");
  assert.equal(await thrownBy(call("t", { args }, (given) => given.args.x)), error);
});

test("PAY-5 the start shows the arguments as they were", async () => {
  const seen = new Seen();
  await call("t", { a: [1] }, async (args) => {
    args.a.push(2);
    args.later = 1;
    await turn();
    return args;
  });
  await seen.flushed();
  assert.deepEqual(seen.start("t").data, { a: [1] });
  assert.deepEqual(seen.end("t").data, { a: [1, 2], later: 1 });
});

test("PAY-5 what is done to a result after the call does not reach the events", async () => {
  const seen = new Seen();
  const result = await call("t", {}, () => ({ a: [1] }));
  result.a.push(2);
  await seen.flushed();
  assert.deepEqual(seen.end("t").data, { a: [1] });
});

test("PAY-5 what an event gives is its subscriber's own", async () => {
  const seen = new Seen();
  const other = new Seen("other");
  await call("t", { a: [1n << 60n] });
  await seen.flushed();
  const [first, second] = [seen.end("t"), other.end("t")];
  first.data.a.push(2);
  assert.deepEqual(first.data.a, [1n << 60n, 2]);
  assert.deepEqual(second.data, { a: [1n << 60n] });
  assert.deepEqual(first.toJSON().data, { a: [1n << 60n] });
  assert.ok(String(first).includes('{"a":[1152921504606846976]}'));
});
