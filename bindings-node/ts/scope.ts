/** Scopes: units of work with a start and an end, the parents of calls, marks and scopes inside them. */

import { type CloseOptions, places, ScopeHandle, stepOut } from "./place";
import { defaultRuntime, type MarkOptions, type ScopeOptions } from "./runtime";
import { ScopeType } from "./generated/names";

export { ScopeHandle, ScopeType };

type Body<T> = (handle: ScopeHandle) => T;

/**
 * Opens a scope, runs a function inside it, and closes it when the function has returned or its promise is settled.
 *
 * The second argument is the scope's type, or its options. It ends `succeeded`, or `failed` with the error's type;
 * `handle.setOutput` sets the output that the end event shows.
 */
export function scope<T>(name: string, fn: Body<T>): T;
export function scope<T>(name: string, options: ScopeOptions | ScopeType, fn: Body<T>): T;
export function scope<T>(name: string, given: ScopeOptions | ScopeType | Body<T>, fn?: Body<T>): T {
  const body = typeof given === "function" ? given : fn;
  if (typeof body !== "function") throw new TypeError("a scope's body is not a function");
  const options = typeof given === "string" ? { type: given } : typeof given === "object" ? given : {};
  const handle = defaultRuntime().openScope(name, options);
  const failed = (error: unknown): never => {
    handle.close(undefined, { error });
    throw error;
  };
  let result: T;
  try {
    result = places.run(handle, body, handle);
    if (isThenable(result)) {
      const closed = (value: unknown) => {
        handle.close(handle.output);
        return value;
      };
      // What is only a thenable begins when it is awaited: inside the scope.
      return places.run(handle, () => Promise.resolve(result)).then(closed, failed) as T;
    }
  } catch (error) {
    return failed(error);
  }
  handle.close(handle.output);
  return result;
}

function isThenable(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return typeof (value as { then?: unknown }).then === "function";
}

/** Opens a scope and makes it current for what follows in this function; end it with `pop`. */
export function push(name: string, options?: ScopeOptions | ScopeType): ScopeHandle {
  const handle = defaultRuntime().openScope(name, typeof options === "string" ? { type: options } : options);
  places.enterWith(handle);
  return handle;
}

/** How a scope is ended. */
export interface PopOptions extends CloseOptions {
  /** The output, shown as the end event's `data`. */
  output?: unknown;
}

/**
 * Ends a scope, by default the current one; the scopes open inside end first, as abandoned.
 *
 * It may be called from anywhere. Closing a closed scope does nothing.
 */
export function pop(handle?: ScopeHandle, options: PopOptions = {}): void {
  const target = handle ?? getHandle();
  if (target === undefined) return;
  const { output, ...rest } = options;
  target.close(output ?? target.output, rest);
  stepOut(target);
}

/** Emits a mark under the current scope or the one given. */
export function event(name: string, data?: unknown, options?: MarkOptions): void {
  defaultRuntime().mark(name, data, options);
}

/** Returns the current scope. */
export function getHandle(): ScopeHandle | undefined {
  return places.getStore()?.handle();
}
