/** AsyncLocalStorage: callbacks see the caller's context, and queued ones that of the emission. */

import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { describe, it } from "node:test";

import { guardrails, scope, subscribers, tool, ToolContext, ToolRegistry, tools } from "callweir";

import { add, call, clearAfterEach, deferred, made, pause, Seen, thrownBy } from "./helpers.mjs";

clearAfterEach();

const als = new AsyncLocalStorage();
const store = () => als.getStore()?.id;
const KINDS = ["plain", "async", "async_method"];

/** Notes the store now, after a turn and after a microtask, each under the id that the arguments carry. */
class Notes {
  wrong = [];
  stages = new Map();

  note(stage, id) {
    const seen = store();
    this.stages.set(stage, (this.stages.get(stage) ?? 0) + 1);
    if (seen !== id) this.wrong.push(`${stage} of ${id} saw ${seen}`);
  }

  async thrice(stage, id) {
    this.note(stage, id);
    await null;
    this.note(stage, id);
    await pause((id ?? 0) % 3);
    this.note(stage, id);
  }
}

/** Registers every callback that runs in a call, each of which notes what it sees. */
function registerAll(notes) {
  add("tool.conditional_execution", (_, args) => notes.thrice("guardrail 1", args.id), { name: "a" });
  add("tool.conditional_execution", (_, args) => void notes.note("guardrail 2", args.id), { name: "b" });
  add("tool.request", async (_, args) => (await notes.thrice("request 1", args.id), args), { name: "a" });
  add("tool.request", (_, args) => (notes.note("request 2", args.id), args), { name: "b" });
  const around = async (_, args, next) => {
    await notes.thrice("before", args.id);
    const result = await next(args);
    await notes.thrice("after", args.id);
    return result;
  };
  add("tool.execution", around, { name: "a" });
  const passing = (_, args, next) => (notes.note("passing", args.id), next());
  add("tool.execution", passing, { name: "b" });
}

