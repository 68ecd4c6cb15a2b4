/** The tool registry: tools, middleware, subsets, refusals. */

import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";

import {
  AlreadyExists,
  CallRejected,
  currentCall,
  Expired,
  InvalidArgument,
  NotJson,
  Runtime,
  subscribers,
  Tool,
  tool,
  ToolCall,
  ToolCallDenied,
  ToolContext,
  ToolNotFound,
  ToolNotPermitted,
  ToolRegistry,
} from "callweir";

import { add, clear, deferred, echo, KINDS, made, quietly, Seen, thrownBy } from "./helpers.mjs";

afterEach(clear);

const PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini", "mcp"];

const named = (name, ran = []) => tool({ name }, () => ran.push(name) && name);

/** A middleware that notes what it sees. */
class Layer {
  constructor(name, noted, answer = (one, next) => next(one)) {
    Object.assign(this, { name, noted, answer });
  }

  run(one, next) {
    this.noted.push(this.name);
    return this.answer(one, next);
  }

  onRefused(one, refusal) {
    this.noted.push([this.name, one.name, refusal.name]);
  }
}

test("C-27 REG-4 per-call state on a shared middleware object", async () => {
  class Shared {
    count = 0;
    read = [];

    async run(one, next) {
      this.count++;
      const mine = one.withContext(one.context.withMetadata({ n: one.arguments.n }));
      const result = await next(mine);
      this.read.push([one.arguments.n, mine.context.metadata.n, result]);
      return result;
    }
  }
  const gates = { 1: deferred(), 2: deferred() };
  const work = async ({ n }, context) => {
    await gates[n].promise;
    return context.metadata.n;
  };
  const shared = new Shared();
  const registry = new ToolRegistry().register(tool({ name: "t" }, work)).use(shared);
  const subset = registry.subset(["t"]);
  const calls = [registry.dispatch("t", { n: 1 }), subset.dispatch("t", { n: 2 })];
  gates[2].resolve();
  await turn();
  gates[1].resolve();
  assert.deepEqual(await Promise.all(calls), [1, 2]);
  assert.deepEqual(shared.read, [
    [2, 2, 2],
    [1, 1, 1],
  ]);
  assert.equal(shared.count, 2);
  assert.equal(registry.middleware()[0], shared);
  assert.equal(subset.middleware()[0], shared);
});

for (const kind of ["plain", "async", "thenable"]) {
  test(`C-28 REG-6 REG-7 holes in a subset (${kind})`, async () => {
    const seen = new Seen();
    const noted = [];
    const asked = [];
    add(
      "tool.conditional_execution",
      made(kind, (name) => void asked.push(name)),
    );
    const parent = new ToolRegistry().register(named("a"), named("b"), named("c"));
    parent.use(new Layer("one", noted), new Layer("two", noted));
    const subset = parent.subset(["a", "b"]);
    parent.register(named("d")).use(new Layer("three", noted));
    assert.deepEqual(
      subset.manifest().map(({ name }) => name),
      ["a", "b"],
    );
    assert.equal(await subset.dispatch("a", {}), "a");
    const left = await thrownBy(subset.dispatch("c", {}));
    assert.ok(left instanceof ToolNotPermitted && left instanceof ToolNotFound && left.tool === "c");
    const later = await thrownBy(subset.dispatch("d", {}));
    assert.ok(later instanceof ToolNotFound && !(later instanceof ToolNotPermitted) && later.tool === "d");
    assert.deepEqual(noted, [
      "one",
      "two",
      ["one", "c", "ToolNotPermitted"],
      ["two", "c", "ToolNotPermitted"],
      ["one", "d", "ToolNotFound"],
      ["two", "d", "ToolNotFound"],
    ]);
    assert.deepEqual(asked, ["a"]);
    await seen.flushed();
    const marks = seen
      .of("mark")
      .map(({ name, metadata, data }) => [name, metadata["callweir.mark"], data.reason]);
    assert.deepEqual(marks, [
      ["c", "refused", "not_permitted"],
      ["d", "refused", "not_found"],
    ]);
    assert.deepEqual([seen.of("start", "c"), seen.of("start", "d")], [[], []]);
  });
}

