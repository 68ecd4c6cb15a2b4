/** Tools with a schema: JSON Schema, zod, and other libraries of the Standard Schema interface. */

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { InvalidArgument, tool, ToolRegistry } from "callweir";
import { z } from "zod";

import { add, clear, quietly, Seen, thrownBy } from "./helpers.mjs";

afterEach(clear);

const LOOKUP = z.object({
  sku: z.string(),
  limit: z.number().int().default(5),
  tags: z.array(z.string()).nullish(),
});

const lookup = (parameters) =>
  tool({ name: "lookup", description: "Finds stock.", parameters }, (args) => args);

const registryOf = (...items) => new ToolRegistry().register(...items);

describe("C-93 REG-2 a tool from a function and a schema", () => {
  test("zod: the manifest and the arguments", async () => {
    const registry = registryOf(lookup(LOOKUP));
    const [{ name, description, parameters }] = registry.manifest();
    assert.deepEqual([name, description, parameters.type], ["lookup", "Finds stock.", "object"]);
    assert.deepEqual(Object.keys(parameters.properties), ["sku", "limit", "tags"]);
    assert.deepEqual(parameters.required, ["sku"]);
    assert.equal(parameters.properties.sku.type, "string");
    assert.equal(parameters.properties.limit.type, "integer");
    assert.equal(parameters.properties.limit.default, 5);
    assert.equal(parameters.$schema, undefined);
    for (const args of [{ sku: "AB-12" }, '{"sku":"AB-12"}']) {
      assert.deepEqual(await registry.dispatch("lookup", args), { sku: "AB-12", limit: 5 });
    }
    assert.deepEqual(lookup(LOOKUP).executeWith({ sku: "AB-12", tags: null }), {
      sku: "AB-12",
      limit: 5,
      tags: null,
    });
  });

  test("JSON Schema: the manifest and the arguments", async () => {
    const parameters = {
      type: "object",
      properties: {
        sku: { type: "string" },
        limit: { type: "integer", default: 5 },
        tags: { type: ["array", "null"], items: { type: "string" } },
      },
      required: ["sku"],
    };
    const registry = registryOf(lookup(parameters));
    assert.deepEqual(registry.manifest()[0].parameters, parameters);
    const args = { sku: "AB-12" };
    assert.equal(await registry.dispatch("lookup", args), args, "the arguments are the very object");
    assert.equal(JSON.stringify(registry.manifest()[0].parameters), JSON.stringify(parameters));
    parameters.properties.more = {};
    assert.equal(registry.manifest()[0].parameters.properties.more, undefined, "as it was when registered");
  });

  test("without a schema any object is taken", async () => {
    const registry = registryOf(tool({ name: "t" }, (args) => args));
    assert.deepEqual(await registry.dispatch("t", { a: 1, b: { c: [] } }), { a: 1, b: { c: [] } });
    assert.ok((await thrownBy(registry.dispatch("t", [1]))) instanceof InvalidArgument);
  });
});

describe("REG-3 which arguments fit", () => {
  const schema = (more) => ({ type: "object", properties: { a: {}, b: {} }, required: ["a"], ...more });
  const cases = [
    [schema(), { a: 1 }, undefined],
    [schema(), { a: undefined, b: 1 }, "$.a"],
    [schema(), { a: 1, c: undefined }, undefined],
    [schema(), { a: 1, c: 2 }, "$.c"],
    [schema(), { b: 1 }, "$.a"],
    [schema({ additionalProperties: true }), { a: 1, c: 2 }, undefined],
    [schema({ additionalProperties: { type: "string" } }), { a: 1, c: "x" }, undefined],
    [schema({ additionalProperties: false }), { a: 1, c: 2 }, "$.c"],
    [schema({ required: ["a b"] }), { a: 1 }, '$["a b"]'],
    [schema({ required: undefined }), {}, undefined],
  ];
  for (const [parameters, args, path] of cases) {
    test(`${JSON.stringify(parameters)} with ${JSON.stringify(args)}`, async () => {
      const registry = registryOf(tool({ name: "t", parameters }, () => "ran"));
      for (const given of [args, JSON.stringify(args)]) {
        // Text cannot say that a property is there and undefined.
        if (typeof given === "string" && Object.values(args).includes(undefined)) continue;
        const got = await registry.dispatch("t", given).catch((error) => error);
        if (path === undefined) {
          assert.equal(got, "ran");
        } else {
          assert.ok(got instanceof InvalidArgument, String(got));
          assert.equal(got.path, path);
        }
      }
    });
  }

  test("keys of all kinds are checked as they are", async () => {
    const parameters = { type: "object", properties: { ["__proto__"]: {}, "\ud800": {}, "": {}, 1: {} } };
    const registry = registryOf(tool({ name: "t", parameters }, (args) => Object.keys(args)));
    const args = JSON.parse('{"__proto__":1,"":2,"1":3}');
    assert.deepEqual(await registry.dispatch("t", args), ["1", "__proto__", ""]);
    assert.equal((await thrownBy(registry.dispatch("t", JSON.parse('{"toString":1}')))).path, "$.toString");
  });
});

