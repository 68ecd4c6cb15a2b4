/** Scopes: who is whose parent, and how scopes end. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import {
  AlreadyEnded,
  attach,
  CallRejected,
  currentCall,
  InvalidArgument,
  propagation,
  scope,
  ScopeType,
  tool,
  ToolRegistry,
  tools,
} from "callweir";

import { add, call, clean, clearAfterEach, made, pause, run, script, Seen, thrownBy } from "./helpers.mjs";

clearAfterEach();

const KINDS = ["plain", "async", "thenable"];

class Quota extends Error {}

describe("C-01, CALL-5, SCP-1: calls inside calls", () => {
  for (const where of ["tool", "guardrail", "request", "execution", "middleware"]) {
    it(`a managed call in a ${where} has the call or the caller's scope as parent`, async () => {
      const seen = new Seen();
      const guarded = [];
      const inner = async () => assert.equal(await call("inner", 1), 1);
      const at = (place) => async (name) => (name === "outer" && place === where ? inner() : undefined);
      add("tool.conditional_execution", async (name, args) => {
        guarded.push(name);
        await at("guardrail")(name, args);
      });
      add("tool.request", async (name, args) => (await at("request")(name), args));
      add("tool.execution", async (name, args, next) => (await at("execution")(name), next(args)));
      const registry = new ToolRegistry()
        .use(async (one, next) => (await at("middleware")(one.name), next(one)))
        .register(tool({ name: "outer" }, async () => at("tool")("outer")));
      await scope.scope("S", () => registry.dispatch("outer", {}));
      await seen.flushed();
      const inside = ["tool", "execution", "middleware"].includes(where);
      assert.equal(seen.end("inner").parent_uuid, seen.end(inside ? "outer" : "S").uuid);
      assert.equal(seen.end("outer").parent_uuid, seen.end("S").uuid);
      assert.deepEqual(guarded, ["outer", "inner"]);
    });
  }

  it("a thenable begins inside its call", async () => {
    const seen = new Seen();
    const lazy = (body) => () => ({ then: (resolve, reject) => void body().then(resolve, reject) });
    await call("outer", {}, lazy(async () => assert.equal(currentCall()?.name, "outer")));
    await call("outer2", {}, lazy(() => call("inner")));
    await seen.flushed();
    assert.equal(seen.end("inner").parent_uuid, seen.end("outer2").uuid);
  });

  it("nests to any depth", async () => {
    const seen = new Seen();
    const deep = (depth) => call(`t${depth}`, depth, async () => (depth === 0 ? "end" : deep(depth - 1)));
    assert.equal(await deep(60), "end");
    await seen.flushed();
    for (let depth = 0; depth < 60; depth++) {
      assert.equal(seen.end(`t${depth}`).parent_uuid, seen.end(`t${depth + 1}`).uuid);
    }
  });

  it("a script with nested calls ends, and is quiet", async () => {
    const done = await script("nested.mjs");
    assert.equal(clean(done), "2 2 true\n");
    assert.ok(done.took < 10_000);
  });

  it("currentCall is the call, scope.getHandle the innermost scope, one handle for each", async () => {
    assert.equal(currentCall(), undefined);
    assert.equal(scope.getHandle(), undefined);
    await call("t", {}, async () => {
      const mine = currentCall();
      assert.equal(mine.name, "t");
      assert.equal(mine.scopeType, "tool");
      assert.equal(scope.getHandle(), mine);
      await pause();
      await scope.scope("inner", async (handle) => {
        await pause();
        assert.equal(currentCall(), mine);
        assert.equal(scope.getHandle(), handle);
        assert.equal(handle.parent, mine);
        assert.equal(handle.parentUuid, mine.uuid);
      });
      assert.equal(scope.getHandle(), mine);
    });
    assert.equal(currentCall(), undefined);
  });
});

describe("C-11: leaving an iteration early", () => {
  async function* chunks(log) {
    try {
      for (let number = 0; number < 5; number++) {
        yield await scope.scope(`chunk${number}`, async () => (await pause(), number));
      }
    } finally {
      log.push("closed");
    }
  }
  for (const leave of ["break", "return", "throw"]) {
    it(`by ${leave} leaves the current scope as it was`, async () => {
      const seen = new Seen();
      const log = [];
      const read = async (outer) => {
        for await (const number of chunks(log)) {
          assert.equal(scope.getHandle(), outer);
          if (number === 1 && leave === "break") break;
          if (number === 1 && leave === "return") return;
          if (number === 1) throw new Quota();
        }
      };
      await scope.scope("S", async (outer) => {
        if (leave === "throw") await assert.rejects(read(outer), Quota);
        else await read(outer);
        assert.equal(scope.getHandle(), outer);
      });
      assert.equal(scope.getHandle(), undefined);
      assert.deepEqual(log, ["closed"]);
      await seen.flushed();
      assert.equal(seen.end("chunk1").parent_uuid, seen.end("S").uuid);
    });
  }
});

describe("C-12: concurrent siblings", () => {
  it("20 children do not disturb each other", async () => {
    const seen = new Seen();
    const child = (number) =>
      scope.scope(`c${number}`, async (mine) => {
        await pause((number * 7) % 13);
        assert.equal(scope.getHandle(), mine);
        await call(`t${number}`, number, async (args) => (await pause((number * 5) % 11), args));
        await scope.scope(`i${number}`, async (inner) => {
          await pause((number * 3) % 17);
          assert.equal(inner.parent, mine);
          assert.equal(scope.getHandle(), inner);
        });
        assert.equal(scope.getHandle(), mine);
      });
    await scope.scope("P", () => Promise.all(Array.from({ length: 20 }, (_, number) => child(number))));
    await seen.flushed();
    const parent = seen.end("P");
    assert.equal(parent.outcome, "succeeded");
    for (let number = 0; number < 20; number++) {
      const mine = seen.end(`c${number}`);
      assert.equal(mine.parent_uuid, parent.uuid);
      assert.equal(seen.end(`t${number}`).parent_uuid, mine.uuid);
      assert.equal(seen.end(`i${number}`).parent_uuid, mine.uuid);
    }
    assert.equal(seen.of("start").length, 61);
    assert.equal(seen.of("end").length, 61);
  });

  it("siblings that push and never pop neither", async () => {
    const seen = new Seen();
    const child = async (number, parent) => {
      await pause();
      const mine = scope.push(`c${number}`);
      assert.equal(mine.parent, parent);
      await pause((number * 7) % 13);
      assert.equal(scope.getHandle(), mine);
      if (number % 2 === 0) scope.pop();
    };
    await scope.scope("P", async (parent) => {
      await Promise.all(Array.from({ length: 20 }, (_, number) => child(number, parent)));
      assert.equal(scope.getHandle(), parent);
    });
    await seen.flushed();
    for (let number = 0; number < 20; number++) {
      assert.equal(seen.end(`c${number}`).outcome, number % 2 === 0 ? "succeeded" : "abandoned");
      assert.equal(seen.end(`c${number}`).parent_uuid, seen.end("P").uuid);
    }
    assert.equal(seen.events.at(-1).name, "P");
  });
});

describe("C-13, SCP-3: closing", () => {
  it("(1) a scope twice does nothing", async () => {
    const seen = new Seen();
    const one = scope.push("one");
    scope.pop(one);
    scope.pop(one);
    scope.pop(one, { outcome: "failed" });
    one.close("late");
    assert.equal(one.isOpen, false);
    assert.equal(scope.getHandle(), undefined);
    scope.pop();
    await seen.flushed();
    assert.equal(seen.end("one").outcome, "succeeded");
    assert.equal(seen.events.length, 2);
  });

  it("(2) an outer scope ends the inner ones as abandoned, first", async () => {
    const seen = new Seen();
    const outer = scope.push("A");
    const inner = scope.push("B");
    const innermost = scope.push("C");
    assert.equal(innermost.parent, inner);
    scope.pop(outer);
    assert.deepEqual([outer.isOpen, inner.isOpen, innermost.isOpen], [false, false, false]);
    scope.pop(inner);
    scope.pop(innermost);
    await seen.flushed();
    assert.deepEqual(seen.shown().slice(3), ["end C", "end B", "end A"]);
    const outcomes = ["C", "B", "A"].map((name) => seen.end(name).outcome);
    assert.deepEqual(outcomes, ["abandoned", "abandoned", "succeeded"]);
    assert.equal(scope.getHandle()?.isOpen ?? false, false);
  });

  it("(3) a handle lost to an error", async () => {
    const seen = new Seen();
    const lose = async () => {
      scope.push("lost");
      await pause();
      throw new Quota();
    };
    await scope.scope("A", async () => {
      await assert.rejects(lose(), Quota);
    });
    await scope.scope("after", () => undefined);
    await seen.flushed();
    assert.equal(seen.end("lost").outcome, "abandoned");
    assert.equal(seen.end("A").outcome, "succeeded");
    assert.ok(seen.events.indexOf(seen.end("lost")) < seen.events.indexOf(seen.end("A")));
    assert.equal(seen.end("after").parent_uuid, null);
  });

  it("(4) from elsewhere", async () => {
    const seen = new Seen();
    await (async () => {
      await pause();
      const handle = scope.push("far");
      await new Promise((resolve) => setTimeout(() => resolve(scope.pop(handle, { output: 1 })), 1));
      assert.equal(handle.isOpen, false);
    })();
    const handle = await scope.scope("other", () => scope.push("inner"));
    assert.equal(handle.isOpen, false);
    await seen.flushed();
    assert.deepEqual([seen.end("far").outcome, seen.end("far").data], ["succeeded", 1]);
  });

  it("(5) handles of one scope are the same", async () => {
    await scope.scope("A", async (outer) => {
      await pause();
      assert.equal(scope.getHandle(), outer);
      const inner = scope.push("B");
      assert.equal(inner.parent, outer);
      assert.notEqual(inner, outer);
      assert.notEqual(inner.uuid, outer.uuid);
      assert.equal(new Set([inner, scope.getHandle(), outer, inner.parent]).size, 2);
    });
  });

  it("(6) a manual call twice is AlreadyEnded", async () => {
    const seen = new Seen();
    const handle = tools.call("m", { a: 1 }, { toolCallId: "c1", metadata: { k: 1 } });
    tools.callEnd(handle, { r: 1 });
    for (const again of [() => tools.callEnd(handle, 2), () => handle.end(3, { error: new Quota() })]) {
      assert.throws(again, AlreadyEnded);
    }
    const failed = tools.call("f", {});
    tools.callEnd(failed, undefined, { error: new Quota("secret 5500") });
    assert.throws(() => tools.callEnd(tools.call("g", {}), 1, { outcome: "splendid" }), InvalidArgument);
    tools.callEnd(tools.call("h", {}), undefined, { outcome: "cancelled" });
    await seen.flushed();
    const end = seen.end("m");
    assert.deepEqual([end.data, end.outcome], [{ r: 1 }, "succeeded"]);
    assert.deepEqual(end.category_profile, { tool_call_id: "c1" });
    assert.deepEqual([seen.start("m").data, seen.start("m").metadata.k], [{ a: 1 }, 1]);
    assert.deepEqual([seen.end("f").outcome, seen.end("f").metadata["error.type"]], ["failed", "Quota"]);
    assert.ok(!JSON.stringify(seen.events).includes("5500"));
    assert.equal(seen.end("h").outcome, "cancelled");
    await scope.scope("after", () => undefined);
    await seen.flushed();
    assert.equal(seen.end("after").outcome, "succeeded");
  });
});

describe("C-14: work that outlives its tool", () => {
  it("has the tool's call as parent, its guardrails and its own outcome", async () => {
    const seen = new Seen();
    const guarded = [];
    add("tool.conditional_execution", (name) => {
      guarded.push(name);
      return name === "third" ? "no" : undefined;
    });
    const background = [];
    const fail = async () => {
      await pause(10);
      throw new Quota();
    };
    await call("outer", {}, async () => {
      background.push(call("first", {}, () => pause(10)), call("second", {}, fail), call("third"));
      scope.push("left");
      return "done";
    });
    assert.equal(seen.of("end", "first").length, 0);
    const ended = await Promise.allSettled(background);
    await seen.flushed();
    assert.deepEqual(ended.map((one) => one.status), ["fulfilled", "rejected", "rejected"]);
    assert.ok(ended[1].reason instanceof Quota && ended[2].reason instanceof CallRejected);
    assert.deepEqual(guarded, ["outer", "first", "second", "third"]);
    const outer = seen.end("outer");
    for (const [name, outcome] of [["first", "succeeded"], ["second", "failed"], ["left", "abandoned"]]) {
      assert.deepEqual([seen.end(name).parent_uuid, seen.end(name).outcome], [outer.uuid, outcome], name);
    }
    assert.equal(seen.of("mark", "third")[0].parent_uuid, outer.uuid);
    assert.ok(seen.events.indexOf(seen.end("left")) < seen.events.indexOf(outer));
    assert.ok(seen.events.indexOf(seen.end("first")) > seen.events.indexOf(outer));
  });

  for (const looked of [true, false]) {
    const how = looked ? "its handle was read" : "nobody looked";
    it(`started after its end, has it as parent (${how})`, async () => {
      const seen = new Seen();
      let late;
      let mine;
      await call("outer", {}, () => {
        if (looked) mine = currentCall();
        late = pause(5).then(async () => {
          await call("late", {}, async () => scope.event("mark"));
          await scope.scope("scope", () => undefined);
          return currentCall();
        });
      });
      const then = await late;
      await seen.flushed();
      const outer = seen.end("outer");
      assert.equal(seen.end("late").parent_uuid, outer.uuid);
      assert.equal(seen.end("scope").parent_uuid, outer.uuid);
      assert.equal(seen.of("mark", "mark")[0].parent_uuid, seen.end("late").uuid);
      assert.equal(then.uuid, outer.uuid);
      assert.equal(then.isOpen, false);
      if (looked) assert.equal(then, mine);
    });
  }
});

describe("C-98, SCP-2: the types of scopes", () => {
  it("are eleven, each with its data", async () => {
    const seen = new Seen();
    const types = Object.values(ScopeType);
    assert.equal(types.length, 11);
    const dataSchema = { type: "object" };
    for (const type of types) {
      const given = { type, input: { i: type }, metadata: { m: type }, attributes: ["remote", "stateful"] };
      await scope.scope(type, { ...given, dataSchema }, (handle) => {
        assert.equal(handle.scopeType, type);
        handle.setOutput({ o: type });
      });
      scope.pop(scope.push(`${type}2`, type), { output: [type], metadata: { e: 1 } });
    }
    await seen.flushed();
    for (const type of types) {
      const [start, end, other] = [seen.start(type), seen.end(type), seen.end(`${type}2`)];
      assert.deepEqual([start.category, end.category, other.category], [type, type, type]);
      assert.deepEqual([start.data, end.data, other.data], [{ i: type }, { o: type }, [type]]);
      assert.equal(start.metadata.m, type);
      assert.deepEqual([start.attributes, end.attributes], [["remote", "stateful"], ["remote", "stateful"]]);
      assert.deepEqual(start.data_schema, dataSchema);
      assert.equal(other.metadata.e, 1);
      assert.equal(other.metadata["otel.status_code"], "OK");
    }
    assert.throws(() => scope.push("x", "nonsense"), InvalidArgument);
  });
});

describe("C-99, SCP-4: the callback form", () => {
  const inside = (handle) => {
    assert.equal(scope.getHandle(), handle);
    assert.equal(handle.isOpen, true);
  };
  for (const kind of KINDS) {
    it(`gives what the function gave (${kind})`, async () => {
      const seen = new Seen();
      const body = made(kind, (handle) => (inside(handle), 7));
      assert.equal(await scope.scope("S", { type: "agent", input: 1 }, body), 7);
      assert.equal(await scope.scope("T", "tool", body), 7);
      assert.equal(await scope.scope("U", body), 7);
      assert.equal(scope.getHandle(), undefined);
      await seen.flushed();
      assert.deepEqual(["S", "T", "U"].map((name) => seen.end(name).outcome), Array(3).fill("succeeded"));
      assert.deepEqual(["S", "T", "U"].map((name) => seen.end(name).category), ["agent", "tool", "function"]);
    });

    it(`lets an error pass unchanged (${kind})`, async () => {
      const seen = new Seen();
      const frozen = Object.freeze({ code: 7 });
      const thrown = [new Quota("5500"), "text", undefined, 0, frozen];
      const types = ["Quota", "string", "undefined", "number", "Object"];
      for (const [index, error] of thrown.entries()) {
        const body = made(kind, (handle) => {
          inside(handle);
          throw error;
        });
        assert.equal(await thrownBy((async () => scope.scope(`S${index}`, body))()), error);
      }
      assert.equal(scope.getHandle(), undefined);
      await seen.flushed();
      for (const [index, type] of types.entries()) {
        const { outcome, metadata } = seen.end(`S${index}`);
        assert.deepEqual([outcome, metadata["error.type"]], ["failed", type]);
      }
      assert.ok(!JSON.stringify(seen.events).includes("5500"));
    });
  }

  it("fails with null too", async () => {
    const seen = new Seen();
    const raise = () => {
      throw null;
    };
    assert.equal(await thrownBy((async () => scope.scope("S", raise))()), null);
    scope.pop(scope.push("T"), { error: null });
    await seen.flushed();
    for (const name of ["S", "T"]) {
      const { outcome, metadata } = seen.end(name);
      assert.deepEqual([outcome, metadata["error.type"]], ["failed", null]);
    }
  });

  it("returns a plain value at once, and throws at once", () => {
    assert.equal(scope.scope("S", () => 5), 5);
    assert.throws(() => scope.scope("S", () => assert.fail("mine")), /mine/);
    assert.throws(() => scope.scope("S"), TypeError);
  });

  it("push and pop follow each other in one function", async () => {
    const seen = new Seen();
    await (async () => {
      await pause();
      const before = scope.getHandle();
      const outer = scope.push("A", { type: "agent" });
      const inner = scope.push("B");
      await call("t");
      scope.event("m");
      scope.pop(inner, { error: new Quota() });
      assert.equal(scope.getHandle(), outer);
      scope.pop();
      assert.equal(scope.getHandle(), before);
    })();
    await seen.flushed();
    assert.deepEqual(seen.shown(), ["start A", "start B", "start t", "end t", "mark m", "end B", "end A"]);
    assert.equal(seen.end("t").parent_uuid, seen.end("B").uuid);
    assert.deepEqual([seen.end("B").outcome, seen.end("B").metadata["error.type"]], ["failed", "Quota"]);
  });

  it("handle.run and options.parent place what runs elsewhere", async () => {
    const seen = new Seen();
    const handle = scope.scope("S", (it) => (setTimeout(() => undefined, 0), it.run(() => scope.push("in"))));
    assert.equal(handle.isOpen, false);
    await scope.scope("P", async (parent) => {
      const elsewhere = await new Promise((resolve) => {
        setTimeout(() => resolve(scope.push("c", { parent })), 1);
      });
      assert.equal(elsewhere.parent, parent);
      await parent.run(() => call("t"));
      scope.event("m", 1, { scope: elsewhere });
    });
    await seen.flushed();
    assert.equal(seen.end("t").parent_uuid, seen.end("P").uuid);
    assert.equal(seen.of("mark", "m")[0].parent_uuid, seen.end("c").uuid);
  });
});

const python = fileURLToPath(new URL("../../target/venv/bin/python", import.meta.url));
const FOREIGN = `
import asyncio, json, sys
from callweir import attach, scope, subscribers, tools
events = []
subscribers.register("s", events.append)
async def main(value):
    with attach(value):
        await tools.execute("far", {}, lambda args: args)
        with scope.scope("inner"):
            pass
    assert scope.get_handle() is None
asyncio.run(main(json.loads(sys.argv[1])))
subscribers.flush(5)
print(json.dumps([[e.scope_category, e.name, e.parent_uuid] for e in events]))
`;

describe("C-100, SCP-5: a scope in two processes", () => {
  const others = {
    Node: (text) => script("attach.mjs", [text]),
    Python: (text) => run(python, ["-c", FOREIGN, text]),
  };
  for (const [language, start] of Object.entries(others)) {
    const skip = language === "Python" && !existsSync(python) ? "no Python with the package" : false;
    it(`continues in ${language}`, { skip }, async () => {
      const seen = new Seen();
      assert.equal(propagation(), undefined);
      const shown = await scope.scope("S", async (handle) => {
        const value = propagation();
        assert.ok(JSON.stringify(value).length < 1000);
        assert.match(value.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/);
        assert.deepEqual(handle.propagation(), value);
        return JSON.parse(clean(await start(JSON.stringify(value))));
      });
      await seen.flushed();
      const { uuid, outcome } = seen.end("S");
      const both = ["far", "inner"].flatMap((name) => [["start", name, uuid], ["end", name, uuid]]);
      assert.deepEqual(shown, both);
      assert.equal(outcome, "succeeded");
      assert.equal(seen.events.length, 2);
    });
  }

  it("continues from a call, and here", async () => {
    const seen = new Seen();
    const value = await call("t", {}, async () => JSON.parse(JSON.stringify(propagation())));
    const inside = await attach(value, async (handle) => {
      await pause();
      assert.equal(scope.getHandle(), handle);
      await call("far");
      return handle;
    });
    assert.equal(scope.getHandle(), undefined);
    await seen.flushed();
    assert.equal(inside.uuid, seen.end("t").uuid);
    assert.equal(seen.end("far").parent_uuid, seen.end("t").uuid);
    assert.equal(seen.events.length, 4);
  });

  const partial = [{ uuid: 7 }, { traceparent: "00-zz" }, { traceparent: 1 }];
  const broken = [undefined, null, 5, {}, [], "text", ...partial];
  for (const value of broken) {
    it(`refuses ${JSON.stringify(value)}`, () => {
      let ran = false;
      assert.throws(() => attach(value, () => (ran = true)), InvalidArgument);
      assert.equal(ran, false);
      assert.equal(scope.getHandle(), undefined);
    });
  }

  it("refuses values that are nearly right", async () => {
    const value = await scope.scope("S", () => propagation());
    const edits = { uuid: "x", root: 1, name: 5, category: "nonsense", version: 2 };
    for (const [key, wrong] of Object.entries(edits)) {
      assert.throws(() => attach({ ...value, [key]: wrong }, () => undefined), InvalidArgument, key);
    }
    assert.equal(attach(value, () => 5), 5);
  });
});
