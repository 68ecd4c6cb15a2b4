/**
 * The native half: how it is found, the table of values, and the integers that both halves share.
 *
 * Values never cross into Rust. They are put into a table here, and what crosses is their place.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";

/** The native functions; `FUNCTIONS` in `src/lib.rs` is the list, and says what each takes. */
export interface Native {
  execute(name: string): unknown;
  executeWith(...given: unknown[]): unknown;
  dispatch(...given: unknown[]): unknown;
  proceed(): unknown;
  proceedWith(...given: unknown[]): unknown;
  settle(): unknown;
  poll(): unknown;
  nextAction(): unknown;
  forgetTask(): unknown;
  cancel(task: number, release: boolean): void;
  helper(...given: unknown[]): unknown;
  flush(...given: unknown[]): unknown;
  exit(): void;
  drain(): number;
  nextWoken(): number | undefined;
  nextAbandoned(): number | undefined;
  listFreed(): void;
  makeRuntime(settings: string, convert: number): number;
  forgetRuntime(runtime: number): void;
  configure(runtime: number, settings: string, convert: number): void;
  register(...given: unknown[]): void;
  deregister(...given: unknown[]): number;
  subscribe(...given: unknown[]): void;
  unsubscribe(...given: unknown[]): number;
  exportJsonl(runtime: number, path: string, name: string): void;
  registrations(runtime: number): string;
  explain(runtime: number, kind: string, scope: number): string;
  counts(runtime: number): string;
  isShut(runtime: number): number;
  mark(...given: unknown[]): void;
  startCall(...given: unknown[]): number;
  callScope(call: number): number;
  endCall(...given: unknown[]): void;
  forgetCall(call: number): void;
  openScope(...given: unknown[]): number;
  closeScope(...given: unknown[]): void;
  scopeFacts(scope: number): string;
  scopeIsOpen(scope: number): number;
  scopePropagation(scope: number): string;
  scopeOfTask(task: number): number;
  endedScope(...given: unknown[]): number;
  attach(runtime: number, value: string): number;
  forgetScope(scope: number): void;
  makeRegistry(runtime: number): number;
  forgetRegistry(registry: number): void;
  registerTools(registry: number, items: string): void;
  useMiddleware(...given: unknown[]): void;
  subset(registry: number, names: string): number;
  manifest(registry: number, provider?: string): string;
  explainTool(registry: number, tool: string, scope: number): string;
  checkArguments(parameters: string, place: number): void;
  describeKind(kind: string, fields: string): string;
  modelText(place: number): string;
  argumentError(path: string, message: string): never;
  notJson(path: string, message: string): never;
  cancelledError(): never;
  /** Returns the text of an error of Callweir's own. */
  describe(kind: string, fields: Record<string, string>): string;
  /** Returns the text that a model may read of anything thrown. */
  forModel(error: unknown): string;
}

/** How a task stands after a native step; `Standing` in `src/drive.rs`. */
export const enum Standing {
  Done,
  Plain,
  Pending,
  Waiting,
  Failed,
  Aborted,
  Stale,
  Run,
}

/** What a callback of a call is called for; `Kind` in `src/foreign.rs`. */
export const enum Kind {
  Gate,
  Transform,
  Around,
  Middleware,
  Refused,
  Work,
  Tool,
}

/** How a callback answered; `How` in `src/foreign.rs`. */
export const enum How {
  Value,
  Nothing,
  Text,
  Own,
  Thrown,
  Aborted,
  Pending,
}

/** The shared integers by their place; `Shared` in `src/instance.rs`. */
export const enum Shared {
  Standing,
  Otherwise,
  Kind,
  Actions,
  How,
  Woken,
  Abandoned,
  Freed,
  More,
  Echo,
  Seen,
  Id,
  List = 16,
}

/** What stands for no value where a place is expected. */
export const NO_PLACE = -1;

export const shared = new Int32Array(new ArrayBuffer(4 * (Shared.List + 4096)));
/** Numbers that go with a call in either direction, where each would cost a conversion: the first few places. */
export const numbers = new Float64Array(new ArrayBuffer(8 * 16));
export const values: unknown[] = [];
const free: number[] = [];

/** Puts a value into the table; whoever gets the place owns it. */
export function put(value: unknown): number {
  const place = free.length > 0 ? (free.pop() as number) : values.length;
  values[place] = value;
  return place;
}

/** Puts a function that its owner here keeps alive, and that may refer to its owner. */
export function putWeak(value: object): number {
  return put(new WeakRef(value));
}

/** Puts a value that may be absent. */
export function putMaybe(value: unknown): number {
  return value === undefined ? NO_PLACE : put(value);
}

/** Empties the places that Rust has let go of. */
export function reclaim(): void {
  do {
    for (let count = shared[Shared.Freed]; count > 0; count--) {
      const place = shared[Shared.List + count - 1];
      values[place] = undefined;
      free.push(place);
    }
    shared[Shared.Freed] = 0;
    if (shared[Shared.More] !== 0) native.listFreed();
  } while (shared[Shared.Freed] > 0);
}

/** Throws what a native function failed with; else returns its answer. */
export function checked<T>(answer: T): T {
  const standing = shared[Shared.Standing] as Standing;
  if (standing === Standing.Failed || standing === Standing.Aborted) {
    const error = values[numbers[0]];
    reclaim();
    throw error;
  }
  reclaim();
  return answer;
}

/** Releases what JavaScript has collected. */
export function whenCollected(release: (id: number) => void): FinalizationRegistry<number> {
  return new FinalizationRegistry((id) => {
    release(id);
    reclaim();
  });
}

interface Addon {
  connect(lent: object, integers: Int32Array, numbers: Float64Array, target: object): void;
}

function load(): Addon {
  const oldest = 20;
  if (Number(process.versions.node.split(".")[0]) < oldest) {
    throw new Error(`callweir needs Node.js ${oldest} or newer; this is ${process.versions.node}`);
  }
  const tried: string[] = [];
  const attempt = (target: string): Addon | undefined => {
    try {
      return require(target) as Addon;
    } catch (error) {
      tried.push(`${target}: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`);
      return undefined;
    }
  };
  const names = platformNames();
  for (const name of names) {
    const beside = join(__dirname, "..", `callweir.${name}.node`);
    const addon = existsSync(beside) ? attempt(beside) : undefined;
    if (addon !== undefined) return addon;
  }
  for (const name of names) {
    const addon = attempt(`callweir-${name}`);
    if (addon !== undefined) return addon;
  }
  throw new Error(
    `callweir has no addon for ${names[0]}; the package callweir-${names[0]} should have come with it as an ` +
      `optional dependency. Tried:\n  ${tried.join("\n  ")}`,
  );
}

/** Names the builds of the addon for this machine, as the platform packages are named; the likelier first. */
function platformNames(): string[] {
  const { platform, arch } = process;
  // Asking which C library there is takes longer than trying.
  if (platform === "linux") return [`linux-${arch}-gnu`, `linux-${arch}-musl`];
  return [platform === "win32" ? `win32-${arch}-msvc` : `${platform}-${arch}`];
}

const addon = load();

export const native = {
  describe: (kind: string, fields: Record<string, string>) => native.describeKind(kind, JSON.stringify(fields)),
  forModel: (error: unknown) => checked(native.modelText(put(error))),
} as Native;

/** Gives the native half the functions that it calls, and takes its own. */
export function connect(lent: object): void {
  addon.connect(lent, shared, numbers, native);
}
