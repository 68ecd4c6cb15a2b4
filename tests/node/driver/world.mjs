/** What one replay holds: the runtime, everything that steps have named, and the trace so far. */

import { Cancellation, Runtime } from "callweir";

import { parse, stringify } from "./json.mjs";

/** How the driver writes its callbacks. */
export const Style = Object.freeze({
  /** Every callback is an asynchronous function. */
  ASYNC: "async",
  /** Every callback that does not have to wait is a plain function. */
  SYNC: "sync",
  /** Every callback returns an object with `then`, no promise; it settles at once if it need not wait. */
  THENABLE: "thenable",
  /** Every callback returns a function with `then`, and does its work only when that is called. */
  LAZY: "lazy",
});

/** The failure that behaviours raise. */
export class HostError extends Error {}

/** Says that a call ended with the reason of the driver's own `AbortController`. */
export class HostCancelled extends Error {}

/** A mistake in the scenario itself. */
export class Broken extends Error {}

/** A token of Callweir's, and what else happens when it fires. */
class Token {
  #cancellation = new Cancellation();
  #hooks = [];

  /** What calls are given. */
  get signal() {
    return this.#cancellation.signal;
  }

  /** Calls `hook` when the token fires. */
  whenFired(hook) {
    this.#hooks.push(hook);
  }

  /** Fires the token. */
  fire() {
    this.#cancellation.cancel();
    for (const hook of this.#hooks) hook();
  }
}

/** A replay in progress. */
export class World {
  trace = { steps: [], log: [], queued: [], calls: [], events: [] };
  raised = [];
  /** Whether a call has ended with the reason of the driver's own `AbortController`. */
  isHostCancelled = false;
  registries = new Map();
  tools = new Map();
  scopes = new Map();
  calls = new Map();
  nexts = new Map();
  propagations = new Map();
  #tokens = new Map();
  #sleeping = new Set();

  constructor(scenario, style) {
    this.style = style;
    this.runtime = new Runtime({ errorText: scenario.options?.error_text });
  }

  /** Finds a token, which comes into being when first named. */
  token(name) {
    if (!this.#tokens.has(name)) this.#tokens.set(name, new Token());
    return this.#tokens.get(name);
  }

  /** Finds a scope where one is named. */
  maybeScope(name) {
    return name === undefined ? undefined : known("scope", name, this.scopes);
  }

  /** Makes the failure that a behaviour raises, to be known again when it arrives. */
  fail(message) {
    const error = new HostError(message);
    this.raised.push(error);
    return error;
  }

  /** Waits. */
  sleep(milliseconds) {
    return new Promise((resolve) => {
      this.#sleeping.add(setTimeout(resolve, milliseconds));
    });
  }

  /** Lets what still sleeps sleep on, without keeping the process for it. */
  leave() {
    for (const timer of this.#sleeping) clearTimeout(timer);
  }

  /** Logs what a callback recorded, as it is now; what queued callbacks do is kept apart. */
  log(entry, isQueued) {
    this.trace[isQueued ? "queued" : "log"].push(copied(entry));
  }

  /** Notes a labelled step's end. */
  noteStep(entry, isQueued) {
    this.trace[isQueued ? "queued" : "steps"].push(copied(entry));
  }
}

function copied(entry) {
  return parse(stringify(entry));
}

/** Finds what a step names; a scenario that names nothing is broken. */
export function known(kind, name, found) {
  if (!found.has(name)) throw new Broken(`no ${kind} '${name}' in this scenario`);
  return found.get(name);
}