test("REG-7 subsets of subsets", async () => {
  const parent = new ToolRegistry().register(named("a"), named("b"), named("c"));
  const subset = parent.subset(["a", "b"]);
  assert.throws(() => subset.subset(["a", "c"]), ToolNotPermitted);
  assert.throws(
    () => parent.subset(["nope"]),
    (error) => error instanceof ToolNotFound && error.tool === "nope",
  );
  assert.throws(() => parent.subset("abc"), TypeError);
  assert.throws(() => parent.subset([5]), TypeError);
  assert.deepEqual(parent.subset([]).manifest(), []);
  assert.ok((await thrownBy(parent.subset([]).dispatch("a", {}))) instanceof ToolNotPermitted);
  const narrow = subset.subset(new Set(["b"]));
  assert.ok((await thrownBy(narrow.dispatch("a", {}))) instanceof ToolNotPermitted);
  assert.ok((await thrownBy(narrow.dispatch("c", {}))) instanceof ToolNotPermitted);
  assert.equal(await narrow.dispatch("b", {}), "b");
});

test("REG-7 what is added to a subset runs inside the parent's, and only there", async () => {
  const noted = [];
  const parent = new ToolRegistry().register(named("a", noted)).use(new Layer("parent", noted));
  const subset = parent.subset(["a"]).use(new Layer("subset", noted)).register(named("own", noted));
  await subset.dispatch("a", {});
  assert.deepEqual(noted.splice(0), ["parent", "subset", "a"]);
  await parent.dispatch("a", {});
  assert.deepEqual(noted.splice(0), ["parent", "a"]);
  await subset.dispatch("own", {});
  assert.deepEqual(noted.splice(0), ["parent", "subset", "own"]);
  assert.ok((await thrownBy(parent.dispatch("own", {}))) instanceof ToolNotFound);
  assert.equal(parent.middleware().length, 1);
  assert.equal(subset.middleware().length, 2);
});

test("REG-6 a hook that fails replaces the refusal, and no hook makes it a result", async () => {
  for (const kind of ["plain", "async", "thenable"]) {
    const noted = [];
    const error = new Error("hook");
    const failing = {
      run: (one, next) => next(one),
      onRefused: made(kind, () => {
        noted.push("first");
        throw error;
      }),
    };
    const later = { run: (one, next) => next(one), onRefused: made(kind, () => noted.push("second")) };
    assert.equal(await thrownBy(new ToolRegistry().use(failing, later).dispatch("nope", {})), error);
    assert.deepEqual(noted, ["first"]);
    assert.ok((await thrownBy(new ToolRegistry().use(later).dispatch("nope", {}))) instanceof ToolNotFound);
  }
});

test("REG-6 what a hook is given", async () => {
  const got = [];
  const fn = Object.assign((one, next) => next(one), { onRefused: (...given) => void got.push(given) });
  const metadata = { run: 1 };
  const context = new ToolContext({ callerId: "me", metadata });
  const error = await thrownBy(new ToolRegistry().use(fn).dispatch("nope", { a: 1 }, context));
  const [[one, refusal]] = got;
  assert.deepEqual([refusal.name, refusal.tool], [error.name, error.tool]);
  assert.ok(one instanceof ToolCall);
  assert.deepEqual([one.name, one.arguments, one.context.callerId], ["nope", { a: 1 }, "me"]);
  assert.equal(one.context.metadata, metadata);
  assert.equal(one.descriptor, undefined);
});

test("C-29 REG-1 two tools of one name", async () => {
  const ran = [];
  const registry = new ToolRegistry().register(tool({ name: "files.read" }, () => "first"));
  for (const again of [named("files.read", ran), new ToolRegistry().register(named("files.read", ran))]) {
    assert.throws(
      () => registry.register(again),
      (error) => {
        assert.ok(error instanceof AlreadyExists);
        assert.equal(error.targetName, "files.read");
        return error.message.includes("files.read");
      },
    );
  }
  assert.equal(await registry.dispatch("files.read", {}), "first");
  assert.throws(() => registry.register(named("x"), named("y"), named("x")), AlreadyExists);
  for (const wrong of [5, null, undefined, "x", {}, () => 1]) {
    assert.throws(
      () => registry.register(named("x"), wrong),
      (error) => error instanceof Error,
    );
  }
  assert.deepEqual(
    registry.manifest().map(({ name }) => name),
    ["files.read"],
  );
  assert.deepEqual(
    registry.descriptors().map(({ name }) => name),
    ["files.read"],
  );
  assert.deepEqual(ran, []);
  registry.register(named("files.Read"), named("files.rea\u0301d"), named("files.re\u00e1d"));
  assert.equal(
    await registry.dispatch("files.re\u00e1d", {}),
    "files.re\u00e1d",
    "names are compared byte by byte",
  );
});

