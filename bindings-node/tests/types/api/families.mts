/** Guardrails and intercepts: what their functions take, and what the callbacks of each family look like. */

import {
  type Around,
  type Awaitable,
  type AtofEvent,
  type EntryOptions,
  type EventFields,
  type EventTransform,
  type Family,
  type FamilyCallbacks,
  type Gate,
  guardrails,
  intercepts,
  type ModelCallback,
  type Next,
  type RegisterOptions,
  Runtime,
  type ScopeHandle,
  type Transform,
  Verdict,
} from "callweir";

import { type Equal, expect, type Members, type Own } from "./equal.mjs";

type Register<F> = (name: string, priority: number, fn: F, options?: EntryOptions) => void;
type Breaking<F> = (
  name: string,
  priority: number,
  breakChain: boolean,
  fn: F,
  options?: EntryOptions,
) => void;
type Deregister = (name: string, options?: EntryOptions) => boolean;

/** The functions of a module that register, by what they are, and those that deregister. */
type Functions<Names extends string, F> = { [N in Names as `register${N}`]: F } & {
  [N in Names as `deregister${N}`]: Deregister;
};

export function guardrailFunctions(): void {
  type Gates = Functions<"ToolConditionalExecution", Register<Gate>>;
  type Copies = Functions<"ToolSanitizeRequest" | "ToolSanitizeResponse", Register<Transform>>;
  type Model = "LlmConditionalExecution" | "LlmSanitizeRequest" | "LlmSanitizeResponse";
  type Event = "MarkSanitize" | "ScopeSanitizeStart" | "ScopeSanitizeEnd";
  type Events = Functions<Event, Register<EventTransform>>;
  type All = Gates & Copies & Functions<Model, Register<ModelCallback>> & Events;
  expect<Equal<Members<typeof guardrails>, Members<All>>>();
}

export function interceptFunctions(): void {
  type Tools = Functions<"ToolRequest", Breaking<Transform>> & Functions<"ToolExecution", Register<Around>>;
  type Models = Functions<"LlmExecution" | "LlmStreamExecution", Register<ModelCallback>>;
  type All = Tools & Models & Functions<"LlmRequest", Breaking<ModelCallback>>;
  expect<Equal<Members<typeof intercepts>, Members<All>>>();
}

export function families(): void {
  type Model =
    | "llm.conditional_execution"
    | "llm.request"
    | "llm.execution"
    | "llm.stream_execution"
    | "llm.sanitize_request"
    | "llm.sanitize_response";
  type All = {
    "tool.conditional_execution": Gate;
    "tool.request": Transform;
    "tool.execution": Around;
    "tool.sanitize_request": Transform;
    "tool.sanitize_response": Transform;
  } & { [M in Model]: ModelCallback } & {
    [E in "mark.sanitize" | "scope.sanitize_start" | "scope.sanitize_end"]: EventTransform;
  };
  expect<Equal<Members<FamilyCallbacks>, Members<All>>>();
  expect<Equal<Family, keyof All>>();
}

export function callbackTypes(): void {
  expect<Equal<Gate<1>, (name: string, args: 1) => Awaitable<string | Verdict | undefined | null | void>>>();
  expect<Equal<Transform<1>, (name: string, args: 1) => Awaitable<unknown>>>();
  expect<Equal<Next<1, 2>, (args?: 1) => Promise<2>>>();
  expect<Equal<Around<1, 2>, (name: string, args: 1, next: Next<1, 2>) => Awaitable<unknown>>>();
  expect<Equal<[Gate, Transform], [Gate<any>, Transform<any>]>>();
  expect<Equal<[Next, Around], [Next<any, any>, Around<any, any>]>>();
  expect<Equal<ModelCallback, (...given: any[]) => any>>();
  type Changed = Awaitable<Partial<EventFields> | undefined | null | void>;
  expect<Equal<EventTransform, (event: AtofEvent, fields: EventFields) => Changed>>();
  expect<Equal<Members<EventFields>, { data: any; category_profile: any; metadata: any }>>();
  expect<Equal<Awaitable<1>, 1 | PromiseLike<1>>>();
}

