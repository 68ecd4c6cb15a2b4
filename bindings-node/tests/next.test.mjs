/** The function `next`: how often, when, and for how long it may be called. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";

import { Expired, tool, ToolRegistry } from "callweir";

import { add, call, clear, deferred, quietly, Seen, thrownBy, until, within } from "./helpers.mjs";

afterEach(clear);

test("C-35 FAM-5 next zero times, once, twice and at once", async () => {
  const seen = new Seen();
  const ways = {
    zero: () => "zero",
    once: (next) => next(),
    twice: async (next) => [await next({ n: 1 }), await next({ n: 2 })],
    "at once": (next) => Promise.all([next({ n: 1 }), next({ n: 2 }), next({ n: 3 })]),
    changed: (next) => next("text"),
    cleared: (next) => next(undefined),
  };
  add("tool.execution", (name, _, next) => ways[name](next));
  let ran = 0;
  const work = async (args) => {
    await turn();
    ran++;
    return args;
  };
  const act = async (name) => {
    ran = 0;
    return [await call(name, { n: 0 }, work), ran];
  };
  assert.deepEqual(await act("zero"), ["zero", 0]);
  assert.deepEqual(await act("once"), [{ n: 0 }, 1]);
  assert.deepEqual(await act("twice"), [[{ n: 1 }, { n: 2 }], 2]);
  assert.deepEqual(await act("at once"), [[{ n: 1 }, { n: 2 }, { n: 3 }], 3]);
  assert.deepEqual(await act("changed"), ["text", 1]);
  assert.deepEqual(await act("cleared"), [undefined, 1], "undefined that is given is the argument");
  await seen.flushed();
  for (const name of Object.keys(ways)) {
    assert.equal(
      seen.end(name).metadata["callweir.short_circuited"],
      name === "zero" ? true : undefined,
      name,
    );
  }
});

test("FAM-5 each use of next runs the rest of the chain again", async () => {
  const ran = [];
  add(
    "tool.execution",
    async (_, args, next) => {
      const got = [];
      for (let n = 0; n < 3; n++) {
        try {
          got.push(await next({ n }));
        } catch (error) {
          got.push(error.message);
        }
      }
      return got;
    },
    { name: "outer" },
  );
  add(
    "tool.execution",
    (_, args, next) => {
      ran.push(args.n);
      return next(args);
    },
    { name: "inner", priority: 1 },
  );
  const work = ({ n }) => {
    if (n < 2) throw new Error(`attempt ${n}`);
    return n;
  };
  assert.deepEqual(await call("t", {}, work), ["attempt 0", "attempt 1", 2]);
  assert.deepEqual(ran, [0, 1, 2]);
});

for (const way of ["execution", "middleware"]) {
  test(`C-72 FAM-5 next of ${way} after the end is Expired`, async () => {
    const seen = new Seen();
    let kept;
    let ran = 0;
    const work = () => ++ran;
    const keep = (given, next) => {
      kept = () => next(given);
      return next(given);
    };
    if (way === "execution") {
      add("tool.execution", (_, args, next) => keep(args, next));
      await call("t", {}, work);
    } else {
      await new ToolRegistry()
        .register(tool({ name: "t" }, work))
        .use(keep)
        .dispatch("t", {});
    }
    const before = (await seen.flushed()).events.length;
    for (let times = 0; times < 3; times++) {
      assert.ok((await quietly(() => thrownBy(kept()))) instanceof Expired);
    }
    assert.equal(ran, 1);
    assert.equal((await seen.flushed()).events.length, before);
  });
}

test("C-72 next of an intercept that has returned is Expired, though the call goes on", async () => {
  let kept;
  add(
    "tool.execution",
    (_, args, next) => {
      kept = next;
      return args;
    },
    { name: "inner", priority: 1 },
  );
  let inside;
  add(
    "tool.execution",
    async (_, args, next) => {
      const result = await next(args);
      inside = await thrownBy(kept());
      return result;
    },
    { name: "outer" },
  );
  let ran = 0;
  assert.deepEqual(await call("t", { a: 1 }, () => ++ran), { a: 1 });
  assert.ok(inside instanceof Expired);
  assert.equal(ran, 0);
});

test("FAM-5 a next that is under way when its intercept returns goes on", async () => {
  const seen = new Seen();
  const gate = deferred();
  let late;
  let done = 0;
  add("tool.execution", (_, args, next) => {
    late = next(args);
    return "early";
  });
  const work = async () => {
    await gate.promise;
    done++;
    return "late";
  };
  await quietly(async () => {
    assert.equal(await call("t", {}, work), "early");
    gate.resolve();
    await until(() => done === 1, "the work that goes on");
  });
  assert.equal(await within(late), "late");
  assert.equal((await seen.flushed()).end("t").outcome, "succeeded");
});

test("FAM-5 a next under way that nobody awaits is silent when it ends", async () => {
  add("tool.execution", (_, args, next) => {
    next(args);
    return "early";
  });
  const work = () => sleep(2);
  await quietly(async () => {
    assert.equal(await call("t", {}, work), "early");
    await sleep(5);
  });
});
