/** Workers, each with a default runtime of its own; prints what the case that it is told shows. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const [how, ...paths] = isMainThread ? process.argv.slice(2) : [workerData.how, ...workerData.paths];
const start = (data) => new Worker(new URL(import.meta.url), { workerData: { how, paths, ...data } });
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const never = () => new Promise(() => undefined);
const echo = (args) => args;

/** Waits for a worker's message and its end. */
async function messageOf(worker) {
  const [[message], [code]] = await Promise.all([once(worker, "message"), once(worker, "exit")]);
  assert.equal(code, 0);
  return message;
}

const MAIN = {
  "worker only": async () => console.log(await messageOf(start())),

  terminate: async () => {
    const { subscribers, tools } = await import("callweir");
    const names = [];
    subscribers.register("s", (event) => void names.push(event.name));
    const codes = [];
    for (let round = 0; round < 20; round++) {
      const worker = start({ round });
      await once(worker, "message");
      if (round % 2 === 1) await pause(round % 5);
      codes.push(await worker.terminate());
      assert.equal(await tools.execute(`t${round}`, 1, echo), 1);
    }
    assert.equal(await subscribers.flush(), 0);
    console.log(codes.every((code) => code === 1), names.length);
  },

  exit: async () => {
    const worker = start();
    const [code] = await once(worker, "exit");
    console.log(code);
  },

  throws: async () => {
    const worker = start();
    const ended = new Promise((resolve) => worker.on("exit", resolve));
    const [error] = await once(worker, "error");
    console.log(error.message, await ended);
  },

  apart: async () => {
    const { guardrails, registrations, Runtime, scope, subscribers, tools } = await import("callweir");
    const names = [];
    guardrails.registerToolConditionalExecution("g", 0, () => "no");
    subscribers.register("s", (event) => void names.push(event.name));
    await scope.scope("S", async () => console.log(await messageOf(start())));
    await assert.rejects(tools.execute("mine", {}, echo));
    await subscribers.flush();
    console.log(names.join(), registrations().length, Runtime.default().isShut);
  },

  two: async () => {
    const workers = paths.map((path, index) => start({ path, prefix: `w${index}.` }));
    const messages = await Promise.all(workers.map(messageOf));
    console.log(messages.join());
  },

  signal: async () => {
    const worker = start();
    console.log(await messageOf(worker));
  },

  "main ends first": async () => {
    const { exporters, tools } = await import("callweir");
    exporters.jsonl(paths[0]);
    start();
    await pause(200);
    for (let number = 0; number < 100; number++) await tools.execute("t", {}, echo);
    process.exit(0);
  },
};

const WORKER = {
  "worker only": async ({ guardrails, subscribers, tools }) => {
    const names = [];
    guardrails.registerToolConditionalExecution("g", 0, async () => undefined);
    subscribers.register("s", (event) => void names.push(event.name));
    const result = await tools.execute("t", 7, async (args) => (await pause(1), args));
    await subscribers.flush();
    parentPort.postMessage(`${result} ${names.join()}`);
  },

  terminate: async ({ guardrails, intercepts, subscribers, tool, ToolContext, ToolRegistry, tools }) => {
    const { round } = workerData;
    guardrails.registerToolConditionalExecution("g", 0, async () => void (await null));
    guardrails.registerToolSanitizeRequest("s", 0, async (_, args) => (round % 3 === 0 ? never() : args));
    intercepts.registerToolExecution("e", 0, (_, args, next) => next(args));
    subscribers.register("s", () => (round % 4 === 0 ? never() : undefined));
    const registry = new ToolRegistry().register(tool({ name: "t" }, never));
    const context = new ToolContext({ deadline: 5000, signal: new AbortController().signal });
    for (let number = 0; number < 5; number++) {
      void tools.execute("t", {}, number % 2 === 0 ? never : () => pause(1));
      void registry.dispatch("t", {}, context);
    }
    for (let number = 0; number < 50; number++) await tools.execute("quick", {}, echo);
    parentPort.postMessage("running");
    for (;;) await tools.execute("more", {}, () => pause(round % 2));
  },

  exit: async ({ tools }) => {
    void tools.execute("t", {}, never);
    await tools.execute("u", {}, () => process.exit(3));
  },

  throws: async ({ subscribers, tools }) => {
    subscribers.register("s", () => undefined);
    void tools.execute("t", {}, never);
    await tools.execute("u", {}, () => {
      throw new Error("mine");
    });
  },

  apart: async ({ registrations, Runtime, scope, tools }) => {
    const shown = [registrations().length, scope.getHandle() === undefined];
    const result = await tools.execute("theirs", 5, echo);
    await Runtime.default().shutdown();
    parentPort.postMessage([...shown, result].join());
  },

  two: async ({ exporters, Runtime, subscribers, tools }) => {
    const { path, prefix } = workerData;
    let count = 0;
    exporters.jsonl(path);
    subscribers.register("s", (event) => void (count += event.name.startsWith(prefix) ? 1 : 1000));
    for (let number = 0; number < 500; number++) {
      await tools.execute(`${prefix}${number}`, { number }, async (args) => (await null, args));
      if (number % 100 === 0) await pause(1);
    }
    await subscribers.flush();
    parentPort.postMessage(`${count} ${Runtime.default().counts().pending}`);
    // The rest is delivered when the worker ends.
    for (let number = 500; number < 600; number++) await tools.execute(`${prefix}${number}`, {}, echo);
  },

  signal: async ({ TimedOut, tool, ToolContext, ToolRegistry, tools }) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort("aborted"), 20);
    const { signal } = controller;
    const aborted = await tools.execute("t", {}, never, { signal }).catch((error) => error);
    const registry = new ToolRegistry().register(tool({ name: "t" }, never));
    const late = await registry.dispatch("t", {}, new ToolContext({ deadline: 20 })).catch((error) => error);
    parentPort.postMessage([aborted, late instanceof TimedOut].join());
  },

  "main ends first": async ({ subscribers, tools }) => {
    subscribers.register("s", async () => pause(1));
    for (;;) await tools.execute("t", {}, () => pause(0));
  },
};

if (isMainThread) await MAIN[how]();
else await WORKER[how](await import("callweir"));