test("C-29 names that would become one for a provider", () => {
  const raw = ["read-file", "read_file", "read.file"];
  const clashing = new ToolRegistry().register(...raw.map((name) => named(name)));
  const clashes = PROVIDERS.filter((provider) => {
    try {
      clashing.manifest(provider);
      return false;
    } catch (error) {
      assert.ok(error instanceof InvalidArgument);
      // Where only two of the names meet, only they are listed.
      assert.ok(raw.filter((name) => error.message.includes(name)).length >= 2, error.message);
      return true;
    }
  });
  assert.ok(clashes.length >= 1);
  assert.throws(() => clashing.manifest("nobody"), InvalidArgument);
});

test("REG-1 the manifest, neutral and for every provider", () => {
  const parameters = {
    type: "object",
    properties: { sku: { type: "string", description: "the number" }, count: { type: "integer" } },
    required: ["sku"],
  };
  const find = tool(
    { name: "find", description: "Find one.", parameters, readOnly: true, idempotent: true },
    echo,
  );
  const registry = new ToolRegistry().register(find, named("other"));
  const [line, other] = registry.manifest();
  assert.deepEqual(line, {
    name: "find",
    description: "Find one.",
    parameters,
    read_only: true,
    idempotent: true,
  });
  assert.deepEqual(Object.keys(line.parameters.properties), ["sku", "count"]);
  assert.deepEqual([other.read_only, other.idempotent, other.parameters.type], [false, false, "object"]);
  const [chat, responses, anthropic, gemini, mcp] = PROVIDERS.map((provider) => registry.manifest(provider));
  assert.deepEqual(chat[0], {
    type: "function",
    function: { name: "find", description: "Find one.", parameters },
  });
  assert.equal(responses[0].type, "function");
  assert.deepEqual([responses[0].name, responses[0].parameters], ["find", parameters]);
  assert.deepEqual([anthropic[0].name, anthropic[0].input_schema], ["find", parameters]);
  assert.ok(JSON.stringify(gemini).includes('"name":"find"'));
  const [first] = Array.isArray(mcp) ? mcp : mcp.tools;
  assert.deepEqual([first.name, first.inputSchema], ["find", parameters]);
  assert.equal(first.annotations.readOnlyHint, true);
  for (const manifest of [chat, responses, anthropic, gemini, mcp]) {
    assert.ok(JSON.stringify(manifest).includes("Find one."));
  }
  registry.manifest()[0].parameters.properties.spoiled = true;
  assert.equal(registry.manifest()[0].parameters.properties.spoiled, undefined);
  assert.ok(Object.isFrozen(registry.descriptorOf("find")));
});

test("REG-1 what a tool may be", async () => {
  function plain({ a }) {
    return a;
  }
  const registry = new ToolRegistry().register(
    plain,
    tool(async function later() {}),
    tool({ name: "t" }, echo),
  );
  assert.deepEqual(
    registry.manifest().map(({ name }) => name),
    ["plain", "later", "t"],
  );
  assert.equal(await registry.dispatch("plain", { a: 1 }), 1);
  assert.ok(tool({ name: "t" }, echo) instanceof Tool);
  for (const make of [
    () => tool({ name: "t" }),
    () => tool({ name: "t" }, "not a function"),
    () => tool({ name: 5 }, echo),
    () => tool({ name: "t", description: 5 }, echo),
    () => tool(undefined, echo),
  ]) {
    assert.throws(make, TypeError);
  }
  assert.throws(() => tool({ name: "t", parameters: { default: new Map() } }, echo), NotJson);
  for (const parameters of [5, "object", []]) {
    assert.throws(
      () => new ToolRegistry().register(tool({ name: "t", parameters }, echo)),
      (error) => {
        return error instanceof TypeError || error instanceof InvalidArgument;
      },
    );
  }
  assert.throws(() => new ToolRegistry().register(tool(() => 1)), Error, "a tool without a name");
});

