/** Tasks: the promises of calls, and of each use of `next`, with the steps that Rust takes on them. */

import { AsyncResource } from "node:async_hooks";

import { checked, type How, native, numbers, put, reclaim, shared, Shared, Standing, values } from "./native";
import { type Place, ScopeHandle } from "./place";
import type { SignalLike } from "./types";

/**
 * Something with a promise that Rust works on. As a place it is the scope of its call.
 *
 * There is one for every stage of every call, so it has no private fields and no base class, which cost more.
 */
export class Task implements Place {
  /** How native functions know it: its place in the table, and one more; set when it begins. */
  number = 0;
  readonly echo: number;
  /** The task of the call itself. */
  readonly root: Task;
  /** Enters the context that the task waits in, when something else than a callback wakes it. */
  resource: AsyncResource | undefined = undefined;
  resolve: ((value: unknown) => void) | undefined = undefined;
  reject: ((error: unknown) => void) | undefined = undefined;
  promise: Promise<unknown> | undefined = undefined;
  private made: ScopeHandle | undefined = undefined;
  private signal: SignalLike | undefined = undefined;
  hasEnded = false;
  /** The id of the ended call, if anybody has seen it. */
  private seen: [number, number, number, number] | undefined = undefined;

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
    this.echo = around === undefined ? 0 : around.echo;
    this.root = parent === undefined ? this : parent.root;
  }

  scopeNumber(): number {
    return this.hasEnded ? this.handle().scopeNumber() : -this.number;
  }

  handle(): ScopeHandle {
    this.made ??= ScopeHandle.of(this.hasEnded ? this.endedScope() : this.openScope(), this.around, true);
    return this.made;
  }

  call(): ScopeHandle {
    return this.handle();
  }

  private openScope(): number {
    return checked(native.scopeOfTask(-this.number));
  }

  private endedScope(): number {
    const around = this.around === undefined ? 0 : this.around.scopeNumber();
    const seen = this.seen;
    return checked(native.endedScope(this.runtime, this.name, around, seen !== undefined, ...(seen ?? [])));
  }

  /** Lets a signal cancel the task, until it is over. */
  listen(signal: SignalLike): void {
    this.signal = signal;
    let listener = listeners.get(signal);
    if (listener === undefined) listeners.set(signal, (listener = new Listener(signal)));
    listener.add(this);
  }

  /** Says whether a thrown value is the reason of the signal of this task or one around it. */
  isReason(error: unknown): boolean {
    const signal = this.signal;
    if (signal !== undefined && signal.aborted && signal.reason === error) return true;
    return this !== this.root && this.root.isReason(error);
  }

  /** Returns what whoever awaits a cancelled task gets: the signal's reason, or Callweir's own error. */
  reason(own: unknown): unknown {
    const signal = this.signal ?? this.root.signal;
    return signal === undefined || !signal.aborted || ownSignals.has(signal) ? own : signal.reason;
  }

  over(): void {
    this.hasEnded = true;
    // The task lives on as a place: what still runs in its context must not keep the call's result.
    this.resolve = this.reject = this.promise = this.resource = undefined;
    if (shared[Shared.Seen] !== 0) {
      const id = Shared.Id;
      this.seen = [shared[id], shared[id + 1], shared[id + 2], shared[id + 3]];
    }
    if (this.signal !== undefined) listeners.get(this.signal)?.remove(this);
  }
}

/** The one listener of a signal: a listener for each of many calls would look like a leak. */
class Listener {
  readonly #signal: SignalLike;
  readonly #tasks = new Set<Task>();

  constructor(signal: SignalLike) {
    this.#signal = signal;
  }

