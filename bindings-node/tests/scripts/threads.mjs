/** Loads the package in one way; prints how many threads and files that, and registering, have added. */

import { readdirSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const how = process.argv[2];
const count = (folder) => readdirSync(folder).length;
const now = () => ({ threads: count("/proc/self/task"), files: count("/proc/self/fd") });

/** Lets Node's own threads and files settle: reading a module opens some. */
async function settled() {
  await import("./attached.mjs");
  require("node:util");
  await new Promise((resolve) => setTimeout(resolve, 50));
}

if (how === "one") {
  const [esm, cjs] = [await import("callweir"), require("callweir")];
  console.log(esm.Runtime === cjs.Runtime && esm.default === cjs);
} else {
  await settled();
  const before = now();
  const added = () => {
    const after = now();
    return { threads: after.threads - before.threads, files: after.files - before.files };
  };
  const callweir = how === "import" ? await import("callweir") : require("callweir");
  const loaded = added();
  callweir.subscribers.register("s", () => undefined);
  callweir.guardrails.registerToolConditionalExecution("g", 0, async () => undefined);
  console.log(JSON.stringify([loaded, added()]));
}
