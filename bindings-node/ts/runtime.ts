/** Runtimes: registrations, scopes and the dispatcher that belong together. */

import { ManualCall, type ManualOptions } from "./manual";
import { functionOf, jsonText, maybeTextOf, signalOf, textOf, timeoutOf, timestampOf, wrongArgument } from "./convert";
import type { AtofEvent, CallRecord } from "./events";
import type { Family, FamilyCallbacks } from "./generated/families";
import type { ScopeType } from "./generated/names";
import { checked, native, NO_PLACE, numbers, put, putMaybe, whenCollected } from "./native";
import { currentNumber, numberOf, ownerOf, places, ScopeHandle } from "./place";
import { deliverAtExit } from "./process";
import { begin, pump, Task } from "./task";
import type { Awaitable, EntryOptions, RegisterOptions, Registration, Signal } from "./types";

/** The settings of a runtime. Times are in milliseconds. */
export interface Settings {
  /** Converts values that JSON has no form for, such as a `Map`. */
  default?: ((value: unknown) => unknown) | undefined;
  /** How many events may wait; 32,768 by default. Beyond it pairs of events are dropped and counted. */
  queueEvents?: number | undefined;
  /** How many bytes may wait; 64 MiB by default. Beyond it events come without their payload. */
  queueBytes?: number | undefined;
  /** How long one sanitizer or subscriber may take for one event; 10,000 by default. */
  sanitizerTimeout?: number | undefined;
  /** Headers that are removed from observed requests beside the built-in ones. */
  credentialHeaders?: Iterable<string> | undefined;
  /** Whether end events carry the text of errors, which may hold secrets. */
  errorText?: boolean | undefined;
}

/** What a managed call may be given beside its arguments. */
export interface ExecuteOptions {
  /** Free metadata for start and end event. */
  metadata?: unknown;
  /** The id that the model gave the call. */
  toolCallId?: string | undefined;
  /** Cancels the call when it fires; whoever awaits the call gets the signal's reason. */
  signal?: Signal | undefined;
}

/** How a scope is opened. */
export interface ScopeOptions {
  /** The type; `function` by default. */
  type?: ScopeType | undefined;
  /** The scope around it; the current one by default. */
  parent?: ScopeHandle | undefined;
  /** The input, shown as the start event's `data`. */
  input?: unknown;
  /** Free metadata of the start event. */
  metadata?: unknown;
  /** Flags such as `parallel`, `remote` and `stateful`. */
  attributes?: readonly string[] | undefined;
  /** The schema of input and output. */
  dataSchema?: unknown;
  /** When it started, as a `Date` or in milliseconds since 1970; now if absent. */
  timestamp?: Date | number | undefined;
}

/** What a mark may be given beside its data. */
export interface MarkOptions {
  /** Free metadata. */
  metadata?: unknown;
  /** The scope that it belongs to; the current one by default. */
  scope?: ScopeHandle | undefined;
  /** The schema of the data. */
  dataSchema?: unknown;
  /** When it happened, as a `Date` or in milliseconds since 1970; now if absent. */
  timestamp?: Date | number | undefined;
}

/** The counters of a runtime's dispatcher. */
export interface Counts {
  /** Events emitted and not yet delivered. */
  pending: number;
  /** Bytes that these hold, estimated. */
  pendingBytes: number;
  /** Events dropped because the queue was full. */
  dropped: number;
  /** Events that an overrun subscriber did not get. */
  skipped: number;
  /** Failures of sanitizers and subscribers. */
  failures: number;
}

const runtimes = whenCollected((id) => native.forgetRuntime(id));

function settingsText(settings: Settings): string {
  const { default: _, credentialHeaders, ...plain } = settings;
  const counts: [string, unknown][] = [
    ["queueEvents", plain.queueEvents],
    ["queueBytes", plain.queueBytes],
  ];
  for (const [name, value] of counts) {
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 0)) {
      wrongArgument(`$.${name}`, "expected a whole number, 0 or more");
    }
  }
  timeoutOf(plain.sanitizerTimeout);
  return JSON.stringify({ ...plain, credentialHeaders: credentialHeaders && [...credentialHeaders] });
}

function convertOf(settings: Settings): number {
  return settings.default === undefined ? NO_PLACE : put(functionOf(settings.default, "the converter"));
}

/** Writes what every managed call is given. */
function give(object: number, runtime: number, args: unknown): void {
  const parent = currentNumber();
  const place = put(args);
  numbers[0] = object;
  numbers[1] = runtime;
  numbers[2] = place;
  numbers[3] = parent;
}

