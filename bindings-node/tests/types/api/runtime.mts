/** Runtimes, and the functions of the module that use the default one. */

import {
  type AtofEvent,
  attach,
  type Awaitable,
  type CallRecord,
  configure,
  type Counts,
  type EntryOptions,
  type ExecuteOptions,
  explain,
  type Family,
  type FamilyCallbacks,
  forModel,
  type ManualCall,
  type ManualOptions,
  type MarkOptions,
  propagation,
  type RegisterOptions,
  type Registration,
  registrations,
  Runtime,
  type ScopeHandle,
  type ScopeOptions,
  type Settings,
  shutdown,
} from "callweir";

import { type Equal, expect, type Members } from "./equal.mjs";

export function settings(): void {
  expect<
    Equal<
      Members<Settings>,
      {
        default?: ((value: unknown) => unknown) | undefined;
        queueEvents?: number | undefined;
        queueBytes?: number | undefined;
        sanitizerTimeout?: number | undefined;
        credentialHeaders?: Iterable<string> | undefined;
        errorText?: boolean | undefined;
      }
    >
  >();
  expect<Equal<typeof configure, (settings: Settings) => void>>();
  configure({ default: (value) => (value instanceof Map ? [...value] : value) });
  configure({ credentialHeaders: new Set(["x"]), errorText: undefined });
  // @ts-expect-error -- there is no such setting
  configure({ queue: 1 });
  // @ts-expect-error -- settings are needed
  configure();
}

type Subscribe<T> = (name: string, fn: (given: T) => Awaitable<unknown>, options?: EntryOptions) => void;

export function runtimes(): void {
  expect<
    Equal<
      Members<Runtime>,
      {
        configure: (settings: Settings) => void;
        register: <F extends Family>(
          family: F,
          name: string,
          fn: FamilyCallbacks[F],
          options?: RegisterOptions,
        ) => void;
        deregister: (family: Family, name: string, options?: EntryOptions) => boolean;
        subscribe: Subscribe<AtofEvent>;
        subscribeCalls: Subscribe<CallRecord>;
        unsubscribe: (name: string, options?: EntryOptions) => boolean;
        exportJsonl: (path: string, options?: { name?: string | undefined }) => void;
        execute: <A, R>(
          name: string,
          args: A,
          fn: (args: A) => R,
          options?: ExecuteOptions,
        ) => Promise<Awaited<R>>;
        conditionalExecution: (name: string, args: unknown) => Promise<void>;
        requestIntercepts: <A>(name: string, args: A) => Promise<A>;
        startCall: (name: string, args: unknown, options?: ManualOptions) => ManualCall;
        openScope: (name: string, options?: ScopeOptions) => ScopeHandle;
        mark: (name: string, data?: unknown, options?: MarkOptions) => void;
        attach: (value: unknown) => ScopeHandle;
        flush: (timeout?: number) => Promise<number>;
        shutdown: (timeout?: number) => Promise<number>;
        readonly isShut: boolean;
        registrations: () => Registration[];
        explain: (kind: "tool" | "llm", name: string, options?: EntryOptions) => Registration[];
        counts: () => Counts;
      }
    >
  >();
  expect<Equal<ConstructorParameters<typeof Runtime>, [settings?: Settings]>>();
  expect<Equal<typeof Runtime.default, () => Runtime>>();
}

export function runtimesInferWhatCallsGive(): void {
  const result = new Runtime().execute("t", { n: 1 }, async ({ n }) => [n]);
  expect<Equal<typeof result, Promise<number[]>>>();
  const args = new Runtime({}).requestIntercepts("t", { n: 1 });
  expect<Equal<typeof args, Promise<{ n: number }>>>();
}

export function counters(): void {
  type All = "pending" | "pendingBytes" | "dropped" | "skipped" | "failures";
  expect<Equal<Members<Counts>, Record<All, number>>>();
}

export function listings(): void {
  type Line = { stage: string; name: string; level: string; owner: string | null; priority: number };
  expect<Equal<Members<Registration>, Line>>();
  expect<Equal<typeof registrations, () => Registration[]>>();
  type Explain = (kind: "tool" | "llm", name: string, options?: EntryOptions) => Registration[];
  expect<Equal<typeof explain, Explain>>();
  // @ts-expect-error -- there is no such kind of call
  explain("agent", "t");
}

export function theEnd(): void {
  expect<Equal<typeof shutdown, (timeout?: number) => Promise<number>>>();
}

export function otherProcesses(): void {
  expect<Equal<typeof propagation, () => Record<string, unknown> | undefined>>();
  expect<Equal<typeof attach, <T>(value: unknown, fn: (handle: ScopeHandle) => T) => T>>();
  const result = attach({}, async (handle) => handle.uuid);
  expect<Equal<typeof result, Promise<string>>>();
  // @ts-expect-error -- a function runs under the scope
  attach({});
}

export function textForModels(): void {
  expect<Equal<typeof forModel, (error: unknown) => string>>();
}