for (const kind of KINDS) {
  test(`C-93 REG-2 a tool made of a ${kind} callable`, async () => {
    const work = made(kind, (args, context) => [args.a, context instanceof ToolContext]);
    const registry = new ToolRegistry().register(tool({ name: "t" }, work));
    assert.deepEqual(await registry.dispatch("t", { a: 1 }), [1, true]);
    assert.equal(await registry.dispatchJson("t", '{"a":1}'), '{"result":[1,true]}');
  });

  test(`REG-4 a middleware made of a ${kind} callable`, async () => {
    const noted = [];
    const layer = made(kind, (one, next) => noted.push(one.arguments) && next(one.withArguments({ a: 2 })));
    const registry = new ToolRegistry()
      .register(tool({ name: "t" }, echo))
      .use(layer)
      .use({ run: layer });
    assert.deepEqual(await registry.dispatch("t", { a: 1 }), { a: 2 });
    assert.deepEqual(noted, [{ a: 1 }, { a: 2 }]);
    assert.equal(registry.middleware()[0], layer);
  });
}

test("REG-4 the order of use is the order of running", async () => {
  const noted = [];
  const after = (name) => async (one, next) => {
    const result = await next(one);
    noted.push(`after ${name}`);
    return [...result, name];
  };
  const registry = new ToolRegistry().register(tool({ name: "t" }, () => []));
  const [a, b, c] = ["a", "b", "c"].map((name) => new Layer(name, noted, after(name)));
  assert.equal(registry.use(a), registry);
  registry.use(b, c);
  assert.deepEqual(registry.middleware(), [a, b, c]);
  assert.deepEqual(await registry.dispatch("t", {}), ["c", "b", "a"]);
  assert.deepEqual(noted, ["a", "b", "c", "after c", "after b", "after a"]);
  registry.middleware().pop();
  assert.equal(registry.middleware().length, 3);
  assert.equal(new ToolRegistry().use().middleware().length, 0);
});

test("REG-4 what cannot be a middleware, all or none", () => {
  const registry = new ToolRegistry();
  for (const wrong of [5, "x", null, undefined, {}, { run: 5 }, []]) {
    assert.throws(() => registry.use((one, next) => next(one), wrong), TypeError);
  }
  assert.deepEqual(registry.middleware(), []);
});

test("REG-4 next takes the call, a copy or nothing, and runs the tool that was resolved", async () => {
  const ran = [];
  const make = (run) => new ToolRegistry().register(named("a", ran), named("other", ran)).use(run);
  for (const wrong of [{ a: 1 }, 5, "a", null, []]) {
    const error = await quietly(() => thrownBy(make((_, next) => next(wrong)).dispatch("a", {})));
    assert.ok(error instanceof TypeError && error.message.includes("ToolCall"));
  }
  assert.deepEqual(ran, []);
  await make((_, next) => next()).dispatch("a", {});
  await make((one, next) => next(new ToolCall({ name: "other", arguments: one.arguments }))).dispatch(
    "a",
    {},
  );
  await make((one, next) => {
    assert.throws(() => {
      "use strict";
      Object.defineProperty(Object.freeze(one), "name", { value: "other" });
    }, TypeError);
    return next(one);
  }).dispatch("a", {});
  assert.deepEqual(ran, ["a", "a", "a"]);
});

test("REG-4 what a call is", async () => {
  const metadata = { run: 1 };
  const context = new ToolContext({ callerId: "me", metadata, deadline: 60_000 });
  let seen;
  const registry = new ToolRegistry().register(tool({ name: "t", idempotent: true }, (_, given) => given));
  registry.use((one, next) => {
    seen = one;
    const other = one.withArguments({ b: 2 });
    assert.deepEqual([one.arguments, other.arguments, other.name], [{ a: 1 }, { b: 2 }, "t"]);
    assert.equal(other.context, one.context);
    return next(one);
  });
  const given = await registry.dispatch("t", { a: 1 }, context);
  assert.equal(seen.descriptor, registry.descriptorOf("t"));
  assert.equal(seen.descriptor.idempotent, true);
  for (const one of [given, seen.context]) {
    assert.deepEqual([one.callerId, one.metadata === metadata], ["me", true]);
    assert.ok(one.deadline > 0 && one.deadline <= 60_000);
  }
});

