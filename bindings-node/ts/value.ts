/** Values as JSON, for who reads a copy; and the copy that callbacks may edit. */

import { types } from "node:util";

/** The deepest nesting that counts as JSON; `MAX_DEPTH` in the core. */
export const MAX_DEPTH = 512;

/** Says which value is not JSON, and why; never seen outside the package. */
export class Refused {
  /** The steps to the value, innermost first. */
  readonly steps: (string | number)[] = [];
  constructor(readonly why: string) {}

  /** Returns the path of the value: `$.a[3]`. */
  path(): string {
    const step = (path: string, part: string | number) =>
      typeof part === "number" ? `${path}[${part}]` : path + keyText(part);
    return this.steps.reduceRight(step, "$");
  }
}

/** Writes the step to a property. */
export function keyText(key: string): string {
  return /^[\p{Alphabetic}\p{N}_-]+$/u.test(key) && !/^[0-9]/.test(key) ? `.${key}` : `[${quoted(key)}]`;
}

type Convert = ((value: unknown) => unknown) | undefined;

/**
 * Writes a value as JSON text; `undefined` is null at the top.
 *
 * What JSON has no form for is `Refused`, unless `convert` gives something else for it.
 */
export function stringify(value: unknown, convert: Convert): string {
  if (value === undefined) return "null";
  return writePlain(value) ?? write(value, convert, []);
}

/** Writes a value with the engine's own writer where that is as good. */
function writePlain(value: unknown): string | undefined {
  try {
    if (!isPlain(value, 0)) return undefined;
    const text = JSON.stringify(value);
    return text.includes("\\ud") ? undefined : text;
  } catch {
    // A getter threw: the slow way says which.
    return undefined;
  }
}

/** Says whether the engine's own writer, which is many times as fast, would lose nothing and refuse nothing. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "object":
      return value === null || (depth < MAX_DEPTH && hasPlain(value, depth + 1));
    default:
      return false;
  }
}

function hasPlain(value: object, depth: number): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Array.prototype) {
    for (let index = 0; index < (value as unknown[]).length; index++) {
      if (!isPlain((value as unknown[])[index], depth)) return false;
    }
    return !("toJSON" in value);
  }
  if (prototype !== Object.prototype || types.isProxy(value)) return false;
  const keyed = value as Record<string, unknown>;
  for (const key in keyed) {
    const item = keyed[key];
    if (item !== undefined && !isPlain(item, depth)) return false;
  }
  return keyed["toJSON"] === undefined;
}

/** Quotes a text; a lone surrogate becomes U+FFFD. */
function quoted(text: string): string {
  return JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
}

function write(value: unknown, convert: Convert, around: object[]): string {
  switch (typeof value) {
    case "string":
      return quoted(value);
    case "number":
      if (!Number.isFinite(value)) throw new Refused(`${value} is not a JSON number`);
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      if (value >= 1n << 64n || value < -(1n << 63n)) throw new Refused("an integer beyond 64 bits");
      return String(value);
    case "object":
      return value === null ? "null" : writeObject(value, convert, around);
    default:
      return writeOther(value, convert, around);
  }
}

function writeObject(value: object, convert: Convert, around: object[]): string {
  if (around.length >= MAX_DEPTH) throw new Refused(`nested deeper than ${MAX_DEPTH}`);
  if (around.includes(value)) throw new Refused("a value that contains itself");
  around.push(value);
  const text = Array.isArray(value) ? writeArray(value, convert, around) : writeKeyed(value, convert, around);
  around.pop();
  return text;
}

function below<T>(step: string | number, body: () => T): T {
  try {
    return body();
  } catch (error) {
    const refused = error instanceof Refused ? error : new Refused(`reading it threw ${typeName(error)}`);
    refused.steps.push(step);
    throw refused;
  }
}

function writeArray(array: unknown[], convert: Convert, around: object[]): string {
  const { toJSON } = array as { toJSON?: unknown };
  const json: unknown = typeof toJSON === "function" ? toJSON.call(array, "") : array;
  if (json !== array) return write(json, convert, around);
  let text = "[";
  for (let index = 0; index < array.length; index++) {
    const item = below(index, () => write(array[index], convert, around));
    text += index === 0 ? item : `,${item}`;
  }
  return `${text}]`;
}

