/** Shuts down with a scope and a manual call open, and tries everything afterwards. */

import { exporters, guardrails, scope, shutdown, ShutDown, subscribers, tools } from "callweir";

exporters.jsonl(process.argv[2]);
for (let number = 0; number < 100; number++) await tools.execute(`t${number}`, {}, (args) => args);
const handle = scope.push("S");
const manual = tools.call("m", {});
console.log(await shutdown(5000), await shutdown(5000));
let ran = false;
const attempts = [
  () => tools.execute("late", {}, () => (ran = true)),
  () => tools.conditionalExecution("late", {}),
  async () => guardrails.registerToolConditionalExecution("g", 0, () => undefined),
  async () => subscribers.register("s", () => undefined),
];
for (const attempt of attempts) {
  const error = await attempt().then(
    () => undefined,
    (error) => error,
  );
  console.log(error instanceof ShutDown, error?.code);
}
scope.event("late");
scope.pop(handle);
console.log(ran, await subscribers.flush(), manual.uuid.length);
