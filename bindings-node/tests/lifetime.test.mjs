/** The life of the process: import, end, what keeps it alive and what does not. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";

import { clean, outcomesIn, pairsIn, readLines, script, temporary } from "./helpers.mjs";

const inFolder = temporary();
let files = 0;
const newFile = () => inFolder(`events${(files += 1)}.jsonl`);
/** Each test is mostly another process. */
const together = { concurrency: 3 };

/** How a script ends, and its code. */
const ENDS = {
  natural: 0,
  "exit code": 7,
  "process.exit": 0,
  "after shutdown": 0,
  "in a tool": 5,
  "in an async tool": 5,
  "in a guardrail": 5,
  "in an intercept": 5,
  "in a scope": 5,
};
const NOISY = { exception: 1, "later exception": 1, rejection: 1, "pending await": 13 };

/** Counts the pairs of the 100 calls; what ended in the middle may be alone. */
const quietPairs = (path) => pairsIn(readLines(path).filter((line) => /^t\d/.test(line.name)));

describe("the process", { concurrency: 4 }, () => {
  describe("C-65, EVT-9: the end of a script", together, () => {
    for (const [how, code] of Object.entries(ENDS)) {
      it(`${how}: every event is in the file, nothing on stderr`, async () => {
        const path = newFile();
        const done = await script("exit.mjs", [how, path]);
        assert.equal(clean(done, code), "");
        assert.ok(done.took < 10_000);
        assert.equal(quietPairs(path), 100);
      });
    }

    for (const [how, code] of Object.entries(NOISY)) {
      it(`${how}: every event is in the file, and Node says what Node says`, async () => {
        const path = newFile();
        const done = await script("exit.mjs", [how, path]);
        assert.deepEqual([done.code, done.signal], [code, null], done.stderr);
        // Older versions of Node say nothing about an await that nothing will settle.
        assert.match(done.stderr, code === 1 ? /Error: mine/ : /^$|unsettled top-level await/);
        assert.ok(!done.stderr.includes("CallweirWarning"));
        assert.equal(quietPairs(path), 100);
      });
    }

    for (const how of ["open", "open at process.exit"]) {
      it(`${how}: a scope and a manual call end as abandoned`, async () => {
        const path = newFile();
        assert.equal(clean(await script("exit.mjs", [how, path])), "");
        const lines = readLines(path);
        assert.equal(pairsIn(lines), 102);
        assert.deepEqual(outcomesIn(lines).slice(-2).sort(), ["S abandoned", "m abandoned"]);
      });
    }

    for (const how of ["in a sanitizer", "in a subscriber"]) {
      it(`process.exit ${how}: no promise, for it is being delivered, but no crash`, async () => {
        const path = newFile();
        const done = await script("exit.mjs", [how, path]);
        assert.equal(clean(done, 5), "");
        assert.ok(done.took < 10_000);
        assert.ok(readLines(path).length <= 202);
      });
    }

    it("SIGTERM: no promise, but no crash", async () => {
      const path = newFile();
      const done = await script("exit.mjs", ["signal", path]);
      assert.deepEqual([done.signal, done.stderr], ["SIGTERM", ""]);
      assert.ok(existsSync(path));
    });

    it("shutdown with a scope and a manual call open, twice, and what is tried afterwards", async () => {
      const path = newFile();
      const shown = clean(await script("shutdown.mjs", [path]));
      assert.equal(shown, `0 0\n${"true shut_down\n".repeat(4)}false 0 36\n`);
      const lines = readLines(path);
      assert.equal(pairsIn(lines), 102);
      assert.deepEqual(outcomesIn(lines).slice(-2).sort(), ["S abandoned", "m abandoned"]);
      assert.ok(!JSON.stringify(lines).includes("late"));
    });

    it("a file that is not writable any more neither crashes nor delays", async (t) => {
      if (!existsSync("/dev/full")) return t.skip("no /dev/full");
      const done = await script("exit.mjs", ["natural", "/dev/full"]);
      assert.deepEqual([done.code, done.signal], [0, null], done.stderr);
      assert.ok(done.took < 10_000);
    });
  });

  describe("C-65, EVT-9: callbacks get the tail too", together, () => {
    const whole = { subscriber: 102, sanitizer: 50, other: 10 };
    for (const [kind, how] of [["plain", "natural"], ["async", "natural"], ["plain", "process.exit"]]) {
      it(`${kind} ones at the end by ${how}`, async () => {
        const done = await script("tail.mjs", [kind, how], { flags: ["--expose-gc"] });
        assert.deepEqual(JSON.parse(clean(done)), whole);
      });
    }

    it("asynchronous ones have no promise at process.exit, but do no harm", async () => {
      const done = await script("tail.mjs", ["async", "process.exit"]);
      assert.ok(JSON.parse(clean(done)).subscriber <= 102);
      assert.ok(done.took < 10_000);
    });

    it("a subscriber that hangs delays the end by 5 s at most", async () => {
      const done = await script("tail.mjs", ["async", "stuck"]);
      assert.deepEqual(JSON.parse(clean(done)), whole);
      assert.ok(done.took < 12_000, `${done.took}`);
    });
  });

  describe("C-68, DOOR-2: what keeps a process alive", together, () => {
    for (const how of ["registered", "used", "cancelled"]) {
      it(`${how}: nothing, so it ends within 1 s`, async () => {
        const done = await script("idle.mjs", [how, newFile()]);
        assert.equal(clean(done), how === "cancelled" ? "aborted\nsoon\n" : "soon\n");
        assert.ok(done.took < 5000, `${done.took}`);
      });
    }

    const UNREF = ["", " of a dispatch", " of a guardrail", " of a phase", " and a flush"];
    for (const how of ["a timer", ...UNREF.map((what) => `an unref'd timer${what}`)]) {
      it(`a call that waits for ${how} does, until it is settled`, async () => {
        const done = await script("idle.mjs", [how]);
        assert.equal(clean(done), "slept\nsoon\n");
        assert.ok(done.took >= 200);
      });
    }

    it("a call that never ends does, until the process is killed", async () => {
      const done = await script("idle.mjs", ["hung"], { timeout: 1500 });
      assert.deepEqual([done.signal, done.stdout, done.stderr], ["SIGKILL", "", ""]);
    });
  });

  describe("DOOR-2: import", together, () => {
    for (const how of ["import", "require"]) {
      it(`${how} starts no thread and opens nothing, nor does registering`, async (t) => {
        if (!existsSync("/proc/self/task")) return t.skip("no /proc");
        const [loaded, registered] = JSON.parse(clean(await script("threads.mjs", [how])));
        assert.deepEqual(loaded, { threads: 0, files: 0 });
        assert.deepEqual(registered, { threads: 0, files: 0 });
      });
    }

    it("ESM and CJS are one instance", async () => {
      assert.equal(clean(await script("threads.mjs", ["one"])), "true\n");
    });
  });
});
