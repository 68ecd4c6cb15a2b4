/** Makes 100 calls with a file of events, and ends in the way that it is told. */

import { exporters, guardrails, intercepts, scope, shutdown, subscribers, tools } from "callweir";

const [how, path] = process.argv.slice(2);
exporters.jsonl(path);
const never = () => new Promise(() => undefined);
const leave = () => process.exit(5);
const passing = (_, value) => value;

const WAYS = {
  natural: () => undefined,
  "exit code": () => void (process.exitCode = 7),
  "process.exit": () => process.exit(0),
  exception: () => {
    throw new Error("mine");
  },
  "later exception": () => {
    setTimeout(() => {
      throw new Error("mine");
    }, 1);
  },
  rejection: () => void Promise.reject(new Error("mine")),
  "pending await": () => never(),
  "in a tool": () => tools.execute("last", {}, leave),
  "in an async tool": () =>
    tools.execute("last", {}, async () => {
      await null;
      leave();
    }),
  "in a guardrail": () => {
    guardrails.registerToolConditionalExecution("g", 0, leave);
    return tools.execute("last", {}, passing);
  },
  "in an intercept": () => {
    intercepts.registerToolExecution("e", 0, async (_, args, next) => (await next(), leave()));
    return tools.execute("last", {}, passing);
  },
  "in a sanitizer": () => {
    guardrails.registerToolSanitizeRequest("s", 0, leave);
    return tools.execute("last", {}, passing).then(never);
  },
  "in a subscriber": () => {
    subscribers.register("s", leave);
    return tools.execute("last", {}, passing).then(never);
  },
  "in a scope": () => scope.scope("S", leave),
  "after shutdown": async () => {
    await shutdown();
    process.exit(0);
  },
  open: () => {
    scope.push("S");
    tools.call("m", {});
  },
  "open at process.exit": () => {
    scope.push("S");
    tools.call("m", {});
    process.exit(0);
  },
  signal: () => {
    process.kill(process.pid, "SIGTERM");
    return never();
  },
};

for (let number = 0; number < 100; number++) {
  await tools.execute(`t${number}`, { n: number }, (args) => args);
}
await WAYS[how]();
