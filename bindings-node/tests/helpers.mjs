/** What the tests of the Node door share. */

import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";

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
    const listener = (given) => heard.push([name, given]);
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