function executeStep(object: number, runtime: number, name: string, args: unknown): unknown {
  give(object, runtime, args);
  return native.execute(name);
}

/** Registrations, scopes and the dispatcher that belong together. Two runtimes share nothing. */
export class Runtime {
  /** How native functions know it. @internal */
  readonly number: number;
  #convert: ((value: unknown) => unknown) | undefined;

  constructor(settings: Settings = {}) {
    const text = settingsText(settings);
    this.number = checked(native.makeRuntime(text, convertOf(settings)));
    this.#convert = settings.default;
    runtimes.register(this, this.number);
    deliverAtExit(this);
  }

  /** Returns the runtime that the module-level functions use: one for each thread. */
  static default(): Runtime {
    return defaultRuntime();
  }

  /** Changes the settings that are given. */
  configure(settings: Settings): void {
    checked(native.configure(this.number, settingsText(settings), convertOf(settings)));
    this.#convert = settings.default ?? this.#convert;
  }

  /** Writes what the program gives for events as JSON text. @internal */
  json(value: unknown): string | undefined {
    return jsonText(value, this.#convert);
  }

  /** Registers a callback of a family. A taken name is `AlreadyExists`, and the first entry stays. */
  register<F extends Family>(family: F, name: string, fn: FamilyCallbacks[F], options: RegisterOptions = {}): void {
    const { priority = 0, scope, breakChain = false } = options;
    functionOf(fn, `the callback of ${family} '${name}'`);
    if ((priority | 0) !== priority) wrongArgument("$.priority", "expected a 32-bit integer");
    const owner = ownerOf(scope);
    checked(
      native.register(this.number, family, textOf(name, "a name"), put(fn), priority, owner, breakChain),
    );
  }

  /** Removes a callback; returns whether it was there. */
  deregister(family: Family, name: string, options: EntryOptions = {}): boolean {
    return checked(native.deregister(this.number, family, name, ownerOf(options.scope))) === 1;
  }

  /** Registers a subscriber of events. */
  subscribe(name: string, fn: (event: AtofEvent) => Awaitable<unknown>, options: EntryOptions = {}): void {
    this.#subscribe(name, fn, options, false);
  }

  /** Registers a subscriber of typed records of registry calls, which never carry arguments or results. */
  subscribeCalls(name: string, fn: (record: CallRecord) => Awaitable<unknown>, options: EntryOptions = {}): void {
    this.#subscribe(name, fn, options, true);
  }

  #subscribe(name: string, fn: unknown, options: EntryOptions, typed: boolean): void {
    functionOf(fn, `the subscriber '${name}'`);
    checked(native.subscribe(this.number, textOf(name, "a name"), put(fn), ownerOf(options.scope), typed));
  }

  /** Removes a subscriber; returns whether it was there. What was emitted before is still delivered to it. */
  unsubscribe(name: string, options: EntryOptions = {}): boolean {
    return checked(native.unsubscribe(this.number, name, ownerOf(options.scope))) === 1;
  }

  /** Appends every event to a file, one a line, as the subscriber `name`. */
  exportJsonl(path: string, options: { name?: string | undefined } = {}): void {
    checked(native.exportJsonl(this.number, textOf(path, "a path"), options.name ?? "jsonl"));
  }

  /** Makes a managed tool call; see `tools.execute`. */
  execute<A, R>(
    name: string,
    args: A,
    fn: (args: A) => R,
    options?: ExecuteOptions,
  ): Promise<Awaited<R>> {
    if (typeof name !== "string" || typeof fn !== "function") {
      const wrong = typeof name !== "string" ? "a call's name is not a string" : "a call's work is not a function";
      return Promise.reject(new TypeError(wrong));
    }
    const work = fn as (args: unknown) => unknown;
    const task = new Task(this.number, name, places.getStore(), undefined, work, undefined);
    if (options !== undefined) return this.#executeWith(task, args, options);
    return begin(task, executeStep, this.number, name, args);
  }