describe("C-10, CALL-6: callbacks of a call", () => {
  it("100 calls at once each see their own store, everywhere", async () => {
    const notes = new Notes();
    registerAll(notes);
    const work = async (args) => (await notes.thrice("tool", args.id), args);
    const one = (id) =>
      als.run({ id }, async () => {
        await call(`t${id}`, { id }, work);
        await notes.thrice("caller", id);
      });
    await Promise.all(Array.from({ length: 100 }, (_, id) => one(id)));
    assert.equal(store(), undefined);
    assert.deepEqual(notes.wrong, []);
    const first = ["guardrail 1", "guardrail 2", "request 1", "request 2", "before", "passing"];
    assert.deepEqual([...notes.stages.keys()], [...first, "tool", "after", "caller"]);
    assert.equal(notes.stages.get("tool"), 300);
    assert.equal(notes.stages.get("guardrail 2"), 100);
  });

  it("100 dispatches at once too: middleware, tools, hooks of refusals, failures", async () => {
    const notes = new Notes();
    const middleware = async (one, next) => {
      await notes.thrice("middleware", one.arguments.id);
      try {
        return await next(one.withArguments({ ...one.arguments }));
      } finally {
        await notes.thrice("middleware after", one.arguments.id);
      }
    };
    middleware.onRefused = (one) => notes.thrice("refused", one.arguments.id);
    const work = async (args) => {
      await notes.thrice("tool", args.id);
      if (args.id % 2 === 0) throw new TypeError("mine");
    };
    const registry = new ToolRegistry().use(middleware).register(tool({ name: "t" }, work));
    const one = (id) =>
      als.run({ id }, async () => {
        const name = id % 5 === 0 ? "unknown" : "t";
        await registry.dispatch(name, { id }).catch(() => notes.thrice("caught", id));
        await notes.thrice("caller", id);
      });
    await Promise.all(Array.from({ length: 100 }, (_, id) => one(id)));
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("refused"), 60);
    assert.equal(notes.stages.get("tool"), 240);
    assert.equal(notes.stages.get("caught"), 180);
  });

  for (const kind of KINDS) {
    it(`a cancelled call gives its caller its own store back (${kind})`, async () => {
      const notes = new Notes();
      const hung = deferred();
      add("tool.conditional_execution", made(kind, () => undefined));
      add("tool.execution", async (_, args, next) => {
        try {
          return await next();
        } finally {
          notes.note("clean-up", args.id);
        }
      });
      const one = (id) =>
        als.run({ id }, async () => {
          const controller = new AbortController();
          const abort = () => controller.abort(new Error("mine"));
          const work = () => {
            als.run({ id: "aborts" }, () => setTimeout(abort, 2 + (id % 3)));
            return hung.promise;
          };
          const waiting = call("t", { id }, work, { signal: controller.signal });
          await thrownBy(waiting);
          await notes.thrice("caller", id);
        });
      await Promise.all(Array.from({ length: 10 }, (_, id) => one(id)));
      assert.deepEqual(notes.wrong, []);
      assert.equal(notes.stages.get("clean-up"), 10);
      assert.equal(notes.stages.get("caller"), 30);
    });
  }

  it("outside run there is none, inside an intercept's own run there is that", async () => {
    const notes = new Notes();
    add("tool.execution", async (_, args, next) => {
      notes.note("before", undefined);
      await als.run({ id: 7 }, () => next());
      notes.note("after", undefined);
    });
    await Promise.all([
      call("t", {}, () => notes.thrice("tool", 7)),
      als.run({ id: 3 }, () => pause(1)),
    ]);
    notes.note("caller", undefined);
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("tool"), 3);
  });

  it("enterWith before the call is seen, and that of one call by no other", async () => {
    const notes = new Notes();
    add("tool.conditional_execution", async (_, args) => {
      await notes.thrice("guardrail", args.id);
      als.enterWith({ id: `guardrail of ${args.id}` });
      await pause();
    });
    const work = async (args) => {
      await notes.thrice("tool", args.id);
      als.enterWith({ id: `tool of ${args.id}` });
      await pause();
      notes.note("tool after", `tool of ${args.id}`);
    };
    const one = async (id) => {
      await pause();
      als.enterWith({ id });
      await call("t", { id }, work);
      notes.note("caller", id);
      await call("t", { id }, work);
      await notes.thrice("caller", id);
    };
    await Promise.all(Array.from({ length: 20 }, (_, id) => one(id)));
    assert.equal(store(), undefined);
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("tool after"), 40);
  });

  it("single phases, flush and deadlines give the caller its own store back", async () => {
    const notes = new Notes();
    registerAll(notes);
    const registry = new ToolRegistry().register(tool({ name: "slow" }, () => pause(200)));
    const seen = new Seen();
    const one = (id) =>
      als.run({ id }, async () => {
        await tools.conditionalExecution("t", { id });
        await notes.thrice("caller", id);
        await tools.requestIntercepts("t", { id });
        await notes.thrice("caller", id);
        scope.event("m", id);
        await subscribers.flush(5000);
        await notes.thrice("caller", id);
        await thrownBy(registry.dispatch("slow", { id }, new ToolContext({ deadline: 20 + id })));
        await notes.thrice("caller", id);
      });
    await Promise.all(Array.from({ length: 20 }, (_, id) => one(id)));
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("caller"), 240);
    assert.equal((await seen.flushed()).of("mark", "m").length, 20);
  });
});

/** The id that an event belongs to: calls, scopes and marks are named after it. */
const idOf = (name) => (/\d+$/.test(name) ? Number(/\d+$/.exec(name)[0]) : undefined);

