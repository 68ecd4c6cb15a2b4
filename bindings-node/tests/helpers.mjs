/** What the tests of the Node door share. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Runtime, registrations, subscribers, tools } from "callweir";

/** The kinds of callables that a program may register. */
export const KINDS = [
  "plain",
  "async",
  "thenable",
  "bound",
  "async_bound",
  "object",
  "method",
  "async_method",
  "proxy",
];

/** Makes a callable of `kind` that does what the plain function `body` does. */
export function made(kind, body) {
  const slowly = async (...given) => {
    await turn();
    return body(...given);
  };
  const then = (given) => (resolve, reject) => slowly(...given).then(resolve, reject);
  const holder = {
    body,
    slowly,
    method(...given) {
      return this.body(...given);
    },
    async asyncMethod(...given) {
      return this.slowly(...given);
    },
  };
  const ways = {
    plain: (...given) => body(...given),
    async: slowly,
    thenable: (...given) => ({ then: then(given) }),
    bound: holder.method.bind(holder),
    async_bound: holder.asyncMethod.bind(holder),
    object: Object.assign((...given) => body(...given), { kind: "callable" }),
    method: (...given) => holder.method(...given),
    async_method: (...given) => holder.asyncMethod(...given),
    proxy: new Proxy(function () {}, { apply: (_, __, given) => body(...given) }),
  };
  return ways[kind];
}

/** A subscriber of a runtime, by default the default one, that keeps what it gets. */
export class Seen {
  events = [];

  constructor(name = "seen", runtime = Runtime.default()) {
    this.runtime = runtime;
    runtime.subscribe(name, (event) => void this.events.push(event));
  }

  async flushed() {
    assert.equal(await this.runtime.flush(10_000), 0);
    return this;
  }

  /** Lists the starts, ends or marks (`mark`), of one name if one is given. */
  of(what, name) {
    const found = this.events.filter((event) => (event.scope_category ?? "mark") === what);
    return name === undefined ? found : found.filter((event) => event.name === name);
  }

  /** Lists what happened in order, as kind and name. */
  shown() {
    return this.events.map((event) => `${event.scope_category ?? "mark"} ${event.name}`);
  }

  /** Gives the one start of that name. */
  start(name) {
    const starts = this.of("start", name);
    assert.equal(starts.length, 1, `starts of ${name}`);
    return starts[0];
  }

  /** Gives the one end of that name, after checking that it has the one start. */
  end(name) {
    const ends = this.of("end", name);
    assert.equal(ends.length, 1, `ends of ${name}`);
    const start = this.start(name);
    assert.equal(start.uuid, ends[0].uuid);
    assert.equal(start.parent_uuid, ends[0].parent_uuid);
    assert.ok(this.events.indexOf(start) < this.events.indexOf(ends[0]));
    return ends[0];
  }
}

/** Takes every global registration off the default runtime. */
export function clear() {
  const runtime = Runtime.default();
  for (const { stage, name } of registrations()) {
    if (stage === "subscriber") subscribers.deregister(name);
    else runtime.deregister(stage, name);
  }
}

/** Registers a callback of a family with the default runtime. */
export function add(family, fn, { name = "entry", ...options } = {}) {
  Runtime.default().register(family, name, fn, options);
}

/** A tool that gives its arguments. */
export const echo = (args) => args;

/** Makes a managed call of the default runtime. */
export function call(name = "t", args = {}, fn = echo, options = undefined) {
  return tools.execute(name, args, fn, options);
}

/** Gives what a promise was rejected with, whatever that is. */
export async function thrownBy(promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  return assert.fail(`nothing was thrown; the value is ${String(value)}`);
}

/** A promise with the functions that settle it. */
export function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/** Waits until a condition holds. */
export async function until(condition, what = "the condition") {
  const limit = performance.now() + 10_000;
  while (!condition()) {
    assert.ok(performance.now() < limit, `waited too long for ${what}`);
    await turn();
  }
}

