/** Every kind of callback, each with a call that reaches it. */

import { Runtime, scope, subscribers, tool, ToolContext, ToolNotFound, ToolRegistry, tools } from "callweir";

import { add, echo } from "./helpers.mjs";

/** A tool that gives its arguments and emits a mark. */
const marking = (args) => {
  scope.event("m", { n: 1 });
  return args;
};

const dispatched = (fn, { hook, work = marking, name = "t" } = {}) => {
  return (args, signal) => {
    const registry = new ToolRegistry().register(tool({ name: "t" }, work));
    if (fn !== undefined) registry.use(fn);
    if (hook !== undefined) registry.use({ name: "hook", run: (call, next) => next(call), onRefused: hook });
    return registry.dispatch(name, args, signal === undefined ? undefined : new ToolContext({ signal }));
  };
};

const family = (wireName, good, rest) => ({
  good,
  install(fn) {
    add(wireName, fn);
    return dispatched();
  },
  ...rest,
});

const first = (_, second) => second;

/**
 * For each: `install(fn)` puts the callback in its place and gives `(args, signal) => promise` of a call that
 * reaches it; `good` is what a callback that changes nothing does; `closed` says that its failure reaches the
 * caller; `value` says what becomes of an object that it returns.
 */
export const STAGES = {
  guardrail: family("tool.conditional_execution", () => undefined, { closed: true, value: "refused" }),
  request: family("tool.request", first, { closed: true, value: "passed" }),
  execution: family("tool.execution", (_, args, next) => next(args), { closed: true, value: "passed" }),
  middleware: {
    closed: true,
    value: "passed",
    good: (call, next) => next(call),
    install: (fn) => dispatched(fn),
  },
  "middleware object": {
    closed: true,
    value: "passed",
    good: (call, next) => next(call),
    install: (fn) => dispatched({ name: "object", run: (call, next) => fn(call, next) }),
  },
  "refusal hook": {
    closed: true,
    value: "ignored",
    refusal: ToolNotFound,
    good: () => undefined,
    install: (fn) => dispatched(undefined, { hook: fn, name: "nope" }),
  },
  tool: {
    closed: true,
    value: "passed",
    isWork: true,
    good: echo,
    install: (fn) => dispatched(undefined, { work: fn }),
  },
  work: {
    closed: true,
    value: "passed",
    isWork: true,
    good: echo,
    install: (fn) => (args, signal) => tools.execute("t", args, fn, { signal }),
  },
  "request sanitizer": family("tool.sanitize_request", first, { value: "ignored" }),
  "response sanitizer": family("tool.sanitize_response", first, { value: "ignored" }),
  "mark sanitizer": family("mark.sanitize", first, { value: "ignored" }),
  "start sanitizer": family("scope.sanitize_start", first, { value: "ignored" }),
  "end sanitizer": family("scope.sanitize_end", first, { value: "ignored" }),
  subscriber: {
    value: "ignored",
    good: () => undefined,
    install(fn) {
      subscribers.register("entry", fn);
      return dispatched();
    },
  },
  "call subscriber": {
    value: "ignored",
    good: () => undefined,
    install(fn) {
      subscribers.registerCalls("entry", fn);
      return dispatched();
    },
  },
};

/** The stages whose failures reach the caller. */
export const CLOSED = Object.keys(STAGES).filter((stage) => STAGES[stage].closed);

/** The stages whose failures nobody but the counters sees. */
export const OPEN = Object.keys(STAGES).filter((stage) => !STAGES[stage].closed);

/** How many failures the default runtime has counted. */
export const failures = () => Runtime.default().counts().failures;