describe("zod refuses, and the tool does not run", () => {
  const nested = z.object({ a: z.object({ list: z.array(z.object({ n: z.number() })) }) });
  for (const [what, parameters, args, path] of [
    ["a wrong type", LOOKUP, { sku: 5 }, "$.sku"],
    ["a missing one", LOOKUP, {}, "$.sku"],
    ["an unexpected one", LOOKUP, { sku: "a", more: 1 }, "$.more"],
    ["a nested one", nested, { a: { list: [{ n: 1 }, { n: "x" }] } }, "$.a.list[1].n"],
    ["a refinement", z.object({ n: z.number().max(5) }), { n: 6 }, "$.n"],
    ["a strict object", z.strictObject({ n: z.number() }), { n: 1, m: 2 }, "$.m"],
  ]) {
    test(what, async () => {
      const seen = new Seen();
      const one = tool({ name: "t", parameters }, () => assert.fail("the tool ran"));
      for (const given of [args, JSON.stringify(args)]) {
        const error = await quietly(() => thrownBy(registryOf(one).dispatch("t", given)));
        assert.ok(error instanceof InvalidArgument, String(error));
        assert.equal(error.path, path);
      }
      assert.throws(
        () => one.executeWith(args),
        (error) => error instanceof InvalidArgument && error.path === path,
      );
      await seen.flushed();
      assert.deepEqual(
        seen.of("end", "t").map(({ outcome }) => outcome),
        ["failed", "failed"],
      );
    });
  }
});

test("zod: transforms and defaults are what the tool gets; the events show what was given", async () => {
  const seen = new Seen();
  const parameters = z.object({
    n: z.coerce.number(),
    text: z.string().transform((text) => text.length),
    list: z.array(z.string()).default(["x"]),
  });
  const registry = registryOf(tool({ name: "t", parameters }, (args) => args));
  const args = { n: "5", text: "abc" };
  assert.deepEqual(await registry.dispatch("t", args), { n: 5, text: 3, list: ["x"] });
  assert.deepEqual(args, { n: "5", text: "abc" });
  await seen.flushed();
  assert.deepEqual(seen.start("t").data, { n: "5", text: "abc" });
  assert.deepEqual(seen.end("t").data, { n: 5, text: 3, list: ["x"] });
});

test("zod: what a middleware makes of the arguments is checked", async () => {
  const registry = registryOf(tool({ name: "t", parameters: z.object({ n: z.number() }) }, ({ n }) => n));
  registry.use((one, next) => next(one.withArguments({ n: one.arguments.n === 1 ? 2 : "no" })));
  assert.equal(await registry.dispatch("t", { n: 1 }), 2);
  const error = await thrownBy(registry.dispatch("t", { n: 5 }));
  assert.ok(error instanceof InvalidArgument && error.path === "$.n");
});

test("zod: an asynchronous refinement", async () => {
  const parameters = z.object({
    n: z.number().refine(async (n) => {
      await turn();
      return n < 5;
    }),
  });
  const one = tool({ name: "t", parameters }, ({ n }) => n);
  const registry = registryOf(one);
  assert.equal(await registry.dispatch("t", { n: 1 }), 1);
  assert.equal(await one.executeWith({ n: 2 }), 2);
  for (const running of [() => registry.dispatch("t", { n: 5 }), () => one.executeWith({ n: 5 })]) {
    const error = await quietly(() => thrownBy(running()));
    assert.ok(error instanceof InvalidArgument && error.path === "$.n");
  }
});

test("zod: unions, enumerations, records and descriptions", () => {
  const parameters = z.object({
    kind: z.enum(["a", "b"]).describe("the kind"),
    either: z.union([z.string(), z.number()]),
    map: z.record(z.string(), z.number()).optional(),
  });
  const [{ parameters: shown }] = registryOf(tool({ name: "t", parameters }, () => 1)).manifest();
  assert.deepEqual(shown.properties.kind.enum, ["a", "b"]);
  assert.equal(shown.properties.kind.description, "the kind");
  for (const type of ["string", "number"])
    assert.ok(JSON.stringify(shown.properties.either).includes(`"${type}"`));
  assert.equal(shown.properties.map.type, "object");
  assert.deepEqual(shown.required, ["kind", "either"]);
});

