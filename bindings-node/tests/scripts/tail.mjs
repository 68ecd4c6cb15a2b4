/** Ends with events that callbacks have not got yet; prints at the very end how many they got. */

import { guardrails, Runtime, scope, subscribers, tools } from "callweir";

const [kind, how] = process.argv.slice(2);
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));
const got = { subscriber: 0, sanitizer: 0, other: 0 };
const count = (what) => {
  const plain = () => void (got[what] += 1);
  return kind === "plain" ? plain : () => pause().then(plain);
};

/** A runtime that nobody refers to any more has its events delivered too. */
function drop() {
  const runtime = new Runtime();
  runtime.subscribe("s", count("other"));
  for (let number = 0; number < 10; number++) runtime.mark("m");
}

const sanitize = count("sanitizer");
guardrails.registerToolSanitizeRequest("s", 0, (_, args) => {
  const waiting = sanitize();
  return waiting === undefined ? args : waiting.then(() => args);
});
subscribers.register("s", count("subscriber"));
for (let number = 0; number < 50; number++) await tools.execute("t", {}, (args) => args);
scope.event("m");
drop();
globalThis.gc?.();
if (how === "stuck") subscribers.register("stuck", () => new Promise(() => undefined));
scope.event("last");
process.on("exit", () => console.log(JSON.stringify(got)));
if (how === "process.exit") process.exit(0);
