/** Nothing is kept after its use. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { clean, script } from "./helpers.mjs";

const together = { concurrency: 2 };
const NEWER = Number(process.versions.node.split(".")[0]) >= 24;
const MEASURED = ["--expose-gc", "--max-semi-space-size=2"];

/** What is repeated, how often, and how many events come of it at least. */
const REPEATED = [
  ["registrations", 100_000, 0],
  ["scope registrations", 15_000, 30_000],
  ["calls", 100_000, 600_000],
  ["dispatches", 15_000, 30_000],
  ["failures", 15_000, 30_000],
  ["scopes", 10_000, 70_000],
  ["runtimes", 2000, 0],
];

describe("C-68, FAM-7: memory", together, () => {
  it("is flat over 200,000 calls with a subscriber, though nobody asks for a collection", async () => {
    const { grown } = JSON.parse(clean(await script("memory.mjs", ["calls", 200_000], { timeout: 120_000 })));
    // The engine of Node 24 takes 8 MB more for its youngest objects, as it does for a plain program.
    assert.ok(grown < (NEWER ? 20 : 10), `the process grew by ${grown} MB`);
  });

  for (const [how, rounds, events] of REPEATED) {
    it(`is flat over ${rounds} rounds of ${how}`, async () => {
      const options = { flags: MEASURED, timeout: 120_000 };
      const { grown, heap, seen } = JSON.parse(clean(await script("memory.mjs", [how, rounds], options)));
      assert.ok(seen >= events, `${seen} events`);
      assert.ok(heap < 2, `the heap grew by ${heap} MB`);
      assert.ok(grown < 16, `the process grew by ${grown} MB`);
    });
  }
});

describe("FAM-7, FAM-9: what is not used any more is collected", together, () => {
  // A runtime that one of its callbacks refers to is let go of by its shutdown.
  for (const how of ["calls", "registries", "runtimes", "broken circle"]) {
    it(how, async () => {
      assert.equal(clean(await script("references.mjs", [how], { flags: ["--expose-gc"] })), "true \n");
    });
  }
});
