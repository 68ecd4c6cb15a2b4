/** Tasks: the promises of calls, and of each use of `next`, with the steps that Rust takes on them. */

import { AsyncResource } from "node:async_hooks";

import { checked, native, put, reclaim, shared, Shared, Standing, values } from "./native";
import { Place, ScopeHandle } from "./place";
import type { SignalLike } from "./types";

let lastNumber = 0;

/** The task whose callbacks Rust is calling. */
let current: Task | undefined;

/** Returns the task whose callbacks Rust is calling. */
export function currentTask(): Task | undefined {
  return current;
}

/** Something with a promise that Rust works on. As a place it is the scope of its call. */
export class Task extends Place {
  readonly number = ++lastNumber;
  readonly echo: number;
  /** The task of the call itself. */
  readonly root: Task;
  /** Enters the context that the task waits in, when something else than a callback wakes it. */
  resource: AsyncResource | undefined;
  resolve: ((value: unknown) => void) | undefined;
  reject: ((error: unknown) => void) | undefined;
  promise: Promise<unknown> | undefined;
  #handle: ScopeHandle | undefined;
  #signal: SignalLike | undefined;
  #onAbort: (() => void) | undefined;
  #isOver = false;
  /** The id of the ended call, if anybody has seen it. */
  #seen: [number, number, number, number] | undefined;

  constructor(
    readonly runtime: number,
    readonly name: string,
    readonly around: Place | undefined,
    parent: Task | undefined,
    /** The work of a call, kept here so that it needs no place in the table. */
    readonly work: ((args: unknown) => unknown) | undefined,
    /** What must live as long as the call does, such as its registry. */
    readonly keep: unknown,
  ) {
    super();
    this.echo = around === undefined ? 0 : around.echo;
    this.root = parent === undefined ? this : parent.root;
  }

  scopeNumber(): number {
    return this.#isOver ? this.handle().scopeNumber() : -this.number;
  }

  handle(): ScopeHandle {
    this.#handle ??= new ScopeHandle(this.#isOver ? this.#endedScope() : this.#openScope(), this.around, true);
    return this.#handle;
  }

  call(): ScopeHandle {
    return this.handle();
  }

  #openScope(): number {
    return checked(native.scopeOfTask(-this.number));
  }

  #endedScope(): number {
    const around = this.around === undefined ? 0 : this.around.scopeNumber();
    const seen = this.#seen;
    return checked(native.endedScope(this.runtime, this.name, around, seen !== undefined, ...(seen ?? [])));
  }

  /** Lets a signal cancel the task, until it is over. */
  listen(signal: SignalLike): void {
    this.#signal = signal;
    this.#onAbort = () => {
      native.cancel(this.number);
      resume(this, native.poll, this.number);
    };
    signal.addEventListener("abort", this.#onAbort);
  }

  /** Says whether a thrown value is the reason of the signal of this task or one around it. */
  isReason(error: unknown): boolean {
    const signal = this.#signal;
    if (signal !== undefined && signal.aborted && signal.reason === error) return true;
    return this !== this.root && this.root.isReason(error);
  }

  /** Returns what whoever awaits a cancelled task gets: the signal's reason, or Callweir's own error. */
  reason(own: unknown): unknown {
    const signal = this.#signal ?? this.root.#signal;
    return signal === undefined || !signal.aborted || ownSignals.has(signal) ? own : signal.reason;
  }

  over(): void {
    this.#isOver = true;
    if (shared[Shared.Seen] !== 0) {
      const id = Shared.Id;
      this.#seen = [shared[id], shared[id + 1], shared[id + 2], shared[id + 3]];
    }
    if (this.#signal !== undefined && this.#onAbort !== undefined) {
      this.#signal.removeEventListener("abort", this.#onAbort);
    }
  }
}

/** Signals of `Cancellation`: who waits gets Callweir's own error. */
export const ownSignals = new WeakSet<object>();

type Step = (a: number, b: number, c: number) => unknown;

