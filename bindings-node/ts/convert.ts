/** What programs give beside payloads: metadata, times, names. */

import { checked, native } from "./native";
import type { SignalLike } from "./types";
import { Refused, stringify, typeName } from "./value";

/** Fails with the error of an argument, naming its path. */
export function wrongArgument(path: string, message: string): never {
  checked(native.argumentError(path, message));
  throw new TypeError(message);
}

/** Writes an optional value as JSON text at once; what is not JSON is an error with the path. */
export function jsonText(value: unknown, convert?: (value: unknown) => unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  try {
    return stringify(value, convert);
  } catch (error) {
    const refused = error instanceof Refused ? error : new Refused(`reading it threw ${typeName(error)}`);
    checked(native.notJson(refused.path(), refused.why));
    return undefined;
  }
}

/** Returns milliseconds since 1970. */
export function timestampOf(time: Date | number | undefined): number | undefined {
  if (time === undefined) return undefined;
  const milliseconds = Number(time);
  if (Number.isNaN(milliseconds)) wrongArgument("$.timestamp", "expected a Date or milliseconds since 1970");
  return milliseconds;
}

/** Checks a time limit in milliseconds. */
export function timeoutOf(timeout: number | undefined): number | undefined {
  if (timeout === undefined) return undefined;
  if (typeof timeout !== "number" || !(timeout >= 0)) {
    wrongArgument("$.timeout", "expected a number of milliseconds, 0 or more");
  }
  return timeout;
}

/** Checks that something is a signal, where there is one. */
export function signalOf(value: unknown): SignalLike | undefined {
  const signal = value as Partial<SignalLike> | null | undefined;
  if (signal !== undefined && typeof signal?.addEventListener !== "function") {
    wrongArgument("$.signal", "expected an AbortSignal");
  }
  return signal as SignalLike | undefined;
}

/** Checks that something is a function. */
export function functionOf<F>(value: F, what: string): F {
  if (typeof value !== "function") throw new TypeError(`${what} is not a function`);
  return value;
}

/** Checks that something is a text. */
export function textOf(value: unknown, what: string): string {
  if (typeof value !== "string") throw new TypeError(`${what} is not a string`);
  return value;
}

/** Checks that something is a text where it is given. */
export function maybeTextOf(value: unknown, what: string): string | undefined {
  return value === undefined || value === null ? undefined : textOf(value, what);
}
