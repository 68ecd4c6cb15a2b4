/** Worker threads: each has a default runtime of its own, and takes only its own callbacks with it. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { clean, pairsIn, readLines, script, temporary } from "./helpers.mjs";

const inFolder = temporary();

describe("C-69, DOOR-2, FAM-9: workers", { concurrency: 2 }, () => {
  it("the package is loaded in a worker only", async () => {
    assert.equal(clean(await script("workers.mjs", ["worker only"])), "7 g,g,t,t\n");
  });

  it("20 times a worker with calls in flight is terminated; the main thread goes on", async () => {
    assert.equal(clean(await script("workers.mjs", ["terminate"], { timeout: 60_000 })), "true 40\n");
  });

  it("a worker leaves by process.exit with a call in flight", async () => {
    assert.equal(clean(await script("workers.mjs", ["exit"])), "3\n");
  });

  it("a worker fails with a call in flight", async () => {
    assert.equal(clean(await script("workers.mjs", ["throws"])), "mine 1\n");
  });

  it("what is registered in the main thread is not seen in a worker, nor the current scope", async () => {
    const shown = clean(await script("workers.mjs", ["apart"]));
    assert.equal(shown, "0,true,5\nS,S,g,g,mine 2 false\n");
  });

  it("two at once, each with its own file, whole to its last call", async () => {
    const paths = [inFolder("a.jsonl"), inFolder("b.jsonl")];
    const shown = clean(await script("workers.mjs", ["two", ...paths]));
    assert.equal(shown, "1000 0,1000 0\n");
    for (const [index, path] of paths.entries()) {
      const lines = readLines(path);
      assert.equal(pairsIn(lines), 600);
      assert.ok(lines.every((line) => line.name.startsWith(`w${index}.`)));
    }
  });

  it("two at once append to one file, line by line", async () => {
    const path = inFolder("both.jsonl");
    assert.equal(clean(await script("workers.mjs", ["two", path, path])), "1000 0,1000 0\n");
    const lines = readLines(path);
    assert.equal(pairsIn(lines), 1200);
    for (const prefix of ["w0.", "w1."]) {
      const mine = lines.filter((line) => line.name.startsWith(prefix) && line.scope_category === "end");
      const names = Array.from({ length: 600 }, (_, number) => prefix + number);
      assert.deepEqual(mine.map((line) => line.name), names);
    }
  });

  it("signals and deadlines work in a worker", async () => {
    assert.equal(clean(await script("workers.mjs", ["signal"])), "aborted,true\n");
  });

  it("the main thread ends while a worker is busy, and its own file is whole", async () => {
    const path = inFolder("main.jsonl");
    const done = await script("workers.mjs", ["main ends first", path]);
    assert.equal(clean(done), "");
    assert.ok(done.took < 10_000);
    assert.equal(pairsIn(readLines(path)), 100);
  });
});
