/** The functions that Rust calls: each calls one callback, and says how it answered. */

import { AsyncResource } from "node:async_hooks";

import { releases, ToolCall, ToolContext } from "./context";
import { AtofEvent } from "./events";
import { CallweirError } from "./generated/errors";
import { buildError, fieldsOf } from "./generated/kinds";
import { connect, How, Kind, native, NO_PLACE, numbers, put, shared, Shared, values } from "./native";
import { type Place, places, Queued } from "./place";
import { begin, callBackWith, pump, resumeWoken, settle, SHAPES, soon, Task, write } from "./task";
import { type SignalLike, Verdict } from "./types";
import { isolate, keysOf, parse, Refused, stringify, typeName } from "./value";

type Callback = (...given: unknown[]) => unknown;

const then = Promise.prototype.then;

/** Calls a callback, and makes a promise of what only looks like one: its `then` belongs to the callback's context. */
function call(fn: Callback, count: number, a: unknown, b: unknown, c: unknown): unknown {
  const value = count === 1 ? fn(a) : count === 2 ? fn(a, b) : fn(a, b, c);
  if (typeof value !== "object" && typeof value !== "function") return value;
  if (value === null || value instanceof Promise) return value;
  const method = (value as { then?: unknown }).then;
  return typeof method === "function" ? new Promise((resolve, reject) => method.call(value, resolve, reject)) : value;
}

/** Answers the dispatcher with what a callback returned: at once, or later if it has to be awaited. */
function answer(value: unknown, frame: number): void {
  if (value instanceof Promise) {
    later(value, frame, undefined);
    shared[Shared.How] = How.Pending;
    return;
  }
  shared[Shared.How] = howOf(value);
  numbers[0] = put(value);
}

function howOf(value: unknown): How {
  if (value === undefined || value === null) return How.Nothing;
  if (typeof value === "string") return How.Text;
  return value instanceof CallweirError ? How.Own : How.Value;
}

function later(promise: Promise<unknown>, frame: number, task: Task | undefined): void {
  then.call(
    promise,
    (value) => settle(task, frame, howOf(value), value),
    (error: unknown) => settle(task, frame, howThrown(error, task), error),
  );
}

function howThrown(error: unknown, task: Task | undefined): How {
  return task !== undefined && task.isReason(error) ? How.Aborted : How.Thrown;
}

/** Runs the rest of a chain; without arguments with what the callback got. */
function proceed(parent: Task, frame: number, place: number, context?: ToolContext): Promise<unknown> {
  const task = new Task(parent.runtime, parent.name, places.getStore(), parent, undefined, parent.keep);
  const signal = context?.given as SignalLike | undefined;
  if (signal !== undefined) {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    task.listen(signal);
  }
  return begin(task, goFurther, frame, place, context);
}

function goFurther(object: number, frame: number, place: number, context: ToolContext | undefined): unknown {
  const parts = context === undefined ? undefined : contextParts(context);
  numbers[0] = object;
  numbers[1] = frame;
  numbers[2] = place;
  return parts === undefined ? native.proceed() : native.proceedWith(...parts);
}

/** Returns a context as native functions take it. */
export function contextParts(context: ToolContext | undefined): unknown[] | undefined {
  if (context === undefined) return undefined;
  const { callerId, metadata, given: signal, deadline } = context;
  return [
    callerId,
    metadata === undefined ? NO_PLACE : put(metadata),
    signal === undefined ? NO_PLACE : put(signal),
    deadline,
  ];
}

/**
 * Whether this Node.js keeps the stores of `AsyncLocalStorage` on resources. Then each callback enters a resource of
 * its own: what it sets there reaches no other callback of the event.
 */
const STORES_ON_RESOURCE = Number(process.versions.node.split(".")[0]) < 24;

/** Calls a queued callback in the context in which its event was emitted. */
function inContext(fn: Callback, resource: number, count: number, a: unknown, b: unknown): unknown {
  if (resource === NO_PLACE) return inQueue(fn, count, a, b);
  const run = STORES_ON_RESOURCE ? inOwn : inQueue;
  return (values[resource] as AsyncResource).runInAsyncScope(run, undefined, fn, count, a, b);
}

