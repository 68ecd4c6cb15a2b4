/** The types of callbacks and options. */

import type { AtofEvent } from "./events";
import type { ScopeHandle } from "./place";

/** A value, or a promise of one. */
export type Awaitable<T> = T | PromiseLike<T>;

/** The global `AbortSignal` where the program's libraries declare one. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer T } } ? T : SignalLike;

/** What the package needs of a signal. */
export interface SignalLike {
  /** Whether it has fired. */
  readonly aborted: boolean;
  /** What whoever awaits a cancelled call gets. */
  readonly reason: unknown;
  /** Calls the listener when the signal fires. */
  addEventListener(type: "abort", listener: () => void): void;
  /** Forgets a listener. */
  removeEventListener(type: "abort", listener: () => void): void;
}

/** What a guardrail decided, where nothing and a reason are not explicit enough. */
export class Verdict {
  private constructor(
    /** Whether the call goes on. */
    readonly allowed: boolean,
    /** Why not. */
    readonly reason: string,
  ) {}

  /** Lets the call go on. */
  static allow(): Verdict {
    return new Verdict(true, "");
  }

  /** Rejects the call. */
  static reject(reason: string): Verdict {
    return new Verdict(false, reason);
  }
}

/** A guardrail: nothing allows, a text rejects with that reason. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Gate<A = any> = (name: string, args: A) => Awaitable<string | Verdict | undefined | null | void>;

/** A request intercept or sanitizer: what it returns takes the place of what it got. */
export type Transform<A = any> = (name: string, args: A) => Awaitable<unknown>;

/** The rest of a chain; without an argument it goes on with what the callback got. */
export type Next<A = any, R = any> = (args?: A) => Promise<R>;

/** An execution intercept: what it returns is the result of the call. */
export type Around<A = any, R = any> = (name: string, args: A, next: Next<A, R>) => Awaitable<unknown>;

/** The three fields of an event that sanitizers may change, under their names in the wire format. */
export interface EventFields {
  data: any;
  category_profile: any;
  metadata: any;
}

/** An event sanitizer: what it returns takes the place of the three fields. */
export type EventTransform = (event: AtofEvent, fields: EventFields) => Awaitable<Partial<EventFields> | undefined | null | void>;

/** A callback of a model call, which can be registered but is not run yet. */
export type ModelCallback = (...given: any[]) => any;

/** How an entry is registered. */
export interface EntryOptions {
  /** The open scope that owns the entry; without one it is global. */
  scope?: ScopeHandle | undefined;
}

/** How an entry is registered by the generic form. */
export interface RegisterOptions extends EntryOptions {
  /** Lower runs first, then the name byte by byte; a 32-bit integer, 0 by default. */
  priority?: number | undefined;
  /** Whether later request intercepts are skipped once this one has run. */
  breakChain?: boolean | undefined;
}

/** A line of `explain` or `registrations`. */
export interface Registration {
  /** The family's wire name, `middleware` or `subscriber`. */
  stage: string;
  name: string;
  /** Who owns it: nobody (`global`), a scope, a component, or a registry. */
  level: string;
  owner: string | null;
  priority: number;
}
