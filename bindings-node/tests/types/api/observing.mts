/** Scopes, events, and who receives them. */

import {
  AtofEvent,
  type AtofRecord,
  type Awaitable,
  type CallRecord,
  type CloseOptions,
  type EntryOptions,
  export as exporting,
  exporters,
  type MarkOptions,
  type Outcome,
  type PopOptions,
  scope,
  ScopeHandle,
  type ScopeOptions,
  ScopeType,
  subscribers,
  type ToolCallCompleted,
  type ToolCallStarted,
} from "callweir";

import { type Equal, expect, type Members, type Own } from "./equal.mjs";

type Time = Date | number | undefined;

export function scopeGivesWhatItsBodyReturns(): void {
  const plain = scope.scope("s", (handle) => {
    expect<Equal<typeof handle, ScopeHandle>>();
    return 1 as number;
  });
  expect<Equal<typeof plain, number>>();
  const async = scope.scope("s", { type: "agent", input: 1 }, async (handle) => handle.uuid);
  expect<Equal<typeof async, Promise<string>>>();
  const typed = scope.scope("s", ScopeType.Retriever, () => [true as boolean]);
  expect<Equal<typeof typed, boolean[]>>();
  // @ts-expect-error -- there is no such type
  scope.scope("s", "robot", () => 1);
  // @ts-expect-error -- there is no body
  scope.scope("s", {});
}

export function scopesByHand(): void {
  expect<Equal<typeof scope.push, (name: string, options?: ScopeOptions | ScopeType) => ScopeHandle>>();
  expect<Equal<typeof scope.pop, (handle?: ScopeHandle, options?: PopOptions) => void>>();
  expect<Equal<typeof scope.event, (name: string, data?: unknown, options?: MarkOptions) => void>>();
  expect<Equal<typeof scope.getHandle, () => ScopeHandle | undefined>>();
  expect<Equal<typeof scope.ScopeHandle, typeof ScopeHandle>>();
  expect<Equal<scope.ScopeHandle, ScopeHandle>>();
}

export function handles(): void {
  expect<
    Equal<
      Members<ScopeHandle>,
      {
        readonly uuid: string;
        readonly name: string;
        readonly scopeType: ScopeType;
        readonly parentUuid: string | null;
        readonly parent: ScopeHandle | undefined;
        readonly isOpen: boolean;
        close: (output?: unknown, options?: CloseOptions) => void;
        setOutput: (output: unknown) => void;
        run: <T>(fn: () => T) => T;
        propagation: () => Record<string, unknown>;
      }
    >
  >();
  // @ts-expect-error -- functions give them, programs make none
  void new ScopeHandle();
}

export function scopeOptions(): void {
  expect<
    Equal<
      Members<ScopeOptions>,
      {
        type?: ScopeType | undefined;
        parent?: ScopeHandle | undefined;
        input?: unknown;
        metadata?: unknown;
        attributes?: readonly string[] | undefined;
        dataSchema?: unknown;
        timestamp?: Time;
      }
    >
  >();
  type Close = { metadata?: unknown; outcome?: Outcome | undefined; error?: unknown; timestamp?: Time };
  expect<Equal<Members<CloseOptions>, Close>>();
  expect<Equal<Own<PopOptions, CloseOptions>, { output?: unknown }>>();
  type Mark = { metadata?: unknown; scope?: ScopeHandle | undefined; dataSchema?: unknown; timestamp?: Time };
  expect<Equal<Members<MarkOptions>, Mark>>();
}

export function scopeTypes(): void {
  type All =
    | "agent"
    | "function"
    | "tool"
    | "llm"
    | "retriever"
    | "embedder"
    | "reranker"
    | "guardrail"
    | "evaluator"
    | "custom"
    | "unknown";
  expect<Equal<ScopeType, All>>();
  expect<Equal<(typeof ScopeType)[keyof typeof ScopeType], ScopeType>>();
  expect<Equal<typeof ScopeType.Llm, "llm">>();
  expect<Equal<keyof typeof ScopeType, Capitalize<All>>>();
  expect<Equal<typeof scope.ScopeType, typeof ScopeType>>();
  expect<Equal<scope.ScopeType, ScopeType>>();
  // @ts-expect-error -- it is frozen
  ScopeType.Llm = "llm";
}

export function records(): void {
  expect<
    Equal<
      Members<AtofRecord>,
      {
        kind: "scope" | "mark";
        scope_category?: "start" | "end";
        atof_version: string;
        uuid: string;
        parent_uuid: string | null;
        timestamp: string;
        name: string;
        category?: ScopeType;
        attributes?: string[];
        data: any;
        data_schema: any;
        metadata: any;
        category_profile?: any;
      }
    >
  >();
}

export function events(): void {
  expect<
    Equal<
      Members<AtofEvent>,
      {
        readonly kind: "scope" | "mark";
        readonly scope_category: "start" | "end" | undefined;
        readonly atof_version: string;
        readonly uuid: string;
        readonly parent_uuid: string | null;
        readonly timestamp: string;
        readonly name: string;
        readonly category: ScopeType | undefined;
        readonly attributes: string[];
        readonly data: any;
        readonly data_schema: any;
        readonly metadata: any;
        readonly category_profile: any;
        readonly outcome: Outcome | undefined;
        toJSON: () => AtofRecord;
        toString: () => string;
      }
    >
  >();
  // @ts-expect-error -- subscribers get them, programs make none
  void new AtofEvent();
}

export function recordsOfCalls(): void {
  expect<Equal<CallRecord, ToolCallStarted | ToolCallCompleted>>();
  type Started = {
    event: "started";
    uuid: string;
    tool: string;
    callerId: string | null;
    timestamp: number;
  };
  expect<Equal<Members<ToolCallStarted>, Started>>();
  expect<
    Equal<
      Members<ToolCallCompleted>,
      {
        event: "completed";
        uuid: string;
        tool: string;
        callerId: string | null;
        timestamp: number;
        outcome: Outcome;
        errorType: string | null;
        duration: number;
        shortCircuited: boolean;
      }
    >
  >();
}

export function recordsAreToldApart(record: CallRecord): number {
  // @ts-expect-error -- a call that has only started has no duration
  void record.duration;
  return record.event === "completed" ? record.duration : record.timestamp;
}

export function subscribing(): void {
  type Register<T> = (name: string, fn: (given: T) => Awaitable<unknown>, options?: EntryOptions) => void;
  expect<Equal<typeof subscribers.register, Register<AtofEvent>>>();
  expect<Equal<typeof subscribers.registerCalls, Register<CallRecord>>>();
  expect<Equal<typeof subscribers.deregister, (name: string, options?: EntryOptions) => boolean>>();
  expect<Equal<typeof subscribers.flush, (timeout?: number) => Promise<number>>>();
  expect<Equal<typeof subscribers.flushAsync, typeof subscribers.flush>>();
  subscribers.register("plain", (event) => void event.name);
  subscribers.register("async", async ({ data, outcome }) => console.log(data, outcome));
  subscribers.register("none", () => {});
  // @ts-expect-error -- a subscriber gets one argument
  subscribers.register("two", (event: AtofEvent, more: number) => [event, more]);
  // @ts-expect-error -- these are not the records of calls
  subscribers.register("records", (record: CallRecord) => record);
}

export function exporting_(): void {
  type Jsonl = (path: string, options?: { name?: string | undefined }) => void;
  expect<Equal<typeof exporters.jsonl, Jsonl>>();
  expect<Equal<typeof exporting, typeof exporters>>();
}
