/** Replays every scenario through the Node door and compares its trace with the golden one (DOOR-1). */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { difference, names, read } from "./driver/files.mjs";
import { replay } from "./driver/replay.mjs";
import { Style } from "./driver/world.mjs";

/** What this door does not offer yet, and why. */
const LACKING = { component: "entries of a component come with plugins" };

/** Milliseconds that a scenario may take; one that hangs fails after them. */
const LONGEST = 20_000;

/** Fails with the first line of the trace that differs. */
async function check(context, name, style) {
  const scenario = read(name);
  const lacking = (scenario.needs ?? []).find((need) => need in LACKING);
  if (lacking !== undefined) {
    context.skip(LACKING[lacking]);
    return;
  }
  const different = difference(name, await replay(scenario, style));
  assert.ok(different === undefined, different);
}

for (const style of Object.values(Style)) {
  describe(`DOOR-1: scenarios with ${style} callbacks`, { timeout: 10 * LONGEST }, () => {
    for (const name of names()) {
      const title = `${name}, ${style}`;
      test(title, { timeout: LONGEST }, (context) => check(context, name, style));
    }
  });
}

test("DOOR-1: a changed trace is found", async () => {
  const trace = await replay(read("execution_intercepts_nest"), ASYNC);
  assert.match(difference("middleware_order", trace) ?? "no difference", /^middleware_order, line \d+:/);
});