/** Runs `body` and checks that nothing reached the handlers of last resort. */
export async function quietly(body) {
  const heard = [];
  const listeners = ["unhandledRejection", "uncaughtException", "rejectionHandled", "warning"].map((name) => {
    // What sanitizers and subscribers fail with is told now and then, by how many failed before.
    const listener = (given) => given?.name === "CallweirWarning" || heard.push([name, given]);
    process.prependListener(name, listener);
    return [name, listener];
  });
  try {
    const value = await body();
    for (let turns = 0; turns < 3; turns++) await turn();
    assert.deepEqual(heard, []);
    return value;
  } finally {
    for (const [name, listener] of listeners) process.removeListener(name, listener);
  }
}

/** Fails if something that was awaited takes longer: a test that hangs fails instead. */
export async function within(promise, milliseconds = 10_000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not settled within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits; without a number it gives way once. */
export const pause = (milliseconds = 0) => (milliseconds === 0 ? turn() : sleep(milliseconds));

/** Clears the default runtime after each test of a file. */
export function clearAfterEach() {
  afterEach(async () => {
    clear();
    await subscribers.flush(10_000);
  });
}

/** Fails if the function takes longer than so many milliseconds; gives what it gave. */
export async function atMost(milliseconds, fn) {
  const started = performance.now();
  const result = await fn();
  const took = performance.now() - started;
  assert.ok(took < milliseconds, `took ${took.toFixed(0)} ms, more than ${milliseconds}`);
  return result;
}

/** Notes the largest gap between two turns of the loop; `stop` gives it, in milliseconds. */
export function heartbeat(every = 10) {
  let last = performance.now();
  let largest = 0;
  const beat = () => {
    const now = performance.now();
    largest = Math.max(largest, now - last);
    last = now;
  };
  const timer = setInterval(beat, every);
  return {
    stop() {
      clearInterval(timer);
      beat();
      return largest;
    },
  };
}

/** Runs a program to its end, and says how it ended; it is killed when it takes too long. */
export function run(program, given, { timeout = 30_000, env = {} } = {}) {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const own = { NODE_OPTIONS: "", NODE_TEST_CONTEXT: undefined };
    const child = spawn(program, given, {
      env: { ...process.env, ...own, ...env },
      timeout,
      killSignal: "SIGKILL",
    });
    const texts = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8").on("data", (text) => (texts[name] += text));
    }
    child.on("error", reject);
    child.on("close", (code, signal) => {
      resolve({ code, signal, took: performance.now() - started, ...texts });
    });
  });
}

/** The path of a script of the folder `scripts`. */
export const scriptPath = (name) => fileURLToPath(new URL(`scripts/${name}`, import.meta.url));

/** Runs a script of the folder `scripts` under Node: its name, then what it is given. */
export function script(name, given = [], { flags = [], ...options } = {}) {
  return run(process.execPath, [...flags, scriptPath(name), ...given.map(String)], options);
}

/** Gives what a program printed, after checking that it ended well and wrote nothing on stderr. */
export function clean(done, code = 0) {
  const ended = { code: done.code, signal: done.signal, stderr: done.stderr };
  assert.deepEqual(ended, { code, signal: null, stderr: "" }, `${done.stdout}\n${done.stderr}`);
  return done.stdout;
}

/** Makes a folder that is gone after the tests of the file; gives the path of a file in it. */
export function temporary() {
  const folder = mkdtempSync(join(tmpdir(), "callweir-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return (name) => join(folder, name);
}

/** Reads a file of one JSON value a line. */
export function readLines(path) {
  const text = readFileSync(path, "utf8");
  assert.ok(text === "" || text.endsWith("\n"), "the last line is whole");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

/** Counts the pairs of start and end in wire events, after checking that no start or end is alone. */
export function pairsIn(events) {
  const ids = (category) =>
    events
      .filter((one) => one.scope_category === category)
      .map((one) => one.uuid)
      .sort();
  assert.deepEqual(ids("start"), ids("end"));
  return ids("start").length;
}

/** Lists the ends, each with its name and outcome. */
export function outcomesIn(events) {
  const ends = events.filter((one) => one.scope_category === "end");
  return ends.map((one) => `${one.name} ${one.metadata["callweir.outcome"]}`);
}