  add(task: Task): void {
    if (this.#tasks.size === 0) this.#signal.addEventListener("abort", this.#fire);
    this.#tasks.add(task);
  }

  remove(task: Task): void {
    if (this.#tasks.delete(task) && this.#tasks.size === 0) this.#signal.removeEventListener("abort", this.#fire);
  }

  readonly #fire = (): void => {
    for (const task of this.#tasks) {
      // No later stage starts from here on. What ends in the same turn has still ended by itself.
      native.cancel(task.number, false);
      setImmediate(release, task);
    }
  };
}

const listeners = new WeakMap<object, Listener>();

/**
 * Keeps objects alive whose likes come and go with every call.
 *
 * The engine forgets the shape of objects when a full collection finds none of them, and throws away the code that it
 * has made for the shape: the calls after it would be some times as slow.
 */
export const SHAPES: object[] = [new Task(0, "", undefined, undefined, undefined, undefined)];

/** Signals of `Cancellation`: who waits gets Callweir's own error. */
export const ownSignals = new WeakSet<object>();

/** Carries out what Rust asks of a task: calls the callback, and says whether it has answered already. */
let callBack: (task: Task) => boolean;

/** Sets what calls callbacks; it is a module of its own, which needs this one. */
export function callBackWith(call: (task: Task) => boolean): void {
  callBack = call;
}

/** Calls callbacks until the task has to wait or is over. */
function run(task: Task, answer: unknown): unknown {
  while ((shared[Shared.Standing] as Standing) === Standing.Run) {
    const otherwise = shared[Shared.Otherwise];
    const more = shared[Shared.Actions];
    if (callBack(task)) {
      answer = native.settle();
    } else if (more > 0) {
      numbers[0] = task.number;
      answer = native.nextAction();
    } else {
      shared[Shared.Standing] = otherwise;
    }
  }
  return answer;
}

/** Begins a task with a native step, which is given the task's place and the rest, and returns its promise. */
export function begin<T>(
  task: Task,
  step: (object: number, a: any, b: any, c: any) => unknown,
  a?: unknown,
  b?: unknown,
  c?: unknown,
): Promise<T> {
  const object = put(task);
  task.number = object + 1;
  let answer: unknown;
  try {
    answer = run(task, step(object, a, b, c));
  } catch (error) {
    giveUp(task);
    return Promise.reject(error as Error);
  }
  switch (shared[Shared.Standing] as Standing) {
    case Standing.Done: {
      const value = values[numbers[0]];
      settled(task);
      return Promise.resolve(value as T);
    }
    case Standing.Plain:
      settled(task);
      return Promise.resolve(answer as T);
    case Standing.Failed:
    case Standing.Aborted:
      return Promise.reject(failure(task) as Error);
    default:
      if ((shared[Shared.Standing] as Standing) === Standing.Waiting) waitElsewhere(task);
      task.promise = new Promise<unknown>((resolve, reject) => {
        task.resolve = resolve;
        task.reject = reject;
      });
      after();
      return task.promise as Promise<T>;
  }
}

/** Gives up a task that cannot go on: only a stack without room comes to that. */
function giveUp(task: Task): void {
  numbers[0] = task.number;
  native.forgetTask();
  task.over();
}

/** Goes on with a task after a native step, and settles its promise if that was the last. */
function goOn(task: Task, step: unknown): void {
  let answer: unknown;
  try {
    answer = run(task, step);
  } catch (error) {
    const { reject } = task;
    giveUp(task);
    reject?.(error);
    return;
  }
  switch (shared[Shared.Standing] as Standing) {
    case Standing.Done: {
      const value = values[numbers[0]];
      const { resolve } = task;
      settled(task);
      resolve?.(value);
      return;
    }
    case Standing.Plain: {
      const { resolve } = task;
      settled(task);
      resolve?.(answer);
      return;
    }
    case Standing.Failed:
    case Standing.Aborted: {
      const { reject } = task;
      reject?.(failure(task));
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

/** Ends a failed task and returns what it failed with. */
function failure(task: Task): unknown {
  const error = values[numbers[0]];
  const thrown = (shared[Shared.Standing] as Standing) === Standing.Aborted ? task.reason(error) : error;
  // What waited inside the task fails with it, and for the same reason.
  if (shared[Shared.Abandoned] > 0) rejectAbandoned(task.root, thrown);
  settled(task);
  return thrown;
}

/** Writes a callback's answer for the native step that takes it. */
export function write(frame: number, how: How, value: unknown): void {
  const place = put(value);
  numbers[0] = frame;
  numbers[1] = how;
  numbers[2] = place;
}

/** Takes a callback's late answer: the task that waits for it goes on. */
export function settle(task: Task | undefined, frame: number, how: How, value: unknown): void {
  write(frame, how, value);
  const answer = native.settle();
  if (task !== undefined) {
    goOn(task, answer);
    return;
  }
  after();
  if (isStarved()) pump();
}

/** Lets go of who awaits a task whose signal has fired. */
function release(task: Task): void {
  if (task.hasEnded) return;
  native.cancel(task.number, true);
  poll(task);
}

/** Polls a task that something else than a callback has woken. */
function poll(task: Task): void {
  if (task.hasEnded) return;
  numbers[0] = task.number;
  goOn(task, native.poll());
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

/** What to do next, once the running code has returned: cheaper than `queueMicrotask`, which makes a resource. */
const soonest = Promise.resolve();

/** Does what native steps leave to do. */
export function after(): void {
  if (shared[Shared.Freed] > 0 || shared[Shared.More] !== 0) reclaim();
  if (shared[Shared.Woken] > 0) soonest.then(resumeWoken);
  if (shared[Shared.Abandoned] > 0) rejectAbandoned();
}

/** Polls the tasks that something else than a callback has woken. */
export function resumeWoken(): void {
  for (let place = native.nextWoken(); place !== undefined; place = native.nextWoken()) {
    const task = values[place] as Task;
    if (task.resource === undefined) poll(task);
    else task.resource.runInAsyncScope(poll, undefined, task);
  }
}

/** Rejects the promises of work that was given up, so that clean-up in it runs. */
function rejectAbandoned(root?: Task, failure?: unknown): void {
  for (let place = native.nextAbandoned(); place !== undefined; place = native.nextAbandoned()) {
    const task = values[place] as Task;
    // Whoever never looks at the promise did not ask for this failure.
    task.promise?.catch(() => undefined);
    const { reject } = task;
    task.over();
    reject?.(task.root === root ? failure : task.reason(cancelled()));
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

/** Whether the event loop has been asked for a turn, and has not come to it. */
let turnWanted = false;
/** How many calls have ended since the event loop last turned, or events were delivered without that. */
let endsSince = 0;
/** Whether the event loop has not turned while many calls ended. */
let starved = false;
/** How many calls may end before their events are delivered without waiting for the event loop to turn. */
const LAG = 16;
/** How long events are delivered in one go, in milliseconds. */
const TURN = 8;

/** Delivers events soon. */
export function soon(): void {
  if (turnWanted) return;
  turnWanted = true;
  setImmediate(turn);
}

/** Delivers events in a turn of the event loop. */
function turn(): void {
  turnWanted = false;
  starved = false;
  pump();
}

/** Says whether the program only awaits, so that its event loop does not turn. */
function isStarved(): boolean {
  return starved;
}

/** A program that only awaits never lets its event loop turn; then its events are delivered in between. */
function countEnd(): void {
  if (++endsSince >= LAG) {
    endsSince = 0;
    starved = turnWanted;
    soonest.then(pump);
  }
}

/** Delivers events for a while. */
export function pump(): void {
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
