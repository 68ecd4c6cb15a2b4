/** Behaviours as the callbacks that the Node door takes: plain, asynchronous, or with their own `then`. */

import { tool as makeTool, Verdict } from "callweir";

import { drive, finish, Frame } from "./behaviour.mjs";
import { errorForm } from "./forms.mjs";
import { Broken, Style } from "./world.mjs";

const WAITING_OPS = ["next", "swallow", "sleep"];
const WAITING_STEPS = [
  "execute",
  "dispatch",
  "direct",
  "alone",
  "guardrails",
  "requests",
  "use_next",
  "shutdown",
  "flush",
];

/** Says whether an operation has to be awaited. */
function waits(op) {
  const name = typeof op === "string" ? op : Object.keys(op)[0];
  return name === "step" ? WAITING_STEPS.some((action) => action in op.step) : WAITING_OPS.includes(name);
}

/** Returns the form of a callback that a style asks for; without `plain` it has to wait. */
export function styled(world, waiting, plain) {
  switch (world.style) {
    case Style.ASYNC:
      return waiting;
    case Style.SYNC:
      return plain ?? waiting;
    case Style.THENABLE:
      return (...given) => (plain === undefined ? pending(waiting(...given)) : settled(plain, given));
    default:
      return (...given) => lazy(waiting, given);
  }
}

/** Makes a thenable of a promise. */
function pending(promise) {
  return {
    then(resolve, reject) {
      promise.then(resolve, reject);
    },
  };
}

/** Makes a thenable that settles while its `then` is called. */
function settled(plain, given) {
  try {
    const value = plain(...given);
    return { then: (resolve) => resolve(value) };
  } catch (error) {
    return { then: (_, reject) => reject(error) };
  }
}

/** Makes a thenable that does nothing before its `then` is called, as the queries of many libraries. */
function lazy(waiting, given) {
  const then = (resolve, reject) => void waiting(...given).then(resolve, reject);
  return Object.assign(() => undefined, { then });
}

/**
 * Makes the function that runs `ops` in the frame that `make` gives and returns what `answer` makes of it.
 *
 * A plain one may end with `next`: it returns the promise.
 */
function callback(world, ops, make, answer) {
  const isTail = ops.at(-1) === "next";
  const head = isTail ? ops.slice(0, -1) : ops;
  const waiting = async (...given) => answer(await drive(make(...given).run(ops)));
  const plain = (...given) => {
    const frame = make(...given);
    const end = finish(frame.run(head));
    return isTail && end.how === "value" ? frame.startNext() : answer(end);
  };
  return styled(world, waiting, head.some(waits) ? undefined : plain);
}

/** Makes the callback of an entry. */
export function handler(world, family, name, ops) {
  if (family.endsWith("conditional_execution")) {
    const ofCall = (called, value) => new Frame(world, name, value, { name: called });
    return callback(world, ops, ofCall, (end) => verdict(world, end));
  }
  if (family.endsWith("execution")) {
    const ofIntercept = (called, value, proceed) => new Frame(world, name, value, { name: called, proceed });
    return callback(world, ops, ofIntercept, result);
  }
  const isQueued = family.includes("sanitize");
  return callback(world, ops, (_, value) => new Frame(world, name, value, { isQueued }), result);
}

/** Reads an end as a guardrail's answer, in the forms that say the same. */
function verdict(world, { how, value }) {
  const isExplicit = world.style === Style.SYNC || world.style === Style.LAZY;
  switch (how) {
    case "reject":
      return isExplicit ? Verdict.reject(value) : value;
    case "wrong":
      return true;
    default:
      return isExplicit ? Verdict.allow() : nothing(world);
  }
}

/** Returns nothing, in one of the two forms that the language has for it. */
function nothing(world) {
  return world.style === Style.THENABLE ? null : undefined;
}

/** Reads an end as a value. */
function result({ how, value }) {
  if (how === "reject") throw new Broken("only a guardrail rejects");
  return how === "wrong" ? "wrong" : value;
}

/** Makes the work of a call that is given as a function. */
export function work(world, name, ops) {
  return callback(world, ops, (value) => new Frame(world, name, value, { name }), result);
}

/** Makes the `next` of a middleware that is tested alone. */
export function nextAlone(world, ops) {
  return async (call) => {
    const frame = new Frame(world, "next", call.arguments, { name: call.name, call });
    return result(await drive(frame.run(ops)));
  };
}

/** Makes a tool. */
export function tool(world, spec) {
  const { name, description = "", parameters = { type: "object" }, run = [] } = spec;
  const { read_only: readOnly, idempotent } = spec;
  const ofArguments = (args, context) => new Frame(world, name, args, { name, context });
  const options = { name, description, parameters, readOnly, idempotent };
  return makeTool(options, callback(world, run, ofArguments, result));
}

/** Makes a subscriber. */
export function subscriber(world, name, ops) {
  const ofEvent = (event) => new Frame(world, name, event.toJSON(), { isQueued: true, event });
  return callback(world, ops, ofEvent, () => undefined);
}

/** A registry's middleware with a behaviour for each of its two callbacks. */
class Scripted {
  constructor(name, run, onRefused) {
    this.name = name;
    this.run = run;
    this.onRefused = onRefused;
  }
}

/** Makes a registry's middleware: an object, or a function where callbacks are plain. */
export function middleware(world, spec) {
  const { name } = spec;
  const ofCall = (call, proceed) =>
    new Frame(world, name, call.arguments, { name: call.name, call, proceed });
  const ofRefusal = (call, refusal) =>
    new Frame(world, `${name}.on_refused`, errorForm(world, refusal), { name: call.name, call });
  const run = callback(world, spec.run, ofCall, result);
  const onRefused = callback(world, spec.on_refused ?? [], ofRefusal, () => undefined);
  if (world.style !== Style.SYNC) return new Scripted(name, run, onRefused);
  return Object.assign(Object.defineProperty(run, "name", { value: name }), { onRefused });
}

/** Runs a middleware as a registry would. */
export function runAlone(made, call, proceed) {
  return typeof made === "function" ? made(call, proceed) : made.run(call, proceed);
}
