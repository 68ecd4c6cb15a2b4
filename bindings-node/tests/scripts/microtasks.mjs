/** Makes calls and awaits nothing else; prints how many events came, and how many were dropped. */

import { guardrails, Runtime, subscribers, tools } from "callweir";

const [kind, count] = process.argv.slice(2);
let delivered = 0;
let turned = false;
subscribers.register("s", kind === "async" ? async () => void (delivered += 1) : () => void (delivered += 1));
if (kind === "two") subscribers.register("t", async () => undefined);
if (kind === "sanitized") guardrails.registerToolSanitizeRequest("s", 0, async (_, args) => args);
await null;
setImmediate(() => (turned = true));
// An asynchronous subscriber needs turns of the microtask queue for itself; only an asynchronous tool leaves any.
const work = kind === "plain" ? (args) => args.number : async (args) => args.number;
for (let number = 0; number < Number(count); number++) {
  await tools.execute("t", { number }, work);
}
const before = turned;
await subscribers.flush(20_000);
console.log(JSON.stringify([delivered, Runtime.default().counts().dropped, before]));