function inOwn(fn: Callback, count: number, a: unknown, b: unknown): unknown {
  return newResource().runInAsyncScope(inQueue, undefined, fn, count, a, b);
}

function inQueue(fn: Callback, count: number, a: unknown, b: unknown): unknown {
  return places.run(new Queued(places.getStore()), call, fn, count, a, b, undefined);
}

/** Makes a resource of the present context, which nobody has to destroy. */
function newResource(): AsyncResource {
  return new AsyncResource("CALLWEIR", { requireManualDestroy: true });
}

/** Calls a queued callback with `count` arguments; its resource is as far behind the function and the frame. */
function queued(count: number, a: unknown, b?: unknown): void {
  const fn = values[numbers[0]] as Callback;
  const frame = numbers[1];
  const resource = numbers[count + 1];
  try {
    answer(inContext(fn, resource, count, a, b), frame);
  } catch (error) {
    shared[Shared.How] = How.Thrown;
    numbers[0] = put(error);
  }
}

/** Calls a callback of a call, and says whether it has answered already; its answer is then written. */
function inTask(task: Task, frame: number, fn: Callback, count: number, a: unknown, b: unknown, c: unknown): boolean {
  try {
    const value = call(fn, count, a, b, c);
    if (value instanceof Promise) {
      later(value, frame, task);
      return false;
    }
    write(frame, howOf(value), value);
  } catch (error) {
    write(frame, howThrown(error, task), error);
  }
  return true;
}

/** Like `inTask`, where the call's own scope is the current one; inside a `next` it is already. */
function inCall(task: Task, frame: number, fn: Callback, count: number, a: unknown, b: unknown, c: unknown): boolean {
  if (task !== task.root) return inTask(task, frame, fn, count, a, b, c);
  return places.run(task, inTask, task, frame, fn, count, a, b, c);
}

/** A function of a registry, which keeps it. */
function kept(place: number): Callback {
  return (values[place] as WeakRef<Callback>).deref() as Callback;
}

/** Calls the callback that Rust asks for: the shared numbers are function, frame, value, and what else the kind has. */
function callBack(task: Task): boolean {
  const fn = numbers[0];
  const frame = numbers[1];
  const value = values[numbers[2]];
  switch (shared[Shared.Kind] as Kind) {
    case Kind.Gate:
    case Kind.Transform:
      return inTask(task, frame, values[fn] as Callback, 2, task.name, value, undefined);
    case Kind.Around:
      return inCall(task, frame, values[fn] as Callback, 3, task.name, value, nextOf(task, frame, value));
    case Kind.Middleware: {
      const call = ToolCall.of(task, value, contextAt(numbers[3]));
      return inCall(task, frame, kept(fn), 2, call, nextOfCall(task, frame, call), undefined);
    }
    case Kind.Refused: {
      const refusal = values[numbers[4]];
      const call = ToolCall.of(task, value, contextAt(numbers[3]));
      return inTask(task, frame, kept(fn), 2, call, refusal, undefined);
    }
    case Kind.Work:
      return inCall(task, frame, task.root.work as Callback, 1, value, undefined, undefined);
    case Kind.Tool:
      return inCall(task, frame, kept(fn), 2, value, contextAt(numbers[3]) ?? new ToolContext(), undefined);
  }
}

/** Makes the `next` of an execution intercept. */
function nextOf(task: Task, frame: number, own: unknown): (given?: unknown) => Promise<unknown> {
  return function next(given?: unknown): Promise<unknown> {
    return proceed(task, frame, arguments.length === 0 || given === own ? NO_PLACE : put(given));
  };
}

