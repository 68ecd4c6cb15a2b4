/** A tool call on its way in, and who makes it under which limits. */

import { signalOf, wrongArgument } from "./convert";
import type { Descriptor } from "./tool";
import type { Signal } from "./types";

/** What a context is made of. */
export interface ToolContextOptions {
  /** Who calls. */
  callerId?: string | undefined;
  /** Metadata of the run; it goes by reference. */
  metadata?: any;
  /** Cancels the call when it fires; whoever awaits the call gets the signal's reason. */
  signal?: Signal | undefined;
  /** How long the call may take from now on, in milliseconds. */
  deadline?: number | undefined;
}

/** Who makes a call and under which limits. Contexts are immutable. */
export class ToolContext {
  /** Who calls. */
  readonly callerId: string | undefined;
  /** Metadata of the run, the very value that was given. */
  readonly metadata: any;
  readonly #given: Signal | undefined;
  #signal: Signal | undefined;
  readonly #until: number | undefined;

  constructor(options: ToolContextOptions = {}) {
    const { callerId, metadata, signal, deadline } = options;
    if (callerId !== undefined && typeof callerId !== "string") wrongArgument("$.callerId", "expected a text");
    signalOf(signal);
    if (deadline !== undefined && (typeof deadline !== "number" || Number.isNaN(deadline))) {
      wrongArgument("$.deadline", "expected a number of milliseconds from now");
    }
    this.callerId = callerId;
    this.metadata = metadata;
    this.#given = signal;
    this.#until = deadline === undefined ? undefined : performance.now() + deadline;
  }

  /** @internal */
  static of(options: ToolContextOptions): ToolContext {
    return new ToolContext(options);
  }

  /** The signal that the context was made with. @internal */
  get given(): Signal | undefined {
    return this.#given;
  }

  /**
   * Fires when the call is cancelled, and when its deadline passes; hand it to what the tool starts.
   *
   * There always is one: that of a call without limits never fires.
   */
  get signal(): Signal {
    const left = this.deadline;
    if (left === undefined) return this.#given ?? (this.#signal ??= new AbortController().signal as Signal);
    this.#signal ??= firing(this.#given as AbortSignal | undefined, Math.max(0, left)) as Signal;
    return this.#signal;
  }

  /** Milliseconds left until the deadline; less than 0 when it has passed. */
  get deadline(): number | undefined {
    return this.#until === undefined ? undefined : this.#until - performance.now();
  }

  #edited(change: ToolContextOptions): ToolContext {
    const { callerId, metadata, deadline } = this;
    return new ToolContext({ callerId, metadata, signal: this.#given, deadline, ...change });
  }

  /** Returns a copy with another caller's id. */
  withCallerId(callerId: string): ToolContext {
    return this.#edited({ callerId });
  }

  /** Returns a copy with other metadata. */
  withMetadata(metadata: unknown): ToolContext {
    return this.#edited({ metadata });
  }

  /** Returns a copy with another signal. */
  withCancellation(signal: Signal): ToolContext {
    return this.#edited({ signal });
  }

  /** Returns a copy with a deadline in so many milliseconds, unless it has an earlier one. */
  withDeadline(deadline: number): ToolContext {
    return this.#edited({ deadline: Math.min(deadline, this.deadline ?? Infinity) });
  }
}

/** The longest time that a timer can be set to, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

/** The reasons of signals that fired at a deadline: who rejects with one was released by it. */
export const releases = new WeakSet<object>();

/** Returns a signal that fires with another one, or after a time. */
function firing(signal: AbortSignal | undefined, milliseconds: number): AbortSignal {
  const late = AbortSignal.timeout(Math.min(Math.ceil(milliseconds), LONGEST));
  late.addEventListener("abort", () => releases.add(late.reason as object));
  if (signal === undefined) return late;
  // Node 20.0 to 20.2 cannot join signals; there the deadline alone releases the caller.
  return typeof AbortSignal.any === "function" ? AbortSignal.any([signal, late]) : signal;
}

/** What a call is made of, to test a middleware alone. */
export interface ToolCallOptions<A = any> {
  name: string;
  arguments: A;
  context?: ToolContext | undefined;
  descriptor?: Descriptor | undefined;
}

interface Origin {
  name: string;
  keep: unknown;
}

/** One tool call on its way in. It is immutable: the `with...` methods return copies. */
export class ToolCall<A = any> {
  /** The tool's name; it cannot be changed. */
  readonly name: string;
  /** The arguments, as the stage before left them. */
  readonly arguments: A;
  /** Who makes the call. */
  readonly context: ToolContext;
  #descriptor: Descriptor | undefined;
  #origin: Origin | undefined;

  constructor(options: ToolCallOptions<A>) {
    this.name = options.name;
    this.arguments = options.arguments;
    this.context = options.context ?? new ToolContext();
    this.#descriptor = options.descriptor;
  }

  /** @internal */
  static of(origin: Origin, args: unknown, context: ToolContext | undefined): ToolCall {
    const call = new ToolCall({ name: origin.name, arguments: args, context });
    call.#origin = origin;
    return call;
  }

  /** The tool's manifest entry; undefined where the registry has no such tool. */
  get descriptor(): Descriptor | undefined {
    const registry = this.#origin?.keep as { descriptorOf?: (name: string) => Descriptor | undefined } | undefined;
    this.#descriptor ??= registry?.descriptorOf?.(this.name);
    return this.#descriptor;
  }

  #edited(change: Partial<ToolCallOptions<A>>): ToolCall<A> {
    const { name, context } = this;
    const call = new ToolCall<A>({ name, arguments: this.arguments, context, ...change });
    call.#origin = this.#origin;
    call.#descriptor = this.#descriptor;
    return call;
  }

  /** Returns the call with other arguments. */
  withArguments(args: A): ToolCall<A> {
    return this.#edited({ arguments: args });
  }

  /** Returns the call with another context; a later deadline than the present one is ignored. */
  withContext(context: ToolContext): ToolCall<A> {
    return this.#edited({ context });
  }

  /** Returns the call with another signal. */
  withCancellation(signal: Signal): ToolCall<A> {
    return this.withContext(this.context.withCancellation(signal));
  }
}
