/** Names: those that the contract lists exist with those arguments, and name the same entries. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";

import * as callweir from "callweir";

const { AlreadyExists, CallweirError, guardrails, intercepts, Runtime, scope, subscribers, tools } = callweir;

/** Reads the rows of one of the core's tables. */
function rows(path, pattern) {
  const text = readFileSync(new URL(`../../core/src/${path}`, import.meta.url), "utf8");
  const found = [...text.matchAll(pattern)].map(([, ...cells]) => cells);
  const starts = text.split("\n").filter((line) => /^\s+\([A-Z]/.test(line));
  assert.equal(found.length, starts.length, `a row of ${path} cannot be read`);
  return found;
}

const FAMILIES = rows("family/table.rs", /\((\w+), "([\w.]+)", (\w+), (\w+), \w+,\s*"(.*)"\)/g);
const KINDS = rows("error/table.rs", /\((\w+), "(\w+)", (\w+), \[(.*)\],\s*"(.*)"\)/g);

const fn = () => undefined;

const entriesOf = (family) => callweir.registrations().filter((line) => line.stage === family);

afterEach(() => {
  assert.deepEqual(callweir.registrations(), []);
});

/** Returns the names of a function's arguments; those of what it compiles to are those of its source. */
function argumentsOf(callable) {
  const text = callable.toString();
  const from = text.startsWith("class") ? text.indexOf("constructor(") : 0;
  const [, list] = text.slice(from).match(/\(([^)]*)\)/);
  return list.replace(/ = (\{\}|\d+)/g, "");
}

for (const [variant, family, moduleName, shape] of FAMILIES) {
  const module = { Guardrails: guardrails, Intercepts: intercepts }[moduleName];
  const register = module[`register${variant}`];
  const deregister = module[`deregister${variant}`];
  // Only a chain that changes the real request can be broken off.
  const mayBreak = module === intercepts && shape === "Transform";
  const breaks = mayBreak ? [false] : [];

  test(`C-79 DOOR-5 FAM-1: ${family} has its functions, with their arguments`, () => {
    const listed = mayBreak ? "name, priority, breakChain, fn, options" : "name, priority, fn, options";
    assert.equal(argumentsOf(register), listed);
    assert.equal(argumentsOf(deregister), "name, options");
    assert.equal(register.name, `register${variant}`);
  });

  test(`C-79 FAM-7: ${family} registers the very entry of the generic form`, () => {
    const runtime = Runtime.default();
    register("n", 3, ...breaks, fn);
    assert.deepEqual(entriesOf(family), [
      { stage: family, name: "n", level: "global", owner: null, priority: 3 },
    ]);
    assert.throws(() => runtime.register(family, "n", fn), AlreadyExists);
    assert.throws(() => register("n", 0, ...breaks, fn), AlreadyExists);
    assert.equal(deregister("n"), true);
    assert.equal(deregister("n"), false);
    runtime.register(family, "n", fn, { priority: 1, breakChain: false });
    assert.throws(() => register("n", 0, ...breaks, fn), AlreadyExists);
    assert.equal(entriesOf(family)[0].priority, 1);
    assert.equal(runtime.deregister(family, "n"), true);
  });

  test(`C-79 FAM-8: ${family} takes the scope that owns the entry`, () => {
    scope.scope("S", (handle) => {
      register("n", 0, ...breaks, fn, { scope: handle });
      register("n", 0, ...breaks, fn);
      const levels = entriesOf(family).map(({ level }) => level);
      assert.deepEqual(levels.sort(), ["global", "scope"]);
      assert.equal(deregister("n", { scope: handle }), true);
      assert.equal(deregister("n", { scope: handle }), false);
    });
    assert.equal(deregister("n"), true);
  });
}

test("C-79 FAM-1: there is no function of a family that the core does not know", () => {
  const listed = (name) =>
    FAMILIES.filter(([, , module]) => module === name)
      .flatMap(([variant]) => [`register${variant}`, `deregister${variant}`])
      .sort();
  assert.equal(FAMILIES.length, 14);
  assert.deepEqual(Object.keys(guardrails).sort(), listed("Guardrails"));
  assert.deepEqual(Object.keys(intercepts).sort(), listed("Intercepts"));
});

