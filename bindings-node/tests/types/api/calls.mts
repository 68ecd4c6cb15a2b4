/** Calls: managed and manual, their options and cancellation. */

import {
  Cancellation,
  currentCall,
  type EndOptions,
  type ExecuteOptions,
  ManualCall,
  type ManualOptions,
  type Outcome,
  type ScopeHandle,
  type Signal,
  type SignalLike,
  tools,
} from "callweir";

import { type Equal, expect, type Members } from "./equal.mjs";

type Work<R> = (args: { n: number }) => R;

export async function executeGivesWhatTheWorkReturns(): Promise<void> {
  const plain = tools.execute("t", { n: 1 }, ({ n }) => `${n}`);
  expect<Equal<typeof plain, Promise<string>>>();
  const async = tools.execute("t", { n: 1 }, async ({ n }) => n);
  expect<Equal<typeof async, Promise<number>>>();
  const nested = tools.execute("t", { n: 1 }, (async () => Promise.resolve([1])) as Work<Promise<number[]>>);
  expect<Equal<typeof nested, Promise<number[]>>>();
  const thenable = tools.execute("t", 1, (n): PromiseLike<Date> => Promise.resolve(new Date(n)));
  expect<Equal<typeof thenable, Promise<Date>>>();
  const nothing = tools.execute("t", null, () => {});
  expect<Equal<typeof nothing, Promise<void>>>();
  const either = tools.execute("t", 1, (n): number | Promise<string> => n);
  expect<Equal<typeof either, Promise<string | number>>>();
  const never = tools.execute("t", 1, () => {
    throw new Error("no");
  });
  expect<Equal<typeof never, Promise<never>>>();
  const any = tools.execute("t", 1, (): any => 1);
  expect<Equal<typeof any, Promise<any>>>();
}

export function executeGivesTheWorkTheArguments(): void {
  void tools.execute("t", { a: 1, b: ["x"] }, (args) => {
    expect<Equal<typeof args, { a: number; b: string[] }>>();
  });
  void tools.execute("t", { a: 1 }, (args: { a: number; b?: string }) => args.b);
  void tools.execute("t", {}, () => 1);
  // @ts-expect-error -- the work wants another type
  void tools.execute("t", { a: "x" }, (args: { a: number }) => args);
  // @ts-expect-error -- the work takes one argument
  void tools.execute("t", { a: 1 }, (args: { a: number }, more: number) => [args, more]);
  // @ts-expect-error -- a name is a text
  void tools.execute(1, {}, () => 1);
  // @ts-expect-error -- the work is a function
  void tools.execute("t", {}, 1);
  // @ts-expect-error -- there is no work
  void tools.execute("t", {});
}

export function executeOptions(): void {
  expect<
    Equal<
      Members<ExecuteOptions>,
      { metadata?: unknown; toolCallId?: string | undefined; signal?: Signal | undefined }
    >
  >();
  void tools.execute("t", {}, () => 1, { metadata: { a: 1 }, toolCallId: undefined, signal: undefined });
  // @ts-expect-error -- there is no such option
  void tools.execute("t", {}, () => 1, { timeout: 5 });
  // @ts-expect-error -- an id is a text
  void tools.execute("t", {}, () => 1, { toolCallId: 5 });
}

export function singlePhases(): void {
  expect<Equal<typeof tools.conditionalExecution, (name: string, args: unknown) => Promise<void>>>();
  expect<Equal<typeof tools.requestIntercepts, <A>(name: string, args: A) => Promise<A>>>();
  const args = tools.requestIntercepts("t", { n: 1 });
  expect<Equal<typeof args, Promise<{ n: number }>>>();
}

export function manualCalls(): void {
  expect<Equal<typeof tools.call, (name: string, args: unknown, options?: ManualOptions) => ManualCall>>();
  type End = (handle: ManualCall, result?: unknown, options?: EndOptions) => void;
  expect<Equal<typeof tools.callEnd, End>>();
  expect<
    Equal<
      Members<ManualCall>,
      {
        readonly scope: ScopeHandle;
        readonly uuid: string;
        end: (result?: unknown, options?: EndOptions) => void;
      }
    >
  >();
  const handle = tools.call("t", {});
  tools.callEnd(handle);
  tools.callEnd(handle, 1, { outcome: "closed_early" });
  // @ts-expect-error -- only `tools.call` makes one
  void new ManualCall();
  // @ts-expect-error -- there is no such outcome
  handle.end(1, { outcome: "fine" });
}

export function manualOptions(): void {
  expect<
    Equal<
      Members<ManualOptions>,
      {
        scope?: ScopeHandle | undefined;
        metadata?: unknown;
        toolCallId?: string | undefined;
        attributes?: readonly string[] | undefined;
        timestamp?: Date | number | undefined;
      }
    >
  >();
  expect<
    Equal<
      Members<EndOptions>,
      { error?: unknown; outcome?: Outcome | undefined; timestamp?: Date | number | undefined }
    >
  >();
}

export function theCurrentCall(): void {
  expect<Equal<typeof currentCall, () => ScopeHandle | undefined>>();
  expect<Equal<typeof tools.currentCall, typeof currentCall>>();
}

export function cancellation(): void {
  expect<
    Equal<
      Members<Cancellation>,
      { readonly signal: Signal; readonly cancelled: boolean; cancel: () => void }
    >
  >();
  expect<Equal<ConstructorParameters<typeof Cancellation>, []>>();
}

export function signals(): void {
  expect<Equal<Signal, AbortSignal>>();
  expect<
    Equal<
      Members<SignalLike>,
      {
        readonly aborted: boolean;
        readonly reason: unknown;
        addEventListener(type: "abort", listener: () => void): void;
        removeEventListener(type: "abort", listener: () => void): void;
      }
    >
  >();
  const like: SignalLike = new AbortController().signal;
  void like;
}

export function outcomes(): void {
  type All = "succeeded" | "refused" | "failed" | "cancelled" | "abandoned" | "closed_early" | "incomplete";
  expect<Equal<Outcome, All>>();
}