/** Makes the `next` of a middleware. */
function nextOfCall(task: Task, frame: number, call: ToolCall): (given?: unknown) => Promise<unknown> {
  return function next(given?: unknown): Promise<unknown> {
    if (given === undefined || given === call) return proceed(task, frame, NO_PLACE);
    if (!(given instanceof ToolCall)) {
      const text = "next() takes the ToolCall that the middleware got, or an edited copy of it";
      return Promise.reject(new TypeError(text));
    }
    const args = given.arguments === call.arguments ? NO_PLACE : put(given.arguments);
    return proceed(task, frame, args, given.context === call.context ? undefined : given.context);
  };
}

/** The shared numbers of a queued callback are function, frame, then what it says; the first becomes the answer. */
const lent = {
  /** Payload, resource. */
  sanitize(name: string): void {
    queued(2, name, values[numbers[2]]);
  },

  /** Fields, resource. */
  sanitizeEvent(event: string): void {
    queued(2, AtofEvent.of(event), values[numbers[2]]);
  },

  /** Resource. */
  observe(event: string): void {
    queued(1, AtofEvent.of(event));
  },

  /** Resource. */
  observeCall(record: string): void {
    queued(1, JSON.parse(record));
  },

  stringify(value: number, convert: number): string {
    shared[Shared.How] = How.Text;
    try {
      return stringify(values[value], convert === NO_PLACE ? undefined : (values[convert] as Callback));
    } catch (error) {
      shared[Shared.How] = How.Thrown;
      const refused = error instanceof Refused ? error : new Refused(`reading it threw ${typeName(error)}`);
      return JSON.stringify([refused.path(), refused.why]);
    }
  },

  isolate(): void {
    numbers[0] = put(isolate(values[numbers[0]]));
  },

  keys: (value: number): string | undefined => keysOf(values[value]),

  parse: (text: string): number => put(parse(text)),

  again(): void {
    numbers[0] = put(values[numbers[0]]);
  },

  textOf: (value: number): string => (values[value] as string).toWellFormed(),

  verdict(value: number): string | undefined {
    const verdict = values[value];
    if (!(verdict instanceof Verdict)) return undefined;
    return verdict.allowed ? "null" : JSON.stringify(String(verdict.reason));
  },

  explain: (error: number): string => explain(values[error]),

  build(text: string, cause: number): number {
    const { kind, message, code, fields } = JSON.parse(text) as {
      kind: string;
      message: string;
      code: string;
      fields: Record<string, string>;
    };
    return put(buildError(kind, message, code, fields, cause === NO_PLACE ? undefined : values[cause]));
  },

  context(callerId: string | undefined, metadata: number, signal: number, deadline: number | undefined): number {
    return put(
      ToolContext.of({
        callerId,
        metadata: metadata === NO_PLACE ? undefined : values[metadata],
        signal: signal === NO_PLACE ? undefined : (values[signal] as ToolContext["given"]),
        deadline,
      }),
    );
  },

  capture(): void {
    const place: Place | undefined = places.getStore();
    shared[Shared.Echo] = place === undefined ? 0 : place.echo;
    numbers[0] = put(newResource());
  },

  soon,

  log(message: string): void {
    process.emitWarning(message, "CallweirWarning");
  },

  wake(): void {
    resumeWoken();
    pump();
  },
};

function contextAt(place: number): ToolContext | undefined {
  return place === NO_PLACE ? undefined : (values[place] as ToolContext);
}

/** Describes a thrown value for Rust. */
function explain(error: unknown): string {
  const told: Record<string, unknown> = { type_name: error === null ? null : typeName(error) };
  if (typeof error === "object" && error !== null && releases.has(error)) told["release"] = true;
  try {
    told["message"] = error instanceof Error ? String(error.message) : String(error);
    if (error instanceof CallweirError) {
      told["kind"] = error.kind;
      told["code"] = error.code;
      told["fields"] = fieldsOf(error);
    }
  } catch {
    // What cannot be looked at has no text.
  }
  return stringify(told, undefined);
}

places.run(new Queued(undefined), () => SHAPES.push(newResource(), Promise.resolve()));
SHAPES.push(new Queued(undefined), AtofEvent.of(""), new ToolCall({ name: "", arguments: undefined }));
connect(lent);
callBackWith(callBack);
