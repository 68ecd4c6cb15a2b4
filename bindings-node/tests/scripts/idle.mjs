/** Registers one of each callback, or leaves a call open, and ends; prints when that was. */

import { exporters, guardrails, intercepts, Runtime, scope, subscribers } from "callweir";
import { tool, ToolRegistry, tools } from "callweir";

const [how, path] = process.argv.slice(2);
const passing = (_, value) => value;
const around = (_, args, next) => next(args);
const sleeping = (milliseconds, unref) =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve("slept"), milliseconds);
    if (unref) timer.unref();
  });
const ends = (promise) => void promise.then((value) => console.log(value));
const late = (fn) => (...given) => sleeping(200, true).then(() => fn(...given));

function registerAll() {
  guardrails.registerToolConditionalExecution("a", 0, () => undefined);
  guardrails.registerToolSanitizeRequest("a", 0, passing);
  guardrails.registerToolSanitizeResponse("a", 0, passing);
  guardrails.registerMarkSanitize("a", 0, passing);
  guardrails.registerScopeSanitizeStart("a", 0, async (_, fields) => fields);
  guardrails.registerScopeSanitizeEnd("a", 0, passing);
  guardrails.registerLlmConditionalExecution("a", 0, () => undefined);
  guardrails.registerLlmSanitizeRequest("a", 0, (request, _context) => request);
  guardrails.registerLlmSanitizeResponse("a", 0, (response, _context) => response);
  intercepts.registerToolRequest("a", 0, false, passing);
  intercepts.registerToolExecution("a", 0, around);
  intercepts.registerLlmRequest("a", 0, false, (_, request) => request);
  intercepts.registerLlmExecution("a", 0, around);
  intercepts.registerLlmStreamExecution("a", 0, around);
  subscribers.register("a", () => undefined);
  subscribers.register("b", async () => undefined);
  subscribers.registerCalls("c", () => undefined);
  exporters.jsonl(path);
  new Runtime({ default: String }).subscribe("a", () => undefined);
  return new ToolRegistry().use((one, next) => next(one)).register(tool({ name: "t" }, () => 1));
}

const WAYS = {
  registered: () => void registerAll(),
  used: async () => {
    const registry = registerAll();
    await registry.dispatch("t", {});
    await scope.scope("S", () => scope.event("m"));
  },
  "a timer": () => ends(tools.execute("t", {}, () => sleeping(300, false))),
  "an unref'd timer": () => ends(tools.execute("t", {}, () => sleeping(300, true))),
  "an unref'd timer of a dispatch": () => {
    ends(new ToolRegistry().register(tool({ name: "t" }, () => sleeping(300, true))).dispatch("t", {}));
  },
  "an unref'd timer of a guardrail": () => {
    guardrails.registerToolConditionalExecution("g", 0, late(() => undefined));
    ends(tools.execute("t", {}, () => "slept"));
  },
  "an unref'd timer of a phase": () => {
    guardrails.registerToolConditionalExecution("g", 0, late(() => undefined));
    ends(tools.conditionalExecution("t", {}).then(() => "slept"));
  },
  "an unref'd timer and a flush": () => {
    subscribers.register("s", late(() => undefined));
    scope.event("m");
    ends(subscribers.flush().then((left) => (left === 0 ? "slept" : left)));
  },
  hung: () => void tools.execute("t", {}, () => new Promise(() => undefined)),
  cancelled: () => {
    const controller = new AbortController();
    const never = () => new Promise(() => undefined);
    tools.execute("t", {}, never, { signal: controller.signal }).catch((error) => console.log(error));
    controller.abort("aborted");
  },
};

await WAYS[how]();
const ended = performance.now();
process.on("exit", () => console.log(performance.now() - ended < 1000 ? "soon" : "late"));
