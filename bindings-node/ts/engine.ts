/** The functions that Rust calls: each calls one callback, and says how it answered. */

import { AsyncResource } from "node:async_hooks";

import { EMPTY, ToolCall, ToolContext } from "./context";
import { AtofEvent } from "./events";
import { buildError, CallweirError, fieldsOf } from "./generated/errors";
import { connect, How, native, NO_PLACE, numbers, put, shared, Shared, values } from "./native";
import { type Place, places, Queued } from "./place";
import { begin, currentTask, pump, resumeWoken, settle, soon, Task } from "./task";
import { type SignalLike, Verdict } from "./types";
import { isolate, keysOf, parse, Refused, stringify, typeName } from "./value";

type Callback = (...given: unknown[]) => unknown;

const then = Promise.prototype.then;

/** Calls a callback, and makes a promise of what only looks like one: its `then` belongs to the callback's context. */
function call(fn: Callback, a: unknown, b: unknown, c: unknown): unknown {
  const value = fn(a, b, c);
  if (typeof value !== "object" && typeof value !== "function") return value;
  if (value === null || value instanceof Promise) return value;
  const method = (value as { then?: unknown }).then;
  return typeof method === "function" ? new Promise((resolve, reject) => method.call(value, resolve, reject)) : value;
}

/** Answers with what a callback returned: at once, or later if it has to be awaited. */
function answer(value: unknown, frame: number, task: Task | undefined): void {
  if (value instanceof Promise) {
    later(value, frame, task);
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
  shared[Shared.How] = How.Pending;
}

function howThrown(error: unknown, task: Task | undefined): How {
  return task !== undefined && task.isReason(error) ? How.Aborted : How.Thrown;
}

/** Answers with what a callback threw. */
function thrown(error: unknown, task: Task | undefined): void {
  shared[Shared.How] = howThrown(error, task);
  numbers[0] = put(error);
}

/** Runs the rest of a chain; without arguments with what the callback got. */
function proceed(parent: Task, frame: number, place: number, context?: ToolContext): Promise<unknown> {
  const task = new Task(parent.runtime, parent.name, places.getStore(), parent, undefined, parent.keep);
  const signal = context?.signal as SignalLike | undefined;
  if (signal !== undefined) {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    task.listen(signal);
  }
  return begin(task, () => {
    const parts = contextParts(context);
    const object = put(task);
    numbers[0] = task.number;
    numbers[1] = object;
    numbers[2] = frame;
    numbers[3] = place;
    return parts === undefined ? native.proceed() : native.proceedWith(...parts);
  });
}

/** Returns a context as native functions take it. */
export function contextParts(context: ToolContext | undefined): unknown[] | undefined {
  if (context === undefined) return undefined;
  const { callerId, metadata, signal, deadline } = context;
  return [
    callerId,
    metadata === undefined ? NO_PLACE : put(metadata),
    signal === undefined ? NO_PLACE : put(signal),
    deadline,
  ];
}

/** Calls a queued callback in the context in which its event was emitted. */
function inContext(fn: Callback, resource: number, a: unknown, b: unknown): unknown {
  const run = () => places.run(new Queued(places.getStore()), call, fn, a, b, undefined);
  return resource === NO_PLACE ? run() : (values[resource] as AsyncResource).runInAsyncScope(run);
}

/** Calls a queued callback; its resource is the last of `count` shared numbers. */
function queued(count: number, a: unknown, b?: unknown): void {
  const fn = values[numbers[0]] as Callback;
  const frame = numbers[1];
  const resource = numbers[count - 1];
  try {
    answer(inContext(fn, resource, a, b), frame, undefined);
  } catch (error) {
    thrown(error, undefined);
  }
}

/**
 * Calls a callback of a call. Around the work the call's own scope is the current one; inside a `next` it is already.
 */
function inTask(task: Task, frame: number, inside: boolean, fn: Callback, a: unknown, b?: unknown, c?: unknown): void {
  try {
    const outermost = inside && task === task.root;
    const value = outermost ? places.run(task, call, fn, a, b, c) : call(fn, a, b, c);
    answer(value, frame, task);
  } catch (error) {
    thrown(error, task);
  }
}

/** The shared numbers of each are function and frame, then what it says; the first of them becomes the answer. */
const lent = {
  /** Arguments. */
  gate(): void {
    const task = currentTask() as Task;
    inTask(task, numbers[1], false, values[numbers[0]] as Callback, task.name, values[numbers[2]]);
  },

  /** Payload. */
  transform(): void {
    const task = currentTask() as Task;
    inTask(task, numbers[1], false, values[numbers[0]] as Callback, task.name, values[numbers[2]]);
  },

  /** Arguments. */
  around(): void {
    const task = currentTask() as Task;
    const frame = numbers[1];
    const own = values[numbers[2]];
    function next(given?: unknown): Promise<unknown> {
      return proceed(task, frame, arguments.length === 0 || given === own ? NO_PLACE : put(given));
    }
    inTask(task, frame, true, values[numbers[0]] as Callback, task.name, own, next);
  },

  /** Arguments, context. */
  middleware(): void {
    const task = currentTask() as Task;
    const frame = numbers[1];
    const run = values[numbers[0]] as Callback;
    const call = ToolCall.of(task, values[numbers[2]], contextAt(numbers[3]));
    const next = (given: unknown) => {
      if (given === undefined || given === call) return proceed(task, frame, NO_PLACE);
      if (!(given instanceof ToolCall)) {
        const text = "next() takes the ToolCall that the middleware got, or an edited copy of it";
        return Promise.reject(new TypeError(text));
      }
      const args = given.arguments === call.arguments ? NO_PLACE : put(given.arguments);
      return proceed(task, frame, args, given.context === call.context ? undefined : given.context);
    };
    inTask(task, frame, true, run, call, next);
  },

  /** Arguments, context, refusal. */
  refused(): void {
    const task = currentTask() as Task;
    const fn = values[numbers[0]] as Callback;
    const refusal = values[numbers[4]];
    const call = ToolCall.of(task, values[numbers[2]], contextAt(numbers[3]));
    inTask(task, numbers[1], false, fn, call, refusal);
  },

  /** Arguments. */
  work(): void {
    const task = currentTask() as Task;
    inTask(task, numbers[1], true, task.root.work as Callback, values[numbers[2]]);
  },

  /** Arguments, context. */
  tool(): void {
    const task = currentTask() as Task;
    const context = contextAt(numbers[3]) ?? EMPTY;
    inTask(task, numbers[1], true, values[numbers[0]] as Callback, values[numbers[2]], context);
  },

  /** Payload, resource. */
  sanitize(name: string): void {
    queued(4, name, values[numbers[2]]);
  },

  /** Fields, resource. */
  sanitizeEvent(event: string): void {
    queued(4, new AtofEvent(event), values[numbers[2]]);
  },

  /** Resource. */
  observe(event: string): void {
    queued(3, new AtofEvent(event));
  },

  /** Resource. */
  observeCall(record: string): void {
    queued(3, JSON.parse(record));
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
        signal: signal === NO_PLACE ? undefined : (values[signal] as ToolContext["signal"]),
        deadline,
      }),
    );
  },

  capture(): void {
    const place: Place | undefined = places.getStore();
    shared[Shared.Echo] = place === undefined ? 0 : place.echo;
    numbers[0] = put(new AsyncResource("CALLWEIR", { requireManualDestroy: true }));
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

connect(lent);
