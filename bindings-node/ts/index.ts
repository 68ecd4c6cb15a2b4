/** Callweir decides which tool and model calls may run, changes them, wraps them, and records them. */

import "./engine";

import { Cancellation } from "./cancellation";
import { native } from "./native";
import { places, type ScopeHandle } from "./place";
import { defaultRuntime, type Settings } from "./runtime";
import type { EntryOptions, Registration } from "./types";

export * from "./generated/errors";
export type { Family, FamilyCallbacks } from "./generated/families";
export * as exporters from "./exporters";
export * as export from "./exporters";
export * as guardrails from "./generated/guardrails";
export * as intercepts from "./generated/intercepts";
export * as scope from "./scope";
export * as subscribers from "./subscribers";
export * as tools from "./tools";
export { Cancellation };
export { ToolCall, ToolContext, type ToolCallOptions, type ToolContextOptions } from "./context";
export { AtofEvent, type AtofRecord, type CallRecord, type ToolCallCompleted, type ToolCallStarted } from "./events";
export { ManualCall, type EndOptions, type ManualOptions } from "./manual";
export { ScopeHandle, type CloseOptions } from "./place";
export {
  type DispatchOptions,
  type Middleware,
  type MiddlewareFunction,
  type MiddlewareObject,
  type NextCall,
  type Provider,
  ToolRegistry,
} from "./registry";
export {
  type Counts,
  type ExecuteOptions,
  type MarkOptions,
  Runtime,
  type ScopeOptions,
  type Settings,
} from "./runtime";
export type { ArgumentsOf, FromSchema, JsonSchema, StandardSchema } from "./schema";
export { type Descriptor, Tool, tool, type ToolOptions } from "./tool";
export { currentCall } from "./tools";
export type { PopOptions } from "./scope";
export { type Outcome, ScopeType } from "./generated/names";
export {
  type Around,
  type Awaitable,
  type EntryOptions,
  type EventFields,
  type EventTransform,
  type Gate,
  type ModelCallback,
  type Next,
  type RegisterOptions,
  type Registration,
  type Signal,
  type SignalLike,
  type Transform,
  Verdict,
} from "./types";

/** Changes settings of the default runtime; what is not given stays. */
export function configure(settings: Settings): void {
  defaultRuntime().configure(settings);
}

/**
 * Ends what is open, delivers what is queued and stops, within `timeout` milliseconds; gives how many events were not
 * delivered. Calls and registrations fail with `ShutDown` from then on; a second shutdown does nothing.
 */
export function shutdown(timeout?: number): Promise<number> {
  return defaultRuntime().shutdown(timeout);
}

/** Lists what applies to a call of `kind` made here, in the order in which it runs. */
export function explain(kind: "tool" | "llm", name: string, options?: EntryOptions): Registration[] {
  return defaultRuntime().explain(kind, name, options);
}

/** Lists what is installed, with its owners. */
export function registrations(): Registration[] {
  return defaultRuntime().registrations();
}

/** Returns what another process needs to continue under the current scope; undefined outside any scope. */
export function propagation(): Record<string, unknown> | undefined {
  return places.getStore()?.handle()?.propagation();
}

/**
 * Runs a function under a scope of another process, which is never ended here, and returns what it returns.
 *
 * A value that `propagation` did not give is `InvalidArgument`.
 */
export function attach<T>(value: unknown, fn: (handle: ScopeHandle) => T): T {
  if (typeof fn !== "function") throw new TypeError("attach runs a function under the scope");
  const handle = defaultRuntime().attach(value);
  return places.run(handle, fn, handle);
}

/** Returns the text that a model may read of anything thrown: `{"error":"denied: <reason>"}` and the like. */
export function forModel(error: unknown): string {
  return native.forModel(error);
}