test("REG-8 a registry inside a registry inside a registry", async () => {
  const seen = new Seen();
  const noted = [];
  const inner = new ToolRegistry().register(named("a", noted)).use(new Layer("inner", noted));
  const middle = new ToolRegistry().use(new Layer("middle", noted)).register(inner, named("m", noted));
  const outer = new ToolRegistry().use(new Layer("outer", noted)).register(middle);
  assert.equal(await outer.dispatch("a", {}), "a");
  assert.deepEqual(noted.splice(0), ["outer", "middle", "inner", "a"]);
  assert.equal(await outer.dispatch("m", {}), "m");
  assert.deepEqual(noted.splice(0), ["outer", "middle", "m"]);
  await seen.flushed();
  assert.deepEqual(seen.shown(), ["start a", "end a", "start m", "end m"]);
  assert.deepEqual(
    outer
      .manifest()
      .map(({ name }) => name)
      .toSorted(),
    ["a", "m"],
  );
  assert.equal(outer.descriptorOf("a"), inner.descriptorOf("a"));
  inner.register(named("late")).use(new Layer("late", noted));
  assert.ok(
    (await thrownBy(outer.dispatch("late", {}))) instanceof ToolNotFound,
    "the tools are as they were",
  );
  noted.length = 0;
  await outer.dispatch("a", {});
  assert.deepEqual(noted, ["outer", "middle", "inner", "late", "a"], "the middleware is what it is now");
});

test("REG-8 a registry inside itself, or in two others", async () => {
  const registry = new ToolRegistry().register(named("a"));
  assert.throws(() => registry.register(registry), AlreadyExists);
  const noted = [];
  const inner = new ToolRegistry().register(named("x", noted)).use(new Layer("inner", noted));
  for (const name of ["one", "two"]) {
    await new ToolRegistry().use(new Layer(name, noted)).register(inner).dispatch("x", {});
  }
  assert.deepEqual(noted, ["one", "inner", "x", "two", "inner", "x"]);
});

test("REG-8 a subset of a registry inside a registry", async () => {
  const noted = [];
  const inner = new ToolRegistry()
    .register(named("a", noted), named("b", noted))
    .use(new Layer("inner", noted));
  const outer = new ToolRegistry()
    .register(inner.subset(["a"]))
    .use(new Layer("outer", noted))
    .subset(["a"]);
  assert.equal(await outer.dispatch("a", {}), "a");
  assert.deepEqual(noted, ["outer", "inner", "a"]);
  assert.ok((await thrownBy(outer.dispatch("b", {}))) instanceof ToolNotFound);
});

test("FAM-8 explain shows what runs, in order", async () => {
  const noted = [];
  const inner = new ToolRegistry().register(named("a", noted)).use(new Layer("inner", noted));
  const outer = new ToolRegistry().use(new Layer("outer", noted)).register(inner);
  add("tool.execution", (_, args, next) => noted.push("e") && next(args), { name: "e", priority: 3 });
  add("tool.conditional_execution", () => void noted.push("g"), { name: "g" });
  subscribers.register("s", () => undefined);
  const lines = outer.explain("a");
  await outer.dispatch("a", {});
  const around = lines.filter(({ stage }) => ["tool.execution", "middleware"].includes(stage));
  assert.deepEqual(
    around.map(({ name }) => name),
    ["e", "outer", "inner"],
  );
  assert.deepEqual(noted, ["g", "e", "outer", "inner", "a"]);
  assert.deepEqual(
    lines.find(({ name }) => name === "e"),
    { stage: "tool.execution", name: "e", level: "global", owner: null, priority: 3 },
  );
  assert.ok(around.slice(1).every(({ level }) => level === "registry"));
  assert.ok(lines.some(({ stage, name }) => stage === "subscriber" && name === "s"));
});

