/** Errors: their bases, constructors and fields. */

import {
  AlreadyEnded,
  AlreadyExists,
  Cancelled,
  CallRejected,
  CallweirError,
  type CallweirErrorOptions,
  Codec,
  Denied,
  Expired,
  Internal,
  InvalidArgument,
  InvalidConfig,
  InvalidReturn,
  NotFound,
  NotJson,
  Plugin,
  ShutDown,
  TimedOut,
  ToolCallDenied,
  ToolCallFailed,
  ToolNotFound,
  ToolNotPermitted,
  WouldDeadlock,
} from "callweir";

import { type Equal, expect, type Members, type Own } from "./equal.mjs";

type Takes<C extends abstract new (...given: any) => unknown> = ConstructorParameters<C>;
type With<Fields extends unknown[]> = [...Fields, options?: CallweirErrorOptions];
type Message = [message?: string, options?: CallweirErrorOptions];
type Text<Names extends string> = { readonly [N in Names]: string };

export function theBase(): void {
  type Fields = { code: string; readonly kind: string; forModel: () => string };
  expect<Equal<Own<CallweirError, Error>, Fields>>();
  expect<Equal<Takes<typeof CallweirError>, Message>>();
  const error: Error = new CallweirError("text", { cause: 1 });
  expect<Equal<[typeof CallweirError.kind, typeof CallweirError.code], [string, string]>>();
  void error;
}

export function theirOptions(): void {
  type All = { message?: string | undefined; code?: string | undefined; cause?: unknown };
  expect<Equal<Members<CallweirErrorOptions>, All>>();
  // @ts-expect-error -- there is no such option
  void new Denied("no", { reason: "no" });
}

export function refusals(): void {
  expect<Equal<Own<Denied, CallweirError>, Text<"reason">>>();
  expect<Equal<Takes<typeof Denied>, With<[reason: string]>>>();
  expect<Equal<Own<ToolCallDenied, Denied>, Text<"tool">>>();
  expect<Equal<Takes<typeof ToolCallDenied>, With<[tool: string, reason: string]>>>();
  expect<Equal<Own<CallRejected, Denied>, Text<"targetName" | "by">>>();
  expect<Equal<Takes<typeof CallRejected>, With<[name: string, reason: string, by: string]>>>();
  const denied: Denied[] = [new ToolCallDenied("t", "no"), new CallRejected("t", "no", "g")];
  void denied;
  // @ts-expect-error -- a reason is needed
  void new ToolCallDenied("t");
}

export function missingTools(): void {
  expect<Equal<Own<ToolNotFound, CallweirError>, Text<"tool">>>();
  expect<Equal<Takes<typeof ToolNotFound>, With<[tool: string]>>>();
  expect<Equal<Own<ToolNotPermitted, ToolNotFound>, {}>>();
  expect<Equal<Takes<typeof ToolNotPermitted>, With<[tool: string]>>>();
}

export function failures(): void {
  expect<Equal<Own<ToolCallFailed, CallweirError>, { readonly tool?: string; readonly type?: string }>>();
  expect<Equal<Takes<typeof ToolCallFailed>, With<[tool: string, type: string]>>>();
  expect<Equal<Own<TimedOut, ToolCallFailed>, {}>>();
  expect<Equal<Takes<typeof TimedOut>, Message>>();
}

export function errorsWithoutFields(): void {
  expect<Equal<Own<Cancelled, CallweirError>, {}>>();
  expect<Equal<Own<Expired, CallweirError>, {}>>();
  expect<Equal<Own<AlreadyEnded, CallweirError>, {}>>();
  expect<Equal<Own<ShutDown, CallweirError>, {}>>();
  expect<Equal<Own<WouldDeadlock, CallweirError>, {}>>();
  expect<Equal<Own<Internal, CallweirError>, {}>>();
  expect<Equal<Takes<typeof Cancelled>, Message>>();
  expect<Equal<Takes<typeof Expired>, Message>>();
  expect<Equal<Takes<typeof AlreadyEnded>, Message>>();
  expect<Equal<Takes<typeof ShutDown>, Message>>();
  expect<Equal<Takes<typeof WouldDeadlock>, Message>>();
  expect<Equal<Takes<typeof Internal>, Message>>();
}

export function names(): void {
  expect<Equal<Own<AlreadyExists, CallweirError>, Text<"targetName">>>();
  expect<Equal<Takes<typeof AlreadyExists>, With<[name: string]>>>();
  expect<Equal<Own<NotFound, CallweirError>, Text<"targetName">>>();
  expect<Equal<Takes<typeof NotFound>, With<[name: string]>>>();
}

export function paths(): void {
  type Path = Text<"path">;
  expect<Equal<Own<NotJson, CallweirError>, Path>>();
  expect<Equal<Own<InvalidArgument, CallweirError>, Path>>();
  expect<Equal<Own<InvalidConfig, CallweirError>, Path>>();
  expect<Equal<Own<Codec, CallweirError>, Path>>();
  expect<Equal<Takes<typeof NotJson>, With<[path: string]>>>();
  expect<Equal<Takes<typeof InvalidArgument>, With<[path: string]>>>();
  expect<Equal<Takes<typeof InvalidConfig>, With<[path: string]>>>();
  expect<Equal<Takes<typeof Codec>, With<[path: string]>>>();
}

export function callbacksAndPlugins(): void {
  expect<Equal<Own<InvalidReturn, CallweirError>, Text<"family" | "entry">>>();
  expect<Equal<Takes<typeof InvalidReturn>, With<[family: string, entry: string]>>>();
  expect<Equal<Own<Plugin, CallweirError>, Text<"component">>>();
  expect<Equal<Takes<typeof Plugin>, With<[component: string]>>>();
}

export function whatIsThrownIsToldApart(error: unknown): string {
  if (error instanceof ToolCallDenied) return error.tool + error.reason;
  if (error instanceof CallRejected) return error.by + error.targetName;
  if (error instanceof Denied) return error.reason;
  if (error instanceof TimedOut) return error.tool ?? error.kind;
  if (error instanceof Cancelled) return error.code;
  if (error instanceof Expired) return error.forModel();
  if (error instanceof CallweirError) return error.kind;
  // @ts-expect-error -- nothing is known of it
  return error.message;
}

export function notEveryErrorIsTheFirstThatWasAskedFor(error: CallweirError): string {
  if (error instanceof Cancelled) return "cancelled";
  if (error instanceof TimedOut) return "timed out";
  return error.code;
}
