/** Replays every scenario through the Node door and compares its trace with the golden one (DOOR-1). */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { difference, names, read } from "./driver/files.mjs";
import { replay } from "./driver/replay.mjs";
import { Style } from "./driver/world.mjs";

const { ASYNC, LAZY, THENABLE } = Style;

/** What this door does not offer yet, and why. */
const LACKING = { component: "entries of a component come with plugins" };

/** What fails for faults of the door that are known, and in which styles. */
const BROKEN = new Map([
  ...broken([ASYNC, THENABLE, LAZY], "a denial that a promise gives is taken for a result", [
    "middleware_refuses",
  ]),
  ...broken([ASYNC, THENABLE, LAZY], "the caller is released before what has settled already is looked at", [
    "token_and_errors",
    "token_stops_later_stages",
  ]),
  ...broken([LAZY], "then is called outside the callback's place", [
    "current_scope",
    "event_from_subscriber",
    "nested_calls",
    "scopes_abandoned",
  ]),
]);

function broken(styles, why, scenarios) {
  return scenarios.flatMap((name) => styles.map((style) => [`${name}, ${style}`, why]));
}

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
      test(title, { timeout: LONGEST, todo: BROKEN.get(title) }, (context) => check(context, name, style));
    }
  });
}

test("DOOR-1: a changed trace is found", async () => {
  const trace = await replay(read("execution_intercepts_nest"), ASYNC);
  assert.match(difference("middleware_order", trace) ?? "no difference", /^middleware_order, line \d+:/);
});
