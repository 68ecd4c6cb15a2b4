/** Where code runs: inside a scope, a call, or a queued callback. The place travels with the asynchronous context. */

import { AsyncLocalStorage } from "node:async_hooks";

import { checked, native, NO_PLACE, put, whenCollected } from "./native";
import type { Outcome, ScopeType } from "./generated/names";
import { jsonText, timestampOf } from "./convert";

/** The places of the running code; each is immutable, so that siblings cannot disturb each other. @internal */
export const places = new AsyncLocalStorage<Place | undefined>();

/** A place. */
export interface Place {
  /** How many callbacks of the dispatcher lie behind it. @internal */
  readonly echo: number;
  /** The place around it. @internal */
  readonly around: Place | undefined;
  /** Returns how native functions know its scope: an id, a negative task number, or 0 for none. @internal */
  scopeNumber(): number;
  /** Returns the innermost scope. @internal */
  handle(): ScopeHandle | undefined;
  /** Returns the innermost call. @internal */
  call(): ScopeHandle | undefined;
}

/** Returns how native functions know the current scope. @internal */
export function currentNumber(): number {
  const place = places.getStore();
  return place === undefined ? 0 : place.scopeNumber();
}

/** Returns how native functions know a scope that was given, or the current one. @internal */
export function numberOf(scope: ScopeHandle | undefined): number {
  return scope === undefined ? currentNumber() : scope.scopeNumber();
}

/** Returns how native functions know a scope that was given, or none. @internal */
export function ownerOf(scope: ScopeHandle | undefined): number {
  return scope === undefined ? 0 : scope.scopeNumber();
}

const scopes = whenCollected((id) => native.forgetScope(id));

interface Facts {
  uuid: string;
  name: string;
  type: ScopeType;
  parentUuid: string | null;
}

/** How a scope is closed. */
export interface CloseOptions {
  /** Free metadata of the end event. */
  metadata?: unknown;
  /** How it ended; by default what the error says, or succeeded. */
  outcome?: Outcome | undefined;
  /** What it failed with: the end event shows the type. */
  error?: unknown;
  /** When it ended, as a `Date` or in milliseconds since 1970; now if absent. */
  timestamp?: Date | number | undefined;
}

/** A handle of a scope. There is one for each scope. */
export class ScopeHandle implements Place {
  readonly #echo: number;
  readonly #id: number;
  readonly #around: Place | undefined;
  readonly #isCall: boolean;
  readonly #json: typeof jsonText;
  #facts: Facts | undefined;
  #output: unknown;

  private constructor(id: number, around: Place | undefined, isCall: boolean, json: typeof jsonText) {
    this.#echo = around === undefined ? 0 : around.echo;
    this.#id = id;
    this.#around = around;
    this.#isCall = isCall;
    this.#json = json;
    scopes.register(this, id);
  }

  /** @internal */
  static of(id: number, around: Place | undefined, isCall: boolean, json = jsonText): ScopeHandle {
    return new ScopeHandle(id, around, isCall, json);
  }

  /** @internal */
  get echo(): number {
    return this.#echo;
  }

  /** @internal */
  get around(): Place | undefined {
    return this.#around;
  }

  /** @internal */
  scopeNumber(): number {
    return this.#id;
  }

  /** @internal */
  handle(): ScopeHandle {
    return this;
  }

  /** @internal */
  call(): ScopeHandle | undefined {
    // A loop: scopes may be nested deeper than functions can call each other.
    let place: Place | undefined = this;
    while (place instanceof ScopeHandle) {
      if (place.#isCall) return place;
      place = place.#around;
    }
    return place?.call();
  }

  get #known(): Facts {
    this.#facts ??= JSON.parse(checked(native.scopeFacts(this.#id))) as Facts;
    return this.#facts;
  }

  /** The id. */
  get uuid(): string {
    return this.#known.uuid;
  }

  /** The name. */
  get name(): string {
    return this.#known.name;
  }

  /** The type. */
  get scopeType(): ScopeType {
    return this.#known.type;
  }

  /** The id of the scope around it. */
  get parentUuid(): string | null {
    return this.#known.parentUuid;
  }

  /** The scope around it. */
  get parent(): ScopeHandle | undefined {
    return this.#around?.handle();
  }

  /** Whether it has not ended yet. */
  get isOpen(): boolean {
    return checked(native.scopeIsOpen(this.#id)) === 1;
  }

  /** Closes the scope; what is open inside ends first, as abandoned. Closing a closed scope does nothing. */
  close(output?: unknown, options?: CloseOptions): void {
    const { metadata, outcome, timestamp } = options ?? {};
    const failed = options !== undefined && "error" in options;
    checked(
      native.closeScope(
        this.#id,
        this.#json(output),
        this.#json(metadata),
        outcome,
        failed ? put(options.error) : NO_PLACE,
        timestampOf(timestamp),
      ),
    );
  }

  /** Sets the output that the end event shows where `scope` or `pop` closes the scope without another. */
  setOutput(output: unknown): void {
    this.#output = output;
  }

  /** @internal */
  get output(): unknown {
    return this.#output;
  }

  /** Runs a function with the scope as the current one, and returns what it returns. */
  run<T>(fn: () => T): T {
    return places.run(this, fn);
  }

  /** Returns what another process needs to continue under the scope. */
  propagation(): Record<string, unknown> {
    return JSON.parse(checked(native.scopePropagation(this.#id))) as Record<string, unknown>;
  }

  /** @internal */
  toJSON(): object {
    return { uuid: this.uuid, name: this.name, type: this.scopeType };
  }
}

/** A place inside a queued callback. @internal */
export class Queued implements Place {
  readonly echo: number;
  constructor(readonly around: Place | undefined) {
    this.echo = (around?.echo ?? 0) + 1;
  }
  scopeNumber(): number {
    return this.around === undefined ? 0 : this.around.scopeNumber();
  }
  handle(): ScopeHandle | undefined {
    return this.around?.handle();
  }
  call(): ScopeHandle | undefined {
    return this.around?.call();
  }
}

/** Makes the nearest open scope around `handle` current, if `handle` is. @internal */
export function stepOut(handle: ScopeHandle): void {
  if (places.getStore() !== handle) return;
  let place = handle.around;
  while (place instanceof ScopeHandle && !place.isOpen) place = place.around;
  places.enterWith(place);
}
