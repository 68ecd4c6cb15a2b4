/** Subscribers: who receives finished events. */

import type { AtofEvent, CallRecord } from "./events";
import { defaultRuntime } from "./runtime";
import type { Awaitable, EntryOptions } from "./types";

/** Registers a subscriber of every event. Each gets one event at a time, in the order of emission. */
export function register(name: string, fn: (event: AtofEvent) => Awaitable<unknown>, options?: EntryOptions): void {
  defaultRuntime().subscribe(name, fn, options);
}

/** Registers a subscriber of typed records of registry calls, which never carry arguments or results. */
export function registerCalls(
  name: string,
  fn: (record: CallRecord) => Awaitable<unknown>,
  options?: EntryOptions,
): void {
  defaultRuntime().subscribeCalls(name, fn, options);
}

/** Removes a subscriber; returns whether it was there. What was emitted before is still delivered to it. */
export function deregister(name: string, options?: EntryOptions): boolean {
  return defaultRuntime().unsubscribe(name, options);
}

/**
 * Waits until everything emitted before is delivered, at most `timeout` milliseconds; gives how many events are still
 * pending, 0 if none. In a sanitizer or subscriber it is `WouldDeadlock`.
 */
export function flush(timeout?: number): Promise<number> {
  return defaultRuntime().flush(timeout);
}

/** The same as `flush`, under the name that languages with a blocking form have for it. */
export const flushAsync = flush;