test("zod: the smaller variant of the library", async () => {
  const mini = createRequire(import.meta.url)("zod/mini");
  const parameters = mini.object({ n: mini.number(), m: mini.optional(mini.string()) });
  const registry = registryOf(tool({ name: "t", parameters }, ({ n }) => n));
  assert.deepEqual(registry.manifest()[0].parameters.required, ["n"]);
  assert.equal(await registry.dispatch("t", { n: 3 }), 3);
  assert.equal((await thrownBy(registry.dispatch("t", { n: "x" }))).path, "$.n");
});

describe("another library of the Standard Schema interface", () => {
  const standard = (validate, rest) => ({ "~standard": { version: 1, vendor: "own", validate, ...rest } });
  const jsonSchema = {
    input: () => ({ $schema: "x", type: "object", properties: { n: { type: "number" } } }),
  };

  test("that can say itself as JSON Schema", async () => {
    const validate = (value) =>
      value.n < 5 ? { value: { n: value.n * 2 } } : { issues: [{ message: "too large" }] };
    const registry = registryOf(
      tool({ name: "t", parameters: standard(validate, { jsonSchema }) }, ({ n }) => n),
    );
    assert.deepEqual(registry.manifest()[0].parameters, {
      type: "object",
      properties: { n: { type: "number" } },
    });
    assert.equal(await registry.dispatch("t", { n: 1 }), 2);
    const error = await thrownBy(registry.dispatch("t", { n: 9 }));
    assert.deepEqual([error.name, error.path], ["InvalidArgument", "$"]);
    assert.ok(error.message.includes("too large"));
  });

  test("paths of issues, in all their forms", async () => {
    for (const [path, shown] of [
      [undefined, "$"],
      [[], "$"],
      [["a", 1, "b"], "$.a[1].b"],
      [[{ key: "a" }, { key: 0 }], "$.a[0]"],
      [["a b", "1", ""], '$["a b"]["1"][""]'],
      [[Symbol("s")], '$["Symbol(s)"]'],
    ]) {
      const validate = () => ({
        issues: [
          { message: "no", path },
          { message: "second", path: ["other"] },
        ],
      });
      const one = tool({ name: "t", parameters: standard(validate, { jsonSchema }) }, () =>
        assert.fail("ran"),
      );
      assert.equal((await thrownBy(registryOf(one).dispatch("t", { n: 1 }))).path, shown);
    }
  });

  test("that throws, or answers with a thenable", async () => {
    const error = new RangeError("validator");
    const fails = () => {
      throw error;
    };
    const one = tool({ name: "t", parameters: standard(fails, { jsonSchema }) }, () => assert.fail("ran"));
    assert.equal(await quietly(() => thrownBy(registryOf(one).dispatch("t", {}))), error);
    const later = { then: (resolve) => resolve({ value: "from a thenable" }) };
    const lazy = tool({ name: "t", parameters: standard(() => later, { jsonSchema }) }, (args) => args);
    assert.equal(await registryOf(lazy).dispatch("t", {}), "from a thenable");
  });

  test("that cannot say itself is an error that says what to do", () => {
    const make = () => tool({ name: "t", parameters: standard((value) => ({ value })) }, () => 1);
    assert.throws(make, (error) => error instanceof TypeError && /own.*JSON Schema/.test(error.message));
  });

  test("whose schemas are functions", async () => {
    const parameters = Object.assign(
      () => 1,
      standard((value) => ({ value: { ...value, seen: 1 } }), { jsonSchema }),
    );
    const registry = registryOf(tool({ name: "t", parameters }, (args) => args));
    assert.deepEqual(await registry.dispatch("t", { n: 1 }), { n: 1, seen: 1 });
  });
});

test("zod: a type that JSON Schema has no word for is an error that says what to do", () => {
  for (const type of [z.date(), z.coerce.date(), z.bigint(), z.map(z.string(), z.string()), z.symbol()]) {
    const make = () => tool({ name: "t", parameters: z.object({ when: type }) }, () => 1);
    assert.throws(make, (error) => {
      return error instanceof TypeError && error.cause instanceof Error && /zod has no form.*give `par/.test(error.message);
    });
  }
});

test("a schema's validation happens inside the call, after guardrails and intercepts", async () => {
  const ran = [];
  add("tool.conditional_execution", () => void ran.push("guardrail"));
  add("tool.request", (_, args) => ran.push("request") && { n: Number(args.n) });
  const parameters = z.object({ n: z.number().refine(() => ran.push("validation")) });
  const registry = registryOf(tool({ name: "t", parameters }, ({ n }) => ran.push("tool") && n));
  assert.equal(await registry.dispatch("t", { n: "5" }), 5);
  assert.deepEqual(ran, ["guardrail", "request", "validation", "tool"]);
});
