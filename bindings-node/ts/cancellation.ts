/** A cancellation of Callweir's own. */

import { cancelled, ownSignals } from "./task";
import type { Signal } from "./types";

/**
 * Cancels the calls that its signal was given to: whoever awaits them gets `Cancelled`.
 *
 * An `AbortController` does the same with a reason of the program's own.
 */
export class Cancellation {
  readonly #controller = new AbortController();

  constructor() {
    ownSignals.add(this.#controller.signal);
  }

  /** The signal to give to calls. */
  get signal(): Signal {
    return this.#controller.signal;
  }

  /** Whether it has been fired. */
  get cancelled(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Cancels every call that was given the signal. */
  cancel(): void {
    if (!this.cancelled) this.#controller.abort(cancelled());
  }
}
