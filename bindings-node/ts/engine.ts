/** The functions that Rust calls: each calls one callback, and says how it answered. */

import { AsyncResource } from "node:async_hooks";

import { EMPTY, ToolCall, ToolContext } from "./context";
import { AtofEvent } from "./events";
import { buildError, CallweirError, fieldsOf } from "./generated/errors";
import { connect, How, native, NO_PLACE, put, shared, Shared, values } from "./native";
import { Place, places, Queued } from "./place";
import { after, begin, currentTask, pump, resume, resumeWoken, soon, Task } from "./task";
import { type EventFields, type SignalLike, Verdict } from "./types";
import { isolate, keysOf, parse, Refused, stringify, typeName } from "./value";

type Callback = (...given: unknown[]) => unknown;

const then = Promise.prototype.then;

/** Answers with what a callback returned: at once, or later if it has to be awaited. */
function answer(value: unknown, frame: number, task: Task | undefined): number {
  if (typeof value === "object" ? value !== null : typeof value === "function") {
    if (value instanceof Promise) return later(value, frame, task);
    const method = (value as { then?: unknown }).then;
    if (typeof method === "function") {
      const promise = new Promise((resolve, reject) => method.call(value, resolve, reject));
      return later(promise, frame, task);
    }
  }
  shared[Shared.How] = howOf(value);
  return put(value);
}

function howOf(value: unknown): How {
  if (value === undefined || value === null) return How.Nothing;
  return typeof value === "string" ? How.Text : How.Value;
}

function later(promise: Promise<unknown>, frame: number, task: Task | undefined): number {
  then.call(
    promise,
    (value) => settle(task, frame, howOf(value), value),
    (error: unknown) => settle(task, frame, howThrown(error, task), error),
  );
  shared[Shared.How] = How.Pending;
  return 0;
}

function settle(task: Task | undefined, frame: number, how: How, value: unknown): void {
  if (task !== undefined) {
    resume(task, native.settle, frame, how, put(value));
    return;
  }
  native.settle(frame, how, put(value));
  after();
}

function howThrown(error: unknown, task: Task | undefined): How {
  return task !== undefined && task.isReason(error) ? How.Aborted : How.Thrown;
}

/** Answers with what a callback threw. */
function thrown(error: unknown, task: Task | undefined): number {
  shared[Shared.How] = howThrown(error, task);
  return put(error);
}

/** Calls a callback of a call where its own scope is the current one; inside a `next` it is already. */
function inCall(task: Task, fn: Callback, ...given: unknown[]): unknown {
  return task === task.root ? places.run(task, fn, ...given) : fn(...given);
}

/** Runs the rest of a chain. */
function proceed(parent: Task, frame: number, given: number, context?: ToolContext): Promise<unknown> {
  const task = new Task(parent.runtime, parent.name, places.getStore(), parent, undefined, parent.keep);
  const signal = context?.signal as SignalLike | undefined;
  if (signal !== undefined) {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    task.listen(signal);
  }
  return begin(task, (object) =>
    native.proceed(task.number, object, frame, given, context !== undefined, ...contextParts(context)),
  );
}

/** Returns a context as native functions take it. */
export function contextParts(context: ToolContext | undefined): unknown[] {
  if (context === undefined) return [];
  const { callerId, metadata, signal, deadline } = context;
  return [
    callerId,
    metadata === undefined ? NO_PLACE : put(metadata),
    signal === undefined ? NO_PLACE : put(signal),
    deadline,
  ];
}

/** Calls a queued callback in the context in which its event was emitted. */
function inContext(resource: number, fn: Callback, ...given: unknown[]): unknown {
  const call = () => places.run(new Queued(places.getStore()), fn, ...given);
  if (resource === NO_PLACE) return call();
  return (values[resource] as AsyncResource).runInAsyncScope(call);
}

const lent = {
  gate(fn: number, frame: number, args: number): number {
    const task = currentTask() as Task;
    try {
      return answer((values[fn] as Callback)(task.name, values[args]), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  transform(fn: number, frame: number, payload: number): number {
    const task = currentTask() as Task;
    try {
      return answer((values[fn] as Callback)(task.name, values[payload]), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  around(fn: number, frame: number, args: number): number {
    const task = currentTask() as Task;
    const own = values[args];
    const next = (...given: unknown[]) =>
      proceed(task, frame, given.length === 0 || given[0] === own ? NO_PLACE : put(given[0]));
    try {
      return answer(inCall(task, values[fn] as Callback, task.name, own, next), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  middleware(fn: number, frame: number, args: number, context: number): number {
    const task = currentTask() as Task;
    const call = ToolCall.of(task, values[args], contextAt(context));
    const next = (given: unknown) => {
      if (given === undefined || given === call) return proceed(task, frame, NO_PLACE);
      if (!(given instanceof ToolCall)) {
        const text = "next() takes the ToolCall that the middleware got, or an edited copy of it";
        return Promise.reject(new TypeError(text));
      }
      const args = given.arguments === call.arguments ? NO_PLACE : put(given.arguments);
      return proceed(task, frame, args, given.context === call.context ? undefined : given.context);
    };
    try {
      const value = inCall(task, values[fn] as Callback, call, next);
      return answerDenial(value, frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  refused(fn: number, frame: number, args: number, context: number, refusal: number): number {
    const task = currentTask() as Task;
    const error = values[refusal];
    try {
      const call = ToolCall.of(task, values[args], contextAt(context));
      return answer((values[fn] as Callback)(call, error), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  work(_: number, frame: number, args: number): number {
    const task = currentTask() as Task;
    try {
      return answer(inCall(task, task.root.work as Callback, values[args]), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  tool(fn: number, frame: number, args: number, context: number): number {
    const task = currentTask() as Task;
    try {
      const given = contextAt(context) ?? EMPTY;
      return answer(inCall(task, values[fn] as Callback, values[args], given), frame, task);
    } catch (error) {
      return thrown(error, task);
    }
  },

  sanitize(fn: number, frame: number, payload: number, resource: number, name: string): number {
    try {
      return answer(inContext(resource, values[fn] as Callback, name, values[payload]), frame, undefined);
    } catch (error) {
      return thrown(error, undefined);
    }
  },

  sanitizeEvent(fn: number, frame: number, fields: number, resource: number, event: string): number {
    try {
      const given = values[fields] as EventFields;
      return answer(inContext(resource, values[fn] as Callback, new AtofEvent(event), given), frame, undefined);
    } catch (error) {
      return thrown(error, undefined);
    }
  },

  observe(fn: number, frame: number, resource: number, event: string): number {
    try {
      return answer(inContext(resource, values[fn] as Callback, new AtofEvent(event)), frame, undefined);
    } catch (error) {
      return thrown(error, undefined);
    }
  },

  observeCall(fn: number, frame: number, resource: number, record: string): number {
    try {
      return answer(inContext(resource, values[fn] as Callback, JSON.parse(record)), frame, undefined);
    } catch (error) {
      return thrown(error, undefined);
    }
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

  isolate: (value: number): number => put(isolate(values[value])),

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

  capture(): number {
    const place: Place | undefined = places.getStore();
    shared[Shared.Echo] = place === undefined ? 0 : place.echo;
    return put(new AsyncResource("CALLWEIR", { requireManualDestroy: true }));
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

/** Like `answer`, and tells a denial that was returned apart from a result. */
function answerDenial(value: unknown, frame: number, task: Task): number {
  const place = answer(value, frame, task);
  if (value instanceof CallweirError && shared[Shared.How] === How.Value) shared[Shared.How] = How.Denial;
  return place;
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