describe("C-94 REG-3 what dispatch takes and gives", () => {
  for (const form of ["value", "text"]) {
    test(`arguments as a ${form}`, async () => {
      const metadata = { run: 1 };
      const result = { r: Symbol("own") };
      const got = [];
      const work = (args, context) => {
        got.push([args, context.callerId, context.metadata, context.deadline]);
        return result;
      };
      const registry = new ToolRegistry().register(tool({ name: "t" }, work));
      registry.use((one, next) => next(one.withContext(one.context.withDeadline(10_000))));
      registry.use((one, next) =>
        next(one.withContext(new ToolContext({ ...one.context, deadline: 20_000 }))),
      );
      const context = new ToolContext({ callerId: "me", metadata, deadline: 1000 });
      const args = form === "value" ? { a: [1, 2] } : '{"a":[1,2]}';
      assert.equal(await registry.dispatch("t", args, context), result);
      const [[given, callerId, run, deadline]] = got;
      assert.deepEqual([given, callerId], [{ a: [1, 2] }, "me"]);
      assert.equal(run, metadata);
      assert.ok(deadline > 0 && deadline <= 1000, `${deadline}`);
    });
  }

  test("the result as text", async () => {
    const results = [
      ["{}", {}],
      ['{"ü":[1,"x"]}', { ü: [1, "x"], left: undefined }],
      ["null", undefined],
      ["18446744073709551615", 18446744073709551615n],
      ['"a\ufffd"', "a\ud800"],
    ];
    for (const [text, result] of results) {
      const registry = new ToolRegistry().register(tool({ name: "t" }, () => result));
      assert.equal(await registry.dispatchJson("t", "{}"), `{"result":${text}}`);
    }
    const registry = new ToolRegistry().register(tool({ name: "t" }, () => ({ a: [new Map()] })));
    const error = await thrownBy(registry.dispatchJson("t", {}));
    assert.ok(error instanceof NotJson);
    assert.ok(error.path.endsWith("a[0]"), error.path);
  });

  const find = { name: "find", parameters: { type: "object", properties: { sku: {} }, required: ["sku"] } };
  for (const [args, path] of [
    [{}, "$.sku"],
    ["{}", "$.sku"],
    [{ sku: "a", more: 1 }, "$.more"],
    ['{"sku":"a","more":1}', "$.more"],
    ['{"sku": "a"', "$"],
    [[], "$"],
    ["[]", "$"],
    [null, "$"],
    [undefined, "$"],
    [5, "$"],
    [() => 1, "$"],
  ]) {
    test(`arguments that do not fit: ${typeof args} ${JSON.stringify(args)}`, async () => {
      const seen = new Seen();
      const registry = new ToolRegistry().register(tool(find, () => assert.fail("the tool ran")));
      const error = await thrownBy(registry.dispatch("find", args));
      assert.ok(error instanceof InvalidArgument);
      assert.equal(error.path, path);
      await seen.flushed();
      assert.ok(seen.of("end", "find").every(({ outcome }) => outcome === "failed"));
    });
  }

  test("wrong types of anything else", async () => {
    const registry = new ToolRegistry().register(named("t"));
    await quietly(async () => {
      for (const given of [
        [5, {}],
        [undefined, {}],
        [Symbol("t"), {}],
        ["t", {}, {}],
        ["t", {}, null],
        ["t", {}, undefined, { toolCallId: 5 }],
      ]) {
        for (const way of ["dispatch", "dispatchJson"]) {
          const error = await thrownBy(registry[way](...given));
          assert.ok(error instanceof TypeError, `${way} ${String(error)}`);
        }
      }
      const error = await thrownBy(registry.dispatch("t", {}, undefined, { metadata: { a: new Map() } }));
      assert.ok(error instanceof NotJson && error.path === "$.a");
    });
  });

  test("contexts that are none, and that only shrink", () => {
    for (const options of [{ callerId: 5 }, { signal: {} }, { deadline: "soon" }, { deadline: NaN }]) {
      assert.throws(() => new ToolContext(options), InvalidArgument);
    }
    const context = new ToolContext({ deadline: 1000 });
    assert.ok(context.withDeadline(5000).deadline <= 1000);
    assert.ok(context.withDeadline(10).deadline <= 10);
    assert.ok(context.withCallerId("a").deadline <= 1000);
    assert.equal(context.withMetadata({}).callerId, undefined);
    assert.equal(new ToolContext().deadline, undefined);
  });
});