/** Registers every queued callback, each of which notes what it sees. */
function registerQueued(notes, wrap) {
  const payload = (stage) => wrap(async (name, value) => (await notes.thrice(stage, idOf(name)), value));
  const fields = (stage) =>
    wrap(async (event, given) => {
      await notes.thrice(stage, idOf(event.name));
      return given;
    });
  guardrails.registerToolSanitizeRequest("s", 0, payload("request"));
  guardrails.registerToolSanitizeResponse("s", 0, payload("response"));
  guardrails.registerMarkSanitize("s", 0, fields("mark"));
  guardrails.registerScopeSanitizeStart("s", 0, fields("start"));
  guardrails.registerScopeSanitizeEnd("s", 0, fields("end"));
  subscribers.register("slow", wrap((event) => notes.thrice("subscriber", idOf(event.name))));
  subscribers.register("quick", wrap((event) => void notes.note("quick", idOf(event.name))));
  subscribers.registerCalls("calls", wrap((record) => notes.thrice("record", idOf(record.tool))));
}

describe("C-10, CALL-6: queued callbacks see the store of the emission", () => {
  it("100 calls at once, never another call's", async () => {
    const notes = new Notes();
    registerQueued(notes, (fn) => fn);
    const registry = new ToolRegistry();
    for (let id = 0; id < 100; id++) registry.register(tool({ name: `r${id}` }, () => pause(id % 3)));
    const one = (id) =>
      als.run({ id }, async () => {
        await scope.scope(`s${id}`, async () => {
          await call(`t${id}`, {}, () => pause(id % 4));
          scope.event(`m${id}`);
          tools.callEnd(tools.call(`c${id}`, {}), 1);
          await registry.dispatch(`r${id}`, {});
        });
      });
    await Promise.all(Array.from({ length: 100 }, (_, id) => one(id)));
    await als.run({ id: "flushes" }, () => subscribers.flush(20_000));
    assert.deepEqual(notes.wrong.slice(0, 5), []);
    const counted = Object.fromEntries(notes.stages);
    const expected = { request: 900, response: 900, mark: 300, start: 1200, end: 1200, subscriber: 2700 };
    assert.deepEqual(counted, { ...expected, quick: 900, record: 600 });
  });

  it("outside run there is none, whoever delivers", async () => {
    const notes = new Notes();
    registerQueued(notes, (fn) => fn);
    scope.event("outside");
    await als.run({ id: 5 }, async () => {
      await call("t5");
      await subscribers.flush(5000);
    });
    scope.event("outside");
    await als.run({ id: 6 }, () => subscribers.flush(5000));
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("quick"), 4);
  });

  it("what they set themselves reaches no other callback", async () => {
    const notes = new Notes();
    subscribers.register("sets", async (event) => {
      notes.note("subscriber", idOf(event.name));
      als.enterWith({ id: "a subscriber's" });
      await pause();
      notes.note("later", "a subscriber's");
    });
    guardrails.registerMarkSanitize("sets", 0, (event, fields) => {
      notes.note("sanitizer", idOf(event.name));
      als.enterWith({ id: "a sanitizer's" });
      return fields;
    });
    subscribers.register("other", (event) => void notes.note("other", idOf(event.name)));
    for (let id = 0; id < 10; id++) als.run({ id }, () => scope.event(`m${id}`));
    scope.event("outside");
    await subscribers.flush(5000);
    notes.note("caller", undefined);
    assert.deepEqual(notes.wrong, []);
    assert.equal(notes.stages.get("other"), 11);
  });

  it("the current scope in them is that of the emission", async () => {
    const places = new Map();
    subscribers.register("s", async (event) => {
      const before = scope.getHandle();
      await pause();
      assert.equal(scope.getHandle(), before);
      places.set(`${event.scope_category ?? "mark"} ${event.name}`, before?.name);
    });
    await scope.scope("S", async () => {
      scope.event("m");
      await call("t", {}, async () => scope.event("n"));
    });
    await subscribers.flush(5000);
    assert.deepEqual([places.get("mark m"), places.get("mark n")], ["S", "t"]);
  });

  it("a thenable begins in it too", async () => {
    const notes = new Notes();
    registerQueued(notes, (fn) => (...given) => ({
      then: (resolve, reject) => void Promise.resolve(fn(...given)).then(resolve, reject),
    }));
    als.run({ id: 1 }, () => scope.event("m1"));
    await subscribers.flush(5000);
    assert.deepEqual(notes.wrong, []);
  });
});