function writeKeyed(value: object, convert: Convert, around: object[]): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null;
  if (!isPlain) {
    // Bytes, whatever they say of themselves: as text they would be many times as long.
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return writeOther(value, convert, around);
    if (types.isDate(value)) return writeDate(value);
  }
  const { toJSON } = value as { toJSON?: unknown };
  const json: unknown = typeof toJSON === "function" ? toJSON.call(value, "") : value;
  if (json !== value) return write(json, convert, around);
  if (!isPlain && losesContent(value)) return writeOther(value, convert, around);
  let text = "{";
  for (const key of Object.keys(value)) {
    const item = below(key, () => {
      const property = (value as Record<string, unknown>)[key];
      return property === undefined ? undefined : write(property, convert, around);
    });
    if (item !== undefined) text += `${text === "{" ? "" : ","}${quoted(key)}:${item}`;
  }
  return `${text}}`;
}

function writeDate(date: Date): string {
  const time = Date.prototype.getTime.call(date);
  if (Number.isNaN(time)) throw new Refused("an invalid date");
  return `"${new Date(time).toISOString()}"`;
}

/** Says whether an object holds something beside its properties, which JSON would lose. */
function losesContent(value: object): boolean {
  return (
    types.isMap(value) ||
    types.isSet(value) ||
    types.isPromise(value) ||
    types.isRegExp(value) ||
    types.isWeakMap(value) ||
    types.isWeakSet(value) ||
    types.isBoxedPrimitive(value) ||
    types.isMapIterator(value) ||
    types.isSetIterator(value) ||
    types.isGeneratorObject(value) ||
    types.isNativeError(value) ||
    value instanceof WeakRef ||
    // Headers, form data, lists of a library: what they give one by one is not in their properties.
    typeof (value as { [Symbol.iterator]?: unknown })[Symbol.iterator] === "function"
  );
}

/** Writes what has no form of its own by the runtime's converter. */
function writeOther(value: unknown, convert: Convert, around: object[]): string {
  if (convert !== undefined && value !== undefined && around.length < MAX_DEPTH) {
    const converted = converting(value, convert);
    if (converted !== undefined && converted !== value) {
      around.push(convert);
      const text = write(converted, convert, around);
      around.pop();
      return text;
    }
  }
  throw new Refused(`${typeName(value)} has no JSON form`);
}

function converting(value: unknown, convert: (value: unknown) => unknown): unknown {
  try {
    const converted = convert(value);
    // A promise is no JSON, and nobody else will hear what it fails with.
    if (types.isPromise(converted)) Promise.prototype.then.call(converted, undefined, () => undefined);
    return converted;
  } catch (error) {
    throw new Refused(`its conversion threw ${typeName(error)}`);
  }
}

/** Names the class or type of a value as the language shows it. */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  try {
    const { constructor, name } = value as { constructor?: unknown; name?: unknown };
    // The platform's errors share one class, and are told apart by their names.
    if (typeof DOMException === "function" && value instanceof DOMException) return String(name);
    return typeof constructor === "function" && constructor.name !== "" ? constructor.name : "Object";
  } catch {
    return "Object";
  }
}

/** What marks texts that stand for something else; `MARK` in `src/value/exact.rs`. */
const MARK = "\u0000\u0001";
const ESCAPED_MARK = JSON.stringify(MARK).slice(1, -1);

/** Reads JSON text of Rust's; integers beyond the safe range become `BigInt`. */
export function parse(text: string): unknown {
  return JSON.parse(text, text.includes(ESCAPED_MARK) ? unmark : undefined) as unknown;
}

function unmark(_: string, value: unknown): unknown {
  if (typeof value !== "string" || !value.startsWith(MARK)) return value;
  const rest = value.slice(MARK.length + 1);
  return value[MARK.length] === "n" ? BigInt(rest) : rest;
}

/** A text of Rust's that stands for something else, but not a key. */
const MARKED = /(?<!\\)"\\u0000\\u0001(?:n(-?\d+)|s((?:[^"\\]|\\.)*))"(?!:)/g;