/** Begins a task with a native step, and returns its promise. */
export function begin<T>(task: Task, step: (object: number) => unknown): Promise<T> {
  const before = current;
  current = task;
  const answer = step(put(task));
  current = before;
  switch (shared[Shared.Standing] as Standing) {
    case Standing.Done: {
      const value = values[answer as number];
      settled(task);
      return Promise.resolve(value as T);
    }
    case Standing.Plain:
      settled(task);
      return Promise.resolve(answer as T);
    case Standing.Failed: {
      const error = values[answer as number];
      settled(task);
      return Promise.reject(error);
    }
    case Standing.Aborted: {
      const error = task.reason(values[answer as number]);
      settled(task);
      return Promise.reject(error);
    }
    default:
      task.promise = new Promise<unknown>((resolve, reject) => {
        task.resolve = resolve;
        task.reject = reject;
      });
      if ((shared[Shared.Standing] as Standing) === Standing.Waiting) waitElsewhere(task);
      after();
      return task.promise as Promise<T>;
  }
}

/** Takes another native step on a task, and settles its promise if that was the last. */
export function resume(task: Task, step: Step, a: number, b = 0, c = 0): void {
  const before = current;
  current = task;
  const answer = step(a, b, c);
  current = before;
  switch (shared[Shared.Standing] as Standing) {
    case Standing.Done: {
      const value = values[answer as number];
      settled(task);
      task.resolve?.(value);
      return;
    }
    case Standing.Plain:
      settled(task);
      task.resolve?.(answer);
      return;
    case Standing.Failed: {
      const error = values[answer as number];
      settled(task);
      task.reject?.(error);
      return;
    }
    case Standing.Aborted: {
      const error = task.reason(values[answer as number]);
      settled(task);
      task.reject?.(error);
      return;
    }
    case Standing.Waiting:
      waitElsewhere(task);
      after();
      return;
    default:
      after();
  }
}

/** Keeps the context of a task that something else than a callback will wake. */
function waitElsewhere(task: Task): void {
  task.resource ??= new AsyncResource("CALLWEIR", { requireManualDestroy: true });
}

function settled(task: Task): void {
  task.over();
  if (task === task.root) countEnd();
  after();
}

/** Does what native steps leave to do. */
export function after(): void {
  if (shared[Shared.Freed] > 0 || shared[Shared.More] !== 0) reclaim();
  if (shared[Shared.Woken] > 0) queueMicrotask(resumeWoken);
  if (shared[Shared.Abandoned] > 0) rejectAbandoned();
}

/** Polls the tasks that something else than a callback has woken. */
export function resumeWoken(): void {
  for (let place = native.nextWoken(); place !== undefined; place = native.nextWoken()) {
    const task = values[place] as Task;
    const poll = () => resume(task, native.poll, task.number);
    if (task.resource === undefined) poll();
    else task.resource.runInAsyncScope(poll);
  }
}

/** Rejects the promises of work that was given up, so that clean-up in it runs. */
function rejectAbandoned(): void {
  for (let place = native.nextAbandoned(); place !== undefined; place = native.nextAbandoned()) {
    const task = values[place] as Task;
    // Whoever never looks at the promise did not ask for this failure.
    task.promise?.catch(() => undefined);
    task.over();
    task.reject?.(task.reason(cancelled()));
  }
  reclaim();
}

/** Makes Callweir's own error of a cancelled call. */
export function cancelled(): unknown {
  try {
    return checked(native.cancelledError());
  } catch (error) {
    return error;
  }
}

let drainWanted = false;
let endsSince = 0;
/** How many calls may end before their events are delivered without waiting for the event loop to turn. */
const LAG = 64;
/** How long events are delivered in one go, in milliseconds. */
const TURN = 8;

/** Delivers events soon. */
export function soon(): void {
  if (drainWanted) return;
  drainWanted = true;
  endsSince = 0;
  setImmediate(pump);
}

/** A program that only awaits never lets its event loop turn; then its events are delivered in between. */
function countEnd(): void {
  if (drainWanted && ++endsSince >= LAG) {
    endsSince = 0;
    queueMicrotask(pump);
  }
}

/** Delivers events for a while. */
export function pump(): void {
  drainWanted = false;
  const until = performance.now() + TURN;
  while (native.drain() > 0) {
    after();
    if (performance.now() > until) {
      soon();
      return;
    }
  }
  after();
}