export function verdicts(): void {
  expect<Equal<Members<Verdict>, { readonly allowed: boolean; readonly reason: string }>>();
  expect<Equal<typeof Verdict.allow, () => Verdict>>();
  expect<Equal<typeof Verdict.reject, (reason: string) => Verdict>>();
  // @ts-expect-error -- `allow` and `reject` make them
  void new Verdict(true, "");
}

export function entryOptions(): void {
  expect<Equal<Members<EntryOptions>, { scope?: ScopeHandle | undefined }>>();
  type Own_ = { priority?: number | undefined; breakChain?: boolean | undefined };
  expect<Equal<Own<RegisterOptions, EntryOptions>, Own_>>();
}

export function gatesMayAnswer(): void {
  const { registerToolConditionalExecution: register } = guardrails;
  register("nothing", 0, () => {});
  register("text", 0, (name, args) => (args.n > 1 ? `${name.trim()} is too much` : undefined));
  register("verdict", 0, async () => Verdict.allow());
  register("typed", 0, async (_, args: { n: number }) => (args.n > 1 ? Verdict.reject("no") : null));
  // @ts-expect-error -- a boolean says too little
  register("boolean", 0, () => true);
  // @ts-expect-error -- nor does a promise of one
  register("async boolean", 0, async () => false);
  // @ts-expect-error -- a priority is needed
  register("no priority", () => {});
  // @ts-expect-error -- a chain of guardrails is not broken off
  register("break", 0, false, () => {});
}

export function interceptsMayAnswer(): void {
  intercepts.registerToolRequest("r", 0, true, (_, args: { n: number }) => ({ ...args, n: 1 }));
  // @ts-expect-error -- whether the chain breaks off is said
  intercepts.registerToolRequest("r", 0, (_, args) => args);
  intercepts.registerToolExecution("e", 0, async (name, args, next) => {
    expect<Equal<typeof name, string>>();
    expect<Equal<typeof next, Next>>();
    const result = await next({ ...args, n: 1 });
    expect<Equal<typeof result, any>>();
    return result ?? (await next());
  });
  const typed: Around<{ n: number }, string> = async (_, { n }, next) => (await next({ n })).length;
  intercepts.registerToolExecution("typed", 0, typed);
  // @ts-expect-error -- `next` takes what the work takes
  const wrong: Around<{ n: number }> = (_, __, next) => next({ n: "1" });
  void wrong;
}

export function sanitizersMayAnswer(): void {
  guardrails.registerMarkSanitize("m", 0, ({ name }, fields) => ({ ...fields, data: name }));
  guardrails.registerScopeSanitizeStart("s", 0, async (event) => ({ metadata: event.attributes }));
  guardrails.registerScopeSanitizeEnd("e", 0, () => {});
  // @ts-expect-error -- an event has no such field
  guardrails.registerMarkSanitize("wrong", 0, () => ({ payload: 1 }));
  guardrails.registerToolSanitizeResponse("r", 0, (_, result) => ({ ...result, card: "****" }));
  const { deregisterMarkSanitize: deregister } = guardrails;
  expect<Equal<ReturnType<typeof deregister>, boolean>>();
}

export function theGenericFormKnowsEachFamily(): void {
  const runtime = Runtime.default();
  runtime.register("tool.conditional_execution", "g", (name, args) => {
    expect<Equal<[typeof name, typeof args], [string, any]>>();
    return "no";
  });
  runtime.register("mark.sanitize", "m", (event, fields) => {
    expect<Equal<[typeof event, typeof fields], [AtofEvent, EventFields]>>();
  });
  runtime.register("tool.request", "r", (_, args) => args, { priority: 1, breakChain: true });
  runtime.register("tool.request", "s", (_, args) => args, { priority: undefined, scope: undefined });
  // @ts-expect-error -- a guardrail gives no boolean
  runtime.register("tool.conditional_execution", "g", () => true);
  // @ts-expect-error -- there is no such family
  runtime.register("tool.conditional", "g", () => "no");
  // @ts-expect-error -- there is no such family
  runtime.deregister("tool.conditional", "g");
}
