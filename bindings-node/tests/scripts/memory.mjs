/** Repeats what it is told; prints by how many megabytes that has made the process grow after a warm-up. */

import {
  currentCall,
  guardrails,
  intercepts,
  Runtime,
  scope,
  subscribers,
  tool,
  ToolContext,
  ToolRegistry,
  tools,
} from "callweir";

const [how, rounds] = [process.argv[2], Number(process.argv[3])];
const MEGABYTE = 2 ** 20;
const turn = () => new Promise((resolve) => setImmediate(resolve));
const echo = (args) => args;
const passing = (_, value) => value;

/** A callback that holds 10 kB. */
function heavy() {
  const held = Buffer.alloc(10_000).fill(7).toString("latin1") + Math.random();
  return (_, value) => (held.length > 0 ? value : undefined);
}

function registerInline() {
  guardrails.registerToolConditionalExecution("g", 0, () => undefined);
  intercepts.registerToolRequest("r", 0, false, passing);
  intercepts.registerToolExecution("e", 0, (_, args, next) => next(args));
  guardrails.registerToolSanitizeRequest("s", 0, passing);
}

const registry = new ToolRegistry().use((one, next) => next(one)).register(tool({ name: "t" }, echo));

const WAYS = {
  registrations: async (round) => {
    const name = `n${round % 7}`;
    guardrails.registerToolConditionalExecution(name, 0, heavy());
    intercepts.registerToolExecution(name, 0, heavy());
    subscribers.register(name, heavy());
    guardrails.deregisterToolConditionalExecution(name);
    intercepts.deregisterToolExecution(name);
    subscribers.deregister(name);
    // A taken name, a wrong priority: what was given is let go of.
    if (round % 50 === 0) {
      for (const priority of [0, 0.5]) {
        try {
          guardrails.registerToolSanitizeRequest("s", priority, heavy());
        } catch {
          // As it should be.
        }
      }
      await turn();
    }
  },
  "scope registrations": async (round) => {
    const handle = scope.push("S");
    intercepts.registerToolExecution("e", 0, heavy(), { scope: handle });
    if (round % 100 === 0) await tools.execute("t", {}, echo);
    scope.pop(handle);
  },
  calls: (round) => tools.execute("t", { round }, round % 10 === 0 ? async (args) => args : echo),
  dispatches: (round) => registry.dispatch("t", { round }),
  failures: async (round) => {
    const signal = round % 3 === 0 ? AbortSignal.abort() : undefined;
    const fail = () => {
      throw new Error("mine");
    };
    await tools.execute("t", {}, fail, { signal }).catch(() => undefined);
    const context = new ToolContext({ signal });
    if (round % 20 === 0) await registry.dispatch("nope", {}, context).catch(() => undefined);
  },
  scopes: async () => {
    await scope.scope("S", async () => tools.execute("t", {}, () => void currentCall().uuid));
    scope.event("m", { n: 1 });
    tools.callEnd(tools.call("m", {}), 1);
  },
  runtimes: async () => {
    const runtime = new Runtime();
    runtime.register("tool.request", "r", heavy());
    runtime.subscribe("s", heavy());
    await runtime.execute("t", {}, echo);
    await runtime.shutdown();
  },
};

async function repeat(count) {
  for (let round = 0; round < count; round++) {
    await WAYS[how](round);
    if (round % 200 !== 0) continue;
    await subscribers.flush();
    // What is garbage anyway shall not count as growth.
    if (round % 10_000 === 0 || how === "runtimes") globalThis.gc?.();
    await turn();
  }
  await subscribers.flush();
}

/** Measures what is in use; without a collector at hand that is the least that is seen in a while. */
async function measure() {
  if (globalThis.gc !== undefined) {
    for (let time = 0; time < 4; time++) {
      globalThis.gc();
      await turn();
    }
    return process.memoryUsage.rss();
  }
  let least = Infinity;
  for (let time = 0; time < 20; time++) {
    await repeat(rounds / 200);
    least = Math.min(least, process.memoryUsage.rss());
  }
  return least;
}

if (how === "calls" || how === "failures") registerInline();
let seen = 0;
subscribers.register("seen", (event) => void (seen += event.name.length));
await repeat(rounds / 2);
const before = await measure();
const heap = process.memoryUsage().heapUsed;
await repeat(rounds);
const grown = (await measure()) - before;
const heapGrown = process.memoryUsage().heapUsed - heap;
console.log(JSON.stringify({ grown: grown / MEGABYTE, heap: heapGrown / MEGABYTE, seen }));