  #executeWith<R>(task: Task, args: unknown, options: ExecuteOptions): Promise<R> {
    try {
      const metadata = this.json(options.metadata);
      const toolCallId = maybeTextOf(options.toolCallId, "a tool call's id");
      const signal = signalOf(options.signal);
      if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
      if (signal !== undefined) task.listen(signal);
      return begin<R>(task, (object) => {
        const { name } = task;
        const place = putMaybe(signal);
        give(object, this.number, args);
        // The signal stands where a context has it.
        return native.executeWith(name, undefined, NO_PLACE, place, undefined, metadata, toolCallId);
      });
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Runs the guardrails of a tool call, with their events, and nothing else; a rejection is `CallRejected`. */
  async conditionalExecution(name: string, args: unknown): Promise<void> {
    await this.#helper(name, args, true);
  }

  /** Runs the request intercepts of a tool call and gives the arguments; emits nothing. */
  requestIntercepts<A>(name: string, args: A): Promise<A> {
    return this.#helper(name, args, false);
  }

  #helper<R>(name: string, args: unknown, guards: boolean): Promise<R> {
    if (typeof name !== "string") return Promise.reject(new TypeError("a call's name is not a string"));
    const task = new Task(this.number, name, places.getStore(), undefined, undefined, undefined);
    return begin<R>(task, (object) =>
      native.helper(object, this.number, name, put(args), currentNumber(), guards),
    );
  }

  /** Starts a call that the program runs itself. */
  startCall(name: string, args: unknown, options: ManualOptions = {}): ManualCall {
    const id = checked(
      native.startCall(
        this.number,
        textOf(name, "a call's name"),
        put(args),
        numberOf(options.scope),
        this.json(options.metadata),
        maybeTextOf(options.toolCallId, "a tool call's id"),
        this.json(options.attributes),
        timestampOf(options.timestamp),
      ),
    );
    return ManualCall.of(id, options.scope ?? places.getStore());
  }

  /** Opens a scope; it is not made current. */
  openScope(name: string, options: ScopeOptions = {}): ScopeHandle {
    const { type = "function", parent, input, metadata, attributes, dataSchema, timestamp } = options;
    const id = checked(
      native.openScope(
        this.number,
        textOf(name, "a scope's name"),
        type,
        numberOf(parent),
        this.json(input),
        this.json(metadata),
        this.json(attributes),
        this.json(dataSchema),
        timestampOf(timestamp),
      ),
    );
    return ScopeHandle.of(id, parent ?? places.getStore(), false, (value) => this.json(value));
  }

  /** Emits a mark. */
  mark(name: string, data?: unknown, options: MarkOptions = {}): void {
    checked(
      native.mark(
        this.number,
        textOf(name, "a mark's name"),
        this.json(data),
        this.json(options.metadata),
        numberOf(options.scope),
        this.json(options.dataSchema),
        timestampOf(options.timestamp),
      ),
    );
  }

  /** Returns a scope that stands for one of another process; what `propagation` did not give is `InvalidArgument`. */
  attach(value: unknown): ScopeHandle {
    const id = checked(native.attach(this.number, this.json(value) ?? "null"));
    return ScopeHandle.of(id, undefined, false);
  }

  /**
   * Waits until everything emitted before is delivered; gives how many events are still pending, 0 if none.
   *
   * In a sanitizer or subscriber it is `WouldDeadlock`.
   */
  flush(timeout?: number): Promise<number> {
    return this.#flush(timeout, false);
  }

  /**
   * Ends what is open, delivers what is queued and stops, within `timeout` milliseconds; gives how many events were
   * not delivered. Calls and registrations fail with `ShutDown` from then on; a second shutdown does nothing.
   */
  shutdown(timeout = 5000): Promise<number> {
    return this.#flush(timeout, true);
  }

  #flush(timeout: number | undefined, stops: boolean): Promise<number> {
    try {
      timeoutOf(timeout);
      const inside = (places.getStore()?.echo ?? 0) > 0;
      const task = new Task(this.number, "flush", places.getStore(), undefined, undefined, this);
      const waiting = begin<number>(task, (object) =>
        native.flush(object, this.number, timeout, stops, inside),
      );
      if (!inside) pump();
      return waiting;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Whether the runtime has been shut down. */
  get isShut(): boolean {
    return checked(native.isShut(this.number)) === 1;
  }

  /** Lists what is installed, with its owners. */
  registrations(): Registration[] {
    return JSON.parse(checked(native.registrations(this.number))) as Registration[];
  }

  /** Lists what applies to a call of `kind` made here, in the order in which it runs. */
  explain(kind: "tool" | "llm", name: string, options: EntryOptions = {}): Registration[] {
    textOf(name, "a call's name");
    return JSON.parse(checked(native.explain(this.number, kind, numberOf(options.scope)))) as Registration[];
  }

  /** Returns the dispatcher's counters. */
  counts(): Counts {
    return JSON.parse(checked(native.counts(this.number))) as Counts;
  }
}

let made: Runtime | undefined;

/** Returns the runtime that the module-level functions use, made when first asked for. */
export function defaultRuntime(): Runtime {
  made ??= new Runtime();
  return made;
}
