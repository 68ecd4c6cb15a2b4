/** Tool calls: managed, manual, and single phases of them. */

import type { EndOptions, ManualCall, ManualOptions } from "./manual";
import { places, type ScopeHandle } from "./place";
import { defaultRuntime, type ExecuteOptions } from "./runtime";

/**
 * Makes a managed tool call, and gives what `fn` returned.
 *
 * Guardrails and request intercepts run first, execution intercepts around `fn(args)`. A rejection is
 * `CallRejected`; whatever a callback throws arrives as the same value. When `signal` fires the caller is released
 * at the end of that turn of the event loop, with the signal's reason, and a late result is ignored.
 */
export function execute<A, R>(
  name: string,
  args: A,
  fn: (args: A) => R,
  options?: ExecuteOptions,
): Promise<Awaited<R>> {
  return defaultRuntime().execute(name, args, fn, options);
}

/** Starts a call that the program runs itself; end it with `callEnd`. It runs no middleware. */
export function call(name: string, args: unknown, options?: ManualOptions): ManualCall {
  return defaultRuntime().startCall(name, args, options);
}

/** Ends a manual call; a second end is `AlreadyEnded`. */
export function callEnd(handle: ManualCall, result?: unknown, options?: EndOptions): void {
  handle.end(result, options);
}

/** Runs the guardrails of a call, with their events, and nothing else; a rejection is `CallRejected`. */
export function conditionalExecution(name: string, args: unknown): Promise<void> {
  return defaultRuntime().conditionalExecution(name, args);
}

/** Runs the request intercepts of a call and gives the arguments; emits nothing. */
export function requestIntercepts<A>(name: string, args: A): Promise<A> {
  return defaultRuntime().requestIntercepts(name, args);
}

/** Returns the call that this code runs in. */
export function currentCall(): ScopeHandle | undefined {
  return places.getStore()?.call();
}
