/** Lets go of things after their use; prints which of them are still there after a collection. */

import { AsyncLocalStorage } from "node:async_hooks";

import { guardrails, intercepts, Runtime, scope, subscribers } from "callweir";
import { tool, ToolContext, ToolRegistry, tools } from "callweir";

const watched = new Map();
const watch = (name, thing) => (watched.set(name, new WeakRef(thing)), thing);
const turn = () => new Promise((resolve) => setImmediate(resolve));
const never = () => new Promise(() => undefined);
const als = new AsyncLocalStorage();
const thing = (name) => watch(name, { name });

async function calls() {
  guardrails.registerToolConditionalExecution("g", 0, watch("guardrail", () => undefined));
  intercepts.registerToolRequest("r", 0, false, watch("request", (_, args) => args));
  intercepts.registerToolExecution("e", 0, watch("execution", (_, args, next) => next(args)));
  guardrails.registerToolSanitizeRequest("s", 0, watch("sanitizer", async (_, args) => args));
  subscribers.register("local", watch("subscriber", (event) => event.data));
  const store = thing("store");
  await als.run(store, async () => {
    await tools.execute("t", thing("arguments"), watch("work", async () => thing("result")));
    await tools.execute("t", {}, () => Promise.reject(thing("error"))).catch(() => undefined);
    const controller = new AbortController();
    watch("signal", controller.signal);
    const options = { signal: controller.signal, metadata: thing("metadata") };
    const work = watch("hung work", () => never());
    const hung = tools.execute("t", thing("arguments of a cancelled call"), work, options);
    controller.abort(thing("reason"));
    await hung.catch(() => undefined);
    const local = watch("callback of a scope", () => undefined);
    await scope.scope("S", { input: thing("input") }, (handle) => {
      watch("scope", handle);
      handle.setOutput(thing("output"));
      guardrails.registerToolConditionalExecution("local", 0, local, { scope: handle });
    });
    tools.callEnd(watch("manual call", tools.call("m", thing("manual arguments"))), thing("manual result"));
  });
  await subscribers.flush();
  guardrails.deregisterToolConditionalExecution("g");
  intercepts.deregisterToolRequest("r");
  intercepts.deregisterToolExecution("e");
  guardrails.deregisterToolSanitizeRequest("s");
  subscribers.deregister("local");
  try {
    guardrails.registerToolConditionalExecution("bad", 0.5, watch("refused callback", () => undefined));
  } catch {
    // As it should be.
  }
}

async function registries() {
  const registry = watch("registry", new ToolRegistry());
  const work = watch("tool", () => thing("a tool's result"));
  registry.use(watch("middleware", (one, next) => next(watch("edited call", one.withArguments({})))));
  registry.register(tool({ name: "t" }, work));
  const metadata = thing("context metadata");
  const context = watch("context", new ToolContext({ metadata, deadline: 60_000 }));
  await registry.dispatch("t", {}, context);
  await registry.dispatch("nope", {}).catch((error) => void watch("refusal", error));
  await registry.subset(["t"]).dispatch("t", {});
}

async function runtimes() {
  const runtime = watch("runtime", new Runtime({ default: watch("converter", () => undefined) }));
  runtime.register("tool.request", "r", watch("callback of a runtime", (_, args) => args));
  runtime.subscribe("s", watch("subscriber of a runtime", () => undefined));
  await runtime.execute("t", {}, () => 1);
  await runtime.flush();
  const shut = watch("runtime that was shut down", new Runtime());
  shut.subscribe("s", watch("subscriber of that runtime", () => undefined));
  await shut.shutdown();
}

/** A runtime with a callback that refers to it. */
async function circle() {
  const runtime = watch("runtime of a circle", new Runtime());
  runtime.subscribe("s", watch("callback of a circle", () => runtime.counts()));
  await runtime.execute("t", {}, () => 1);
  await runtime.flush();
  return runtime;
}

const broken = async () => (await circle()).shutdown();
const WAYS = { calls, registries, runtimes, circle, "broken circle": broken };
await WAYS[process.argv[2]]();

function left() {
  const alive = [...watched].filter(([, reference]) => reference.deref() !== undefined);
  return alive.map(([name]) => name);
}

for (let time = 0; time < 50 && left().length > 0; time++) {
  await turn();
  globalThis.gc();
}
console.log(`${watched.size > 1} ${left()}`);