/** Returns JSON text of Rust's as it is without marks, with integers of any size. */
export function plain(text: string): string {
  if (!text.includes(ESCAPED_MARK)) return text;
  return text.replace(MARKED, (_, digits?: string, rest?: string) => digits ?? `"${rest}"`);
}

/** Half of a surrogate pair without the other, as an escape. */
const LONE =
  /\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F]/;

/** Says whether JSON text holds a lone surrogate, which Rust could not. */
export function hasLoneSurrogate(text: string): boolean {
  return !text.isWellFormed() || LONE.test(text);
}

/**
 * Reads JSON text as Rust does, with lone surrogates as they are; integers beyond the safe range become `BigInt`.
 *
 * What JavaScript cannot hold is `Refused`; what is no JSON is a `SyntaxError`.
 */
export function parseLoose(text: string): unknown {
  const mark = `${Math.random()}n`;
  let isInside = false;
  const marked = text.replace(/\\[^]|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') isInside = !isInside;
    const isBig = !isInside && /^-?[1-9]\d{15,}$/.test(token) && !Number.isSafeInteger(Number(token));
    return isBig ? `"${mark}${token}"` : token;
  });
  return restore(JSON.parse(marked), mark, 0);
}

function restore(value: unknown, mark: string, depth: number): unknown {
  if (typeof value === "string") return value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value;
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new Refused("the number does not fit a JavaScript number");
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) throw new Refused(`nested deeper than ${MAX_DEPTH}`);
  const keyed = value as Record<string | number, unknown>;
  const steps = Array.isArray(value) ? value.keys() : Object.keys(value);
  for (const step of steps) keyed[step] = below(step, () => restore(keyed[step], mark, depth + 1));
  return value;
}

/** From this depth on, containers seen before are remembered: a value may contain itself. */
const REMEMBER = 16;

/** Copies arrays and plain objects, all the way down; everything else goes by reference. */
export function isolate(value: unknown): unknown {
  const before = seen;
  seen = undefined;
  try {
    return copy(value, 0);
  } finally {
    seen = before;
  }
}

/** What has been copied far down, with its copies. */
let seen: Map<object, object> | undefined;

function copy(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH || types.isProxy(value)) return value;
  if (depth >= REMEMBER) {
    seen ??= new Map();
    const known = seen.get(value);
    if (known !== undefined) return known;
  }
  if (Array.isArray(value)) {
    const made = Array.prototype.slice.call(value) as unknown[];
    if (depth >= REMEMBER) seen?.set(value, made);
    for (let index = 0; index < made.length; index++) {
      const item = made[index];
      if (typeof item === "object" && item !== null) made[index] = copy(item, depth + 1);
    }
    return made;
  }
  return isPlainObject(value) ? copyObject(value as Record<string, unknown>, depth) : value;
}

function copyObject(value: Record<string, unknown>, depth: number): unknown {
  let made: Record<string, unknown>;
  try {
    made = { ...value };
  } catch {
    // A getter that throws is copied as it is, and throws when somebody asks.
    made = Object.defineProperties({}, Object.getOwnPropertyDescriptors(value)) as Record<string, unknown>;
    return made;
  }
  if (Object.getPrototypeOf(value) === null) Object.setPrototypeOf(made, null);
  if (depth >= REMEMBER) seen?.set(value, made);
  for (const key in made) {
    const item = made[key];
    if (typeof item !== "object" || item === null) continue;
    const copied = copy(item, depth + 1);
    if (key === "__proto__") {
      Object.defineProperty(made, key, { value: copied, writable: true, enumerable: true, configurable: true });
    } else {
      made[key] = copied;
    }
  }
  return made;
}

/** Says whether an object is a JSON container, of this realm or another. */
function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "hasOwnProperty");
}

/** Says whether a property counts: one that is `undefined` is as good as not there. */
function isGiven(value: Record<string, unknown>, key: string): boolean {
  try {
    return value[key] !== undefined;
  } catch {
    return true;
  }
}

/** Lists the keys of an object as JSON text; nothing for what is no object. */
export function keysOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const keys = Object.keys(value).filter((key) => isGiven(value as Record<string, unknown>, key));
  const text = JSON.stringify(keys);
  return text.includes("\\ud") ? JSON.stringify(keys.map((key) => key.toWellFormed())) : text;
}