for (const way of ["thrown", "returned"]) {
  for (const kind of ["plain", "async", "thenable", "method"]) {
    test(`C-95 REG-5 a middleware refuses: a denial that is ${way} (${kind})`, async () => {
      const seen = new Seen();
      const noted = [];
      const denial = new ToolCallDenied("pay", "over limit");
      const outer = new Layer("O", [], async (one, next) => {
        try {
          return await next(one);
        } catch (error) {
          noted.push(error);
          if (one.arguments.instead) return "instead";
          throw error;
        }
      });
      const refuse = made(kind, () => {
        if (way === "thrown") throw denial;
        return denial;
      });
      const registry = new ToolRegistry().register(tool({ name: "pay" }, () => noted.push("tool")));
      registry.use(outer, refuse, new Layer("I", noted));
      const error = await thrownBy(registry.dispatch("pay", {}));
      assert.equal(error, denial);
      assert.deepEqual([error.tool, error.reason], ["pay", "over limit"]);
      assert.deepEqual(noted, [denial]);
      assert.deepEqual(outer.noted, ["O"], "no hook was told");
      await seen.flushed();
      assert.deepEqual(
        [seen.end("pay").outcome, seen.end("pay").metadata["error.type"]],
        ["refused", "denied"],
      );
      seen.events.length = 0;
      assert.equal(await registry.dispatch("pay", { instead: 1 }), "instead");
      await seen.flushed();
      assert.equal(seen.end("pay").outcome, "succeeded");
      assert.equal(seen.end("pay").metadata["callweir.short_circuited"], true);
    });
  }
}

test("REG-5 other errors that a middleware returns are results", async () => {
  const error = new RangeError("a value");
  const registry = new ToolRegistry().register(named("t")).use(() => error);
  assert.equal(await registry.dispatch("t", {}), error);
  const seen = new Seen();
  const denial = new ToolCallDenied("t", "a value");
  const tools = new ToolRegistry().register(tool({ name: "t" }, () => denial));
  assert.equal(await tools.dispatch("t", {}), denial, "what a tool returns is its result");
  await seen.flushed();
  assert.equal(seen.end("t").outcome, "succeeded");
});

test("C-96 REG-9 a tool called directly", async () => {
  const seen = new Seen();
  let count = 0;
  add("tool.conditional_execution", () => assert.fail("a guardrail ran"));
  const parameters = { type: "object", properties: { a: {} }, required: ["a"] };
  const one = tool({ name: "t", parameters }, ({ a }, context) => [
    a,
    context instanceof ToolContext,
    currentCall(),
  ]);
  const registry = new ToolRegistry().register(one).use((call) => {
    count++;
    throw new ToolCallDenied(call.name, "no");
  });
  assert.deepEqual(one.executeWith({ a: 1 }), [1, true, undefined]);
  const context = new ToolContext({ callerId: "me" });
  assert.equal(tool({ name: "c" }, (_, given) => given).executeWith({}, context), context);
  assert.throws(
    () => one.executeWith({}),
    (error) => error instanceof InvalidArgument && error.path === "$.a",
  );
  assert.throws(() => one.executeWith({ a: 1, b: 2 }), InvalidArgument);
  assert.throws(() => one.executeWith([]), InvalidArgument);
  assert.equal(count, 0);
  assert.deepEqual((await seen.flushed()).events, []);
  clear();
  assert.ok((await thrownBy(registry.dispatch("t", { a: 1 }))) instanceof ToolCallDenied);
  assert.equal(count, 1);
});

test("C-97 REG-11 a middleware tested alone", async () => {
  const seen = new Seen();
  const context = new ToolContext({ callerId: "me", metadata: { m: 1 } });
  const { descriptor } = tool({ name: "pay", description: "Pays.", idempotent: true }, echo);
  const one = new ToolCall({ name: "pay", arguments: { a: 1 }, context, descriptor });
  assert.equal(one.descriptor.idempotent, true);
  const got = [];
  const error = new RangeError("x");
  const next = async (passed) => {
    got.push(passed.arguments);
    if (passed.arguments.fail) throw error;
    return got.length;
  };
  const changes = (call, next) => next(call.withArguments({ b: 2 }));
  const denies = async (call) => {
    throw new ToolCallDenied(call.name, "no");
  };
  const twice = async (call, next) => (await next(call)) + (await next(call));
  assert.equal(await changes(one, next), 1);
  assert.deepEqual(got, [{ b: 2 }]);
  assert.ok((await thrownBy(denies(one, next))) instanceof ToolCallDenied);
  assert.equal(got.length, 1);
  assert.equal(await twice(one, next), 5);
  assert.equal(await thrownBy(twice(one.withArguments({ fail: true }), next)), error);
  assert.equal(new ToolCall({ name: "x", arguments: 1 }).context.callerId, undefined);
  assert.deepEqual((await seen.flushed()).events, []);
});

