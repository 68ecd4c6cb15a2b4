/** Calls that the program runs itself. */

import { timestampOf } from "./convert";
import { checked, native, NO_PLACE, put, whenCollected } from "./native";
import { type Place, ScopeHandle } from "./place";
import type { Outcome } from "./generated/names";

/** How a manual call is started. */
export interface ManualOptions {
  /** The scope around it; the current one by default. */
  scope?: ScopeHandle | undefined;
  /** Free metadata for start and end event. */
  metadata?: unknown;
  /** The id that the model gave the call. */
  toolCallId?: string | undefined;
  /** Flags such as `parallel`, `remote` and `stateful`. */
  attributes?: readonly string[] | undefined;
  /** When it started, as a `Date` or in milliseconds since 1970; now if absent. */
  timestamp?: Date | number | undefined;
}

/** How a manual call is ended. */
export interface EndOptions {
  /** What it failed with, instead of a result. */
  error?: unknown;
  /** How it ended; by default what the error says, or succeeded. */
  outcome?: Outcome | undefined;
  /** When it ended, as a `Date` or in milliseconds since 1970; now if absent. */
  timestamp?: Date | number | undefined;
}

const calls = whenCollected((id) => native.forgetCall(id));

/** A call that the program runs itself. */
export class ManualCall {
  readonly #id: number;
  /** The scope of the call. */
  readonly scope: ScopeHandle;

  private constructor(id: number, around: Place | undefined) {
    this.#id = id;
    this.scope = ScopeHandle.of(checked(native.callScope(id)), around, true);
    calls.register(this, id);
  }

  /** @internal */
  static of(id: number, around: Place | undefined): ManualCall {
    return new ManualCall(id, around);
  }

  /** The id of the call. */
  get uuid(): string {
    return this.scope.uuid;
  }

  /** Ends the call; a second end is `AlreadyEnded`. */
  end(result?: unknown, options: EndOptions = {}): void {
    const failed = "error" in options;
    checked(
      native.endCall(
        this.#id,
        failed ? NO_PLACE : put(result),
        failed ? put(options.error) : NO_PLACE,
        options.outcome,
        timestampOf(options.timestamp),
      ),
    );
  }
}