/** What SPEC section 12 lists: what stands by its name in Python is in `options`. */
const SIGNATURES = [
  ["tools.execute", tools.execute, "name, args, fn, options"],
  ["tools.call", tools.call, "name, args, options"],
  ["tools.callEnd", tools.callEnd, "handle, result, options"],
  ["tools.conditionalExecution", tools.conditionalExecution, "name, args"],
  ["tools.requestIntercepts", tools.requestIntercepts, "name, args"],
  ["Runtime", Runtime, "settings"],
  ["Runtime.register", Runtime.prototype.register, "family, name, fn, options"],
  ["Runtime.deregister", Runtime.prototype.deregister, "family, name, options"],
  ["subscribers.register", subscribers.register, "name, fn, options"],
  ["subscribers.registerCalls", subscribers.registerCalls, "name, fn, options"],
  ["subscribers.deregister", subscribers.deregister, "name, options"],
  ["subscribers.flush", subscribers.flush, "timeout"],
  ["subscribers.flushAsync", subscribers.flushAsync, "timeout"],
  ["scope.push", scope.push, "name, options"],
  ["scope.pop", scope.pop, "handle, options"],
  ["scope.event", scope.event, "name, data, options"],
  ["scope.getHandle", scope.getHandle, ""],
  ["ToolRegistry", callweir.ToolRegistry, "options"],
  ["ToolRegistry.register", callweir.ToolRegistry.prototype.register, "...items"],
  ["ToolRegistry.use", callweir.ToolRegistry.prototype.use, "...middleware"],
  ["ToolRegistry.subset", callweir.ToolRegistry.prototype.subset, "names"],
  ["ToolRegistry.dispatch", callweir.ToolRegistry.prototype.dispatch, "name, args, context, options"],
  ["ToolRegistry.manifest", callweir.ToolRegistry.prototype.manifest, "provider"],
  ["ToolContext", callweir.ToolContext, "options"],
  ["ToolCall", callweir.ToolCall, "options"],
  ["ToolCall.withArguments", callweir.ToolCall.prototype.withArguments, "args"],
  ["ToolCall.withContext", callweir.ToolCall.prototype.withContext, "context"],
  ["ToolCall.withCancellation", callweir.ToolCall.prototype.withCancellation, "signal"],
  ["tool", callweir.tool, "options, fn"],
  ["configure", callweir.configure, "settings"],
  ["shutdown", callweir.shutdown, "timeout"],
  ["explain", callweir.explain, "kind, name, options"],
  ["registrations", callweir.registrations, ""],
  ["propagation", callweir.propagation, ""],
  ["attach", callweir.attach, "value, fn"],
  ["forModel", callweir.forModel, "error"],
  ["currentCall", callweir.currentCall, ""],
  ["export.jsonl", callweir.export.jsonl, "path, options"],
];

for (const [name, callable, listed] of SIGNATURES) {
  test(`C-79 DOOR-5: ${name}(${listed})`, () => {
    assert.equal(typeof callable, "function");
    assert.equal(argumentsOf(callable), listed);
  });
}

test("C-79 DOOR-5: a scope's type may stand in the place of its options, and both may be left out", () => {
  for (const given of [[], ["agent"], [{ type: "agent", input: 1, metadata: { m: 1 } }]]) {
    const seen = scope.scope("S", ...given, (handle) => [handle.name, handle.scopeType]);
    assert.deepEqual(seen, ["S", given.length === 0 ? "function" : "agent"]);
  }
});

test("C-79 DOOR-5: a call has its name, arguments, context and descriptor", () => {
  const call = new callweir.ToolCall({ name: "t", arguments: { a: 1 } });
  assert.deepEqual([call.name, call.arguments, call.descriptor], ["t", { a: 1 }, undefined]);
  assert.ok(call.context instanceof callweir.ToolContext);
  const given = { callerId: "c", metadata: { m: 1 }, signal: AbortSignal.abort(), deadline: 60_000 };
  const context = new callweir.ToolContext(given);
  assert.equal(context.callerId, "c");
  assert.equal(context.metadata, given.metadata);
  assert.ok(context.signal.aborted && context.signal.reason === given.signal.reason);
  assert.equal(new callweir.ToolContext({ signal: given.signal }).signal, given.signal);
  assert.ok(context.deadline > 0 && context.deadline <= 60_000);
});