test("FAM-5 next of a middleware, zero times, twice and at once", async () => {
  let ran = 0;
  const registry = new ToolRegistry().register(
    tool({ name: "t" }, async ({ n }) => {
      await turn();
      ran++;
      return n;
    }),
  );
  let kept;
  registry.use(async (one, next) => {
    kept = next;
    if (one.arguments.n === 0) return "none";
    const pass = (n) => next(one.withArguments({ n }));
    return [await pass(1), ...(await Promise.all([pass(2), pass(3)]))];
  });
  assert.equal(await registry.dispatch("t", { n: 0 }), "none");
  assert.equal(ran, 0);
  assert.deepEqual(await registry.dispatch("t", { n: 9 }), [1, 2, 3]);
  assert.equal(ran, 3);
  assert.ok((await thrownBy(kept())) instanceof Expired);
});

test("section 4 step 1: guardrails do not see an unknown tool", async () => {
  const asked = [];
  add("tool.conditional_execution", (name) => {
    asked.push(name);
    return "no";
  });
  const noted = [];
  const registry = new ToolRegistry().register(named("a", noted)).use(new Layer("one", noted));
  assert.ok((await thrownBy(registry.dispatch("a", {}))) instanceof CallRejected);
  assert.ok((await thrownBy(registry.dispatch("b", {}))) instanceof ToolNotFound);
  assert.deepEqual(asked, ["a"]);
  assert.deepEqual(noted, [["one", "b", "ToolNotFound"]]);
});

test("C-83 EVT-11 typed records of registry calls", async () => {
  const records = [];
  subscribers.registerCalls("records", (record) => void records.push(record));
  const registry = new ToolRegistry().register(
    tool({ name: "good" }, async () => (await sleep(5), "PRIVATE-9")),
    tool({ name: "bad" }, () => {
      throw new RangeError("PRIVATE-9");
    }),
    named("denied"),
    named("short"),
  );
  registry.use((one, next) => {
    if (one.name === "denied") throw new ToolCallDenied("denied", "PRIVATE-9");
    return one.name === "short" ? "PRIVATE-9" : next(one);
  });
  const context = new ToolContext({ callerId: "me" });
  for (const name of ["good", "bad", "denied", "short", "unknown"]) {
    await registry.dispatch(name, { secret: "PRIVATE-9" }, context).catch(() => undefined);
  }
  assert.equal(await subscribers.flush(5000), 0);
  const told = records.map(({ event, tool, outcome, errorType, shortCircuited }) => {
    return event === "started" ? [event, tool] : [event, tool, outcome, errorType, shortCircuited];
  });
  assert.deepEqual(told, [
    ["started", "good"],
    ["completed", "good", "succeeded", null, false],
    ["started", "bad"],
    ["completed", "bad", "failed", "RangeError", false],
    ["started", "denied"],
    ["completed", "denied", "refused", "denied", false],
    ["started", "short"],
    ["completed", "short", "succeeded", null, true],
    ["completed", "unknown", "refused", "tool_not_found", false],
  ]);
  for (const record of records) {
    assert.equal(record.callerId, "me");
    assert.ok(Math.abs(record.timestamp - Date.now()) < 60_000);
    if (record.event === "completed") assert.ok(record.duration >= 0 && record.duration < 60_000);
  }
  assert.ok(records[1].duration >= 3, "the duration has the tool's time in it");
  assert.ok(!JSON.stringify(records).includes("PRIVATE"));
});

test("FAM-9 registries of two runtimes share nothing", async () => {
  const runtime = new Runtime();
  const seen = new Seen("seen", runtime);
  const other = new Seen();
  add("tool.execution", () => assert.fail("the other runtime's intercept ran"));
  const registry = new ToolRegistry({ runtime }).register(named("t"));
  assert.equal(await registry.dispatch("t", {}), "t");
  await seen.flushed();
  await other.flushed();
  assert.deepEqual([seen.shown(), other.shown()], [["start t", "end t"], []]);
  await runtime.shutdown();
});