test("C-79 DOOR-5: every type of scope has its name", () => {
  const upper = (text) => text[0].toUpperCase() + text.slice(1);
  assert.equal(Object.keys(scope.ScopeType).length, 11);
  for (const [name, text] of Object.entries(scope.ScopeType)) {
    assert.equal(upper(text), name);
    assert.equal(scope.scope("S", text, (handle) => handle.scopeType), text);
  }
  assert.equal(scope.ScopeType, callweir.ScopeType);
});

/** Lists what the package and its namespaces export, with the path of each name. */
function* exported(module, path = []) {
  for (const [name, value] of Object.entries(module)) {
    yield [[...path, name].join("."), value];
    if (Object.getPrototypeOf(value) === null) yield* exported(value, [...path, name]);
  }
}

test("C-79 DOOR-5: a class or function is called what it is exported as", () => {
  const functions = [...exported(callweir)].filter(([, value]) => typeof value === "function");
  const others = functions.filter(([path, { name }]) => path.split(".").at(-1) !== name);
  assert.ok(functions.length > 80, `${functions.length}`);
  assert.deepEqual(others.map(([path, { name }]) => [path, name]), [["subscribers.flushAsync", "flush"]]);
});

test("C-79 DOOR-5: one thing has one value under each of its names", () => {
  assert.equal(callweir.export, callweir.exporters);
  assert.equal(tools.currentCall, callweir.currentCall);
  assert.equal(scope.ScopeHandle, callweir.ScopeHandle);
  assert.equal(subscribers.flush, subscribers.flushAsync);
});

/** What a field is called in JavaScript, where an error's `name` is that of its class. */
const property = (field) => (field === "name" ? "targetName" : field);

const fieldsOf = (list) => list.split(", ").filter(Boolean).map((field) => JSON.parse(field));

/** What a constructor takes: a text for each field, or the message where there is none. */
const given = (fields) => (fields.length > 0 ? fields.map((field) => `the ${field}`) : [undefined]);

test("C-79 ERR-3: there is a class for each kind of the core, and for no other", () => {
  const classes = Object.values(callweir).filter(
    (value) => typeof value === "function" && value.prototype instanceof CallweirError,
  );
  assert.deepEqual(classes.map(({ kind }) => kind).sort(), KINDS.map(([kind]) => kind).sort());
  for (const [kind] of KINDS) assert.ok(classes.includes(callweir[kind]), kind);
  assert.equal(Object.getPrototypeOf(CallweirError), Error);
});

for (const [kind, code, parent, list] of KINDS) {
  const fields = fieldsOf(list);

  test(`C-79 ERR-3: ${kind} has the parent, code, name and fields of the core's table`, () => {
    const Kind = callweir[kind];
    assert.equal(Object.getPrototypeOf(Kind), parent === "Error" ? CallweirError : callweir[parent]);
    assert.deepEqual([Kind.name, Kind.kind, Kind.code], [kind, kind, code]);
    const cause = new Error("behind it");
    const error = new Kind(...given(fields), { cause });
    assert.ok(error instanceof Kind && error instanceof CallweirError && error instanceof Error);
    assert.deepEqual([error.name, error.kind, error.code, error.cause], [kind, kind, code, cause]);
    for (const field of fields) assert.equal(error[property(field)], `the ${field}`, field);
    assert.ok(error.message.length > 0);
    assert.ok(error.stack.startsWith(`${kind}: ${error.message}`), error.stack);
    assert.equal(typeof JSON.parse(error.forModel()).error, "string");
    assert.equal(callweir.forModel(error), error.forModel());
  });

  test(`C-79 ERR-3: ${kind} takes another text and code`, () => {
    const Kind = callweir[kind];
    const error = new Kind(...given(fields), { message: "another text", code: "another_code" });
    assert.deepEqual([error.message, error.code, error.kind], ["another text", "another_code", kind]);
    assert.ok(!("cause" in error));
  });
}
