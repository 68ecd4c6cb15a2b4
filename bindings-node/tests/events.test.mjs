/** Events: their form, the sanitizers, typed records, what a call's snapshot holds. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import {
  CallRejected,
  explain,
  exporters,
  guardrails,
  InvalidArgument,
  registrations,
  Runtime,
  scope,
  subscribers,
  tool,
  ToolCallDenied,
  ToolContext,
  ToolRegistry,
  tools,
} from "callweir";

import { add, call, clearAfterEach, deferred, KINDS, made, pause, readLines, Seen } from "./helpers.mjs";
import { temporary, thrownBy } from "./helpers.mjs";

clearAfterEach();

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const SLOW = ["plain", "async", "thenable", "async_method"];
const inFolder = temporary();

class Quota extends Error {}

function fail() {
  throw new Quota("card 5500-0000-1111");
}

describe("EVT-1: the wire format", () => {
  it("of a scope, a guarded call and a mark", async () => {
    const seen = new Seen();
    add("tool.conditional_execution", () => undefined, { name: "g" });
    await scope.scope("S", "agent", async () => {
      await call("t", { a: 1 }, undefined, { toolCallId: "c1", metadata: { mine: 1 } });
      scope.event("m", { d: 1 }, { metadata: { k: 1 }, dataSchema: { type: "object" } });
    });
    const wire = (await seen.flushed()).events.map((event) => event.toJSON());
    const order = ["start S", "start g", "end g", "start t", "end t", "mark m", "end S"];
    assert.deepEqual(seen.shown(), order);
    const [outer, guarded, allowed, start, end, mark] = wire;
    for (const [index, one] of wire.entries()) {
      assert.equal(one.atof_version, "0.1");
      assert.match(one.uuid, UUID7);
      assert.match(one.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      assert.ok(!Number.isNaN(Date.parse(one.timestamp)));
      assert.equal(one.kind, index === 5 ? "mark" : "scope");
      assert.deepEqual(JSON.parse(JSON.stringify(seen.events[index])), one);
      assert.deepEqual(JSON.parse(String(seen.events[index])), one);
      for (const field of Object.keys(one)) assert.deepEqual(seen.events[index][field], one[field], field);
    }
    const times = wire.map((one) => one.timestamp);
    assert.deepEqual([...times].sort(), times);
    assert.equal(outer.parent_uuid, null);
    assert.deepEqual([start, guarded, mark].map((one) => one.parent_uuid), Array(3).fill(outer.uuid));
    assert.equal(guarded.category, "guardrail");
    assert.equal(guarded.metadata["callweir.call_uuid"], start.uuid);
    assert.deepEqual(guarded.data, { kind: "tool_conditional_execution", target_name: "t" });
    assert.deepEqual(allowed.data, { allowed: true, rejected: false });
    assert.deepEqual([start.category, start.data, start.attributes], ["tool", { a: 1 }, []]);
    assert.deepEqual([start.category_profile, start.metadata.mine], [{ tool_call_id: "c1" }, 1]);
    assert.equal(end.metadata["callweir.outcome"], "succeeded");
    assert.equal(end.metadata["otel.status_code"], "OK");
    assert.deepEqual([mark.data, mark.metadata.k, mark.data_schema], [{ d: 1 }, 1, { type: "object" }]);
    assert.equal(mark.scope_category, undefined);
  });

  it("of a rejection, also with an empty reason", async () => {
    for (const reason of ["no", ""]) {
      const seen = new Seen(`seen${reason}`);
      add("tool.conditional_execution", () => reason, { name: "g" });
      let ran = false;
      const error = await thrownBy(call("t", {}, () => (ran = true)));
      assert.ok(error instanceof CallRejected && !ran);
      await seen.flushed();
      assert.deepEqual(seen.shown(), ["start g", "end g", "mark t"]);
      const [, end, mark] = seen.events;
      assert.deepEqual(end.data, { allowed: false, rejected: true, rejection_reason: reason });
      assert.deepEqual(mark.data, { rejected: true, rejection_reason: reason });
      assert.equal(mark.metadata["callweir.mark"], "rejection");
      assert.equal(mark.metadata["callweir.call_uuid"], end.metadata["callweir.call_uuid"]);
      Runtime.default().deregister("tool.conditional_execution", "g");
    }
  });

  it("takes timestamps that the program gives, as a Date or in milliseconds", async () => {
    const seen = new Seen();
    const when = new Date("2024-02-03T04:05:06Z");
    scope.event("m", 1, { timestamp: when });
    const handle = tools.call("t", {}, { timestamp: when.getTime() });
    tools.callEnd(handle, 1, { timestamp: new Date(when.getTime() + 1500) });
    const shown = (await seen.flushed()).events.map((event) => Date.parse(event.timestamp) - when);
    assert.deepEqual(shown, [0, 0, 1500]);
    assert.throws(() => scope.event("m", 1, { timestamp: "yesterday" }), InvalidArgument);
  });

  it("each subscriber has its own copy, and none reaches the caller (PAY-5)", async () => {
    const args = { list: [1] };
    const read = [];
    subscribers.register("a", (event) => {
      event.data?.list?.push("a");
      event.toJSON().data?.list?.push("b");
    });
    subscribers.register("b", (event) => void read.push(event.data));
    const result = await call("t", args);
    await subscribers.flush();
    assert.deepEqual([args, result, read], [{ list: [1] }, { list: [1] }, [{ list: [1] }, { list: [1] }]]);
  });

  it("shows the arguments as they were when the call started (PAY-5)", async () => {
    const seen = new Seen();
    await call("t", { list: [1] }, (args) => (args.list.push(2), (args.more = 1), args.list));
    await seen.flushed();
    assert.deepEqual([seen.start("t").data, seen.end("t").data], [{ list: [1] }, [1, 2]]);
  });
});

describe("EVT-3: sanitizers", () => {
  for (const kind of SLOW) {
    it(`C-82: what an event sanitizer may change (${kind})`, async () => {
      const seen = new Seen();
      const asked = [];
      const release = deferred();
      const sanitize = async (event, fields) => {
        asked.push([event.name, structuredClone(fields)]);
        await pause(20);
        for (const name of ["name", "uuid"]) assert.throws(() => (event[name] = "other"), TypeError);
        release.resolve("sanitized");
        return { data: { ...fields.data, added: 1 }, name: "other", uuid: "other" };
      };
      guardrails.registerToolSanitizeRequest("mask", 0, (_, args) => ({ ...args, pin: "***" }));
      guardrails.registerScopeSanitizeStart("s", 0, made(kind, sanitize));
      await call("t", { pin: 1234, a: 1 }, undefined, { metadata: { mine: 1 }, toolCallId: "c1" });
      const first = await Promise.race([release.promise, Promise.resolve("the call")]);
      assert.equal(first, "the call", "the call did not wait");
      await seen.flushed();
      const [[name, fields]] = asked;
      assert.equal(name, "t");
      assert.deepEqual(Object.keys(fields).sort(), ["category_profile", "data", "metadata"]);
      assert.deepEqual(fields.data, { pin: "***", a: 1 });
      const start = seen.start("t");
      assert.deepEqual(start.data, { pin: "***", a: 1, added: 1 });
      assert.equal(start.uuid, seen.end("t").uuid);
      assert.equal(start.category_profile ?? null, null);
      assert.equal((start.metadata ?? {}).mine, undefined);
    });

    it(`CALL-1: what is Callweir's own stays (${kind})`, async () => {
      const seen = new Seen();
      const lies = { "callweir.outcome": "lie", "otel.status_code": "lie", "error.type": "lie", k: 1 };
      guardrails.registerScopeSanitizeEnd("s", 0, made(kind, (_, fields) => ({ ...fields, metadata: lies })));
      await call("good");
      await thrownBy(call("bad", {}, fail));
      await seen.flushed();
      const [good, bad] = [seen.end("good").metadata, seen.end("bad").metadata];
      const facts = (of) => [of["callweir.outcome"], of["otel.status_code"], of["error.type"] ?? null, of.k];
      assert.deepEqual(facts(good), ["succeeded", "OK", null, 1]);
      assert.deepEqual(facts(bad), ["failed", "ERROR", "Quota", 1]);
    });

    it(`run in order, each on what the one before gave (${kind})`, async () => {
      const seen = new Seen();
      for (const [name, priority] of [["b", 0], ["a", 0], ["B", 0], ["z", -1]]) {
        guardrails.registerToolSanitizeRequest(name, priority, made(kind, (_, args) => [...args, name]));
      }
      assert.deepEqual(await call("t", []), []);
      await seen.flushed();
      assert.deepEqual(seen.start("t").data, ["z", "B", "a", "b"]);
    });
  }

  for (const wrong of [5, "text", [1], true]) {
    it(`an event sanitizer that returns ${JSON.stringify(wrong)} shows nothing`, async () => {
      const seen = new Seen();
      const later = [];
      guardrails.registerMarkSanitize("a", 0, () => wrong);
      guardrails.registerMarkSanitize("b", 0, (event, fields) => (later.push(event.name), fields));
      scope.event("m", { secret: "5500" }, { metadata: { secret: "5500" } });
      await seen.flushed();
      assert.equal(seen.events.length, 1);
      assert.ok(!JSON.stringify(seen.events.map(({ data, metadata }) => [data, metadata])).includes("5500"));
      assert.deepEqual(later, []);
    });
  }

  it("C-60: one that returns nothing omits the payload, and later ones do not run", async () => {
    const seen = new Seen();
    const later = [];
    for (const family of ["tool.sanitize_request", "tool.sanitize_response"]) {
      add(family, () => undefined, { name: "a" });
      add(family, (name, value) => (later.push(name), value), { name: "b" });
    }
    assert.deepEqual(await call("t", { secret: "5500" }), { secret: "5500" });
    await seen.flushed();
    for (const event of [seen.start("t"), seen.end("t")]) {
      assert.deepEqual([event.data, event.metadata["callweir.payload"]], [null, "omitted"]);
    }
    assert.deepEqual(later, []);
  });

  it("C-60, EVT-6: one that fails withholds the payload; no event and no warning has the text", async () => {
    const warned = [];
    const onWarning = (warning) => warned.push(String(warning.stack));
    process.on("warning", onWarning);
    const seen = new Seen();
    guardrails.registerToolSanitizeRequest("a", 0, fail);
    guardrails.registerToolSanitizeResponse("a", 0, async () => fail());
    guardrails.registerMarkSanitize("a", 0, fail);
    subscribers.register("fails", fail);
    scope.event("m", { secret: "5500" });
    assert.deepEqual(await call("t", { secret: "5500" }), { secret: "5500" });
    await thrownBy(call("u", {}, fail));
    await seen.flushed();
    await pause(5);
    process.off("warning", onWarning);
    assert.ok(!JSON.stringify(seen.events.map(({ data, metadata }) => [data, metadata])).includes("5500"));
    assert.ok(!warned.join().includes("5500"), warned.join());
    assert.equal(seen.start("t").metadata["callweir.payload"], "withheld");
    assert.equal(seen.end("t").metadata["callweir.payload"], "withheld");
    assert.equal(seen.end("u").metadata["error.type"], "Quota");
    assert.equal(seen.events.length, 5);
    assert.ok(Runtime.default().counts().failures >= 8);
  });

  it("EVT-6: the text of errors is there where it is switched on", async () => {
    const runtime = new Runtime({ errorText: true });
    const seen = new Seen("seen", runtime);
    const off = new Seen();
    await thrownBy(runtime.execute("t", {}, fail));
    await thrownBy(call("t", {}, fail));
    assert.ok(JSON.stringify((await seen.flushed()).end("t")).includes("5500"));
    assert.ok(!JSON.stringify((await off.flushed()).end("t")).includes("5500"));
  });
});

describe("EVT-10: events of queued callbacks", () => {
  for (const kind of KINDS) {
    it(`C-63: a subscriber answers one mark with one (${kind})`, async () => {
      const seen = new Seen();
      const asked = [];
      const answer = (event) => {
        asked.push(event.name);
        if (asked.filter((name) => name === "go").length === 1 && event.name === "go") scope.event("answer");
      };
      subscribers.register("answers", made(kind, answer));
      scope.event("go");
      scope.event("go");
      for (let round = 0; round < 3; round++) await subscribers.flush(5000);
      assert.deepEqual([...asked].sort(), ["answer", "go", "go"]);
      assert.deepEqual(seen.events.map((event) => event.name).sort(), ["answer", "go", "go"]);
    });

    it(`an event cannot feed itself for ever (${kind})`, async () => {
      const asked = [];
      const feed = (event) => {
        asked.push(event.name);
        if (asked.length > 5000) return;
        scope.event(event.name);
        scope.event(event.name);
      };
      subscribers.register("feeds", made(kind, feed));
      scope.event("again");
      for (let round = 0; round < 12; round++) await subscribers.flush(5000);
      assert.ok(asked.length > 1 && asked.length < 5000, `${asked.length}`);
    });
  }

  it("nor through a sanitizer, nor through calls", async () => {
    const seen = new Seen();
    let asked = 0;
    guardrails.registerScopeSanitizeStart("feeds", 0, async (_, fields) => {
      if (++asked < 5000) await call("inner");
      return fields;
    });
    await call("outer");
    for (let round = 0; round < 12; round++) await subscribers.flush(5000);
    assert.ok(asked > 1 && asked < 5000, `${asked}`);
    assert.equal(seen.of("start").length, seen.of("end").length);
  });
});

describe("EVT-11: typed records", () => {
  const middleware = (one, next) => {
    if (one.name === "denied") throw new ToolCallDenied("denied", "PRIVATE-9");
    return one.name === "answered" ? "PRIVATE-9" : next(one);
  };
  for (const kind of KINDS) {
    it(`C-83: five dispatches (${kind})`, async () => {
      const seen = new Seen();
      const records = [];
      subscribers.registerCalls("records", made(kind, (record) => void records.push(record)));
      const broken = () => {
        throw new Quota("PRIVATE-9");
      };
      const registry = new ToolRegistry().use(middleware);
      registry.register(tool({ name: "good" }, async (args) => (await pause(20), args)));
      for (const name of ["fails", "denied", "answered"]) registry.register(tool({ name }, broken));
      const context = new ToolContext({ callerId: "me" });
      const names = ["good", "fails", "denied", "answered", "unknown"];
      for (const name of names) {
        await registry.dispatch(name, { a: "PRIVATE-9" }, context).catch(() => undefined);
      }
      await call("no registry call");
      await seen.flushed();
      const both = names.slice(0, 4).flatMap((name) => [`started ${name}`, `completed ${name}`]);
      assert.deepEqual(records.map((one) => `${one.event} ${one.tool}`), [...both, "completed unknown"]);
      const completed = records.filter((one) => one.event === "completed");
      const outcomes = ["succeeded", "failed", "refused", "succeeded", "refused"];
      assert.deepEqual(completed.map((one) => one.outcome), outcomes);
      assert.equal(completed[3].shortCircuited, true);
      assert.equal(completed[0].shortCircuited, false);
      assert.deepEqual(completed.slice(0, 4).map((one) => one.errorType), [null, "Quota", "denied", null]);
      for (const one of records) {
        assert.equal(one.callerId, "me");
        assert.ok(Math.abs(one.timestamp - Date.now()) < 60_000);
      }
      assert.ok(!JSON.stringify(records).includes("PRIVATE-9"));
      assert.ok(completed[0].duration >= 15 && completed[0].duration < 5000, `${completed[0].duration}`);
      assert.ok(completed.every((one) => one.duration >= 0));
      const starts = seen.of("start").filter((event) => names.includes(event.name));
      const ids = (list) => new Set(list.map((one) => one.uuid));
      assert.deepEqual(ids(records.slice(0, 8)), ids(starts));
    });
  }
});

describe("FAM-6: a call's snapshot", () => {
  it("holds the chains and subscribers of its beginning", async () => {
    const seen = new Seen();
    const log = [];
    const noting = (name) => (_, value) => (log.push(name), value);
    const fill = (name) => {
      guardrails.registerToolSanitizeRequest(name, 0, noting(`request ${name}`));
      guardrails.registerToolSanitizeResponse(name, 0, noting(`response ${name}`));
      add("tool.execution", (_, args, next) => (log.push(`execution ${name}`), next()), { name });
    };
    fill("old");
    add("tool.request", (_, args) => {
      fill("new");
      subscribers.register("late", (event) => void log.push(`late ${event.name}`));
      return args;
    }, { name: "r" });
    await call("one", {}, async () => {
      for (const family of ["tool.sanitize_request", "tool.sanitize_response", "tool.execution"]) {
        assert.equal(Runtime.default().deregister(family, "old"), true);
      }
      assert.equal(subscribers.deregister("seen"), true);
    });
    await subscribers.flush();
    assert.deepEqual(log, ["execution old", "request old", "response old"]);
    assert.deepEqual(seen.shown(), ["start one", "end one"]);
    Runtime.default().deregister("tool.request", "r");
    log.length = 0;
    await call("two");
    await subscribers.flush();
    const later = ["execution new", "request new", "response new", "late two", "late two"];
    assert.deepEqual(log.sort(), later.sort());
    assert.deepEqual(seen.shown(), ["start one", "end one"]);
  });

  it("the end is sanitized by the chain of the start, whatever was closed in between", async () => {
    const seen = new Seen();
    const mask = () => "masked";
    let handle;
    await scope.scope("S", async (it) => {
      handle = it;
      guardrails.registerToolSanitizeResponse("s", 0, mask, { scope: it });
      await call("t", {}, async () => {
        it.close();
        await pause();
        return "PRIVATE-9";
      });
    });
    await seen.flushed();
    assert.equal(seen.end("t").data, "masked");
    assert.equal(guardrails.deregisterToolSanitizeResponse("s", { scope: handle }), false);
  });
});

describe("FAM-8: levels", () => {
  it("C-87: explain says what runs, at each place", async () => {
    const ran = [];
    const noting = (label) => () => void ran.push(label);
    const family = "tool.conditional_execution";
    const shown = () =>
      explain("tool", "t").filter((one) => one.stage === family).map((one) => `${one.name} ${one.level}`);
    const check = async (expected) => {
      assert.deepEqual(shown(), expected);
      ran.length = 0;
      await call("t");
      assert.deepEqual(ran, expected);
    };
    let handles;
    add(family, noting("m global"), { name: "m", priority: 5 });
    await scope.scope("outer", async (outer) => {
      add(family, noting("m scope"), { name: "m", priority: 5, scope: outer });
      await scope.scope("inner", async (inner) => {
        handles = [outer, inner];
        add(family, noting("a scope"), { name: "a", priority: -1, scope: inner });
        await check(["a scope", "m global", "m scope"]);
        const [first, second, third] = explain("tool", "t");
        assert.deepEqual([first.priority, second.priority], [-1, 5]);
        assert.ok([first, third].every((one) => typeof one.owner === "string"));
        assert.notEqual(first.owner, third.owner);
        assert.deepEqual(explain("tool", "t", { scope: outer }).map((one) => one.level), ["global", "scope"]);
      });
      await check(["m global", "m scope"]);
    });
    await check(["m global"]);
    assert.deepEqual(registrations().map((one) => one.level), ["global"]);
    for (const [index, scope] of handles.entries()) {
      const name = ["m", "a"][index];
      assert.equal(Runtime.default().deregister(family, name, { scope }), false);
    }
  });

  it("subscribers and sanitizers of a scope see what is inside it", async () => {
    const seen = new Seen();
    const local = [];
    let handle;
    await scope.scope("S", async (it) => {
      handle = it;
      subscribers.register("local", (event) => void local.push(event.name), { scope: it });
      guardrails.registerMarkSanitize("s", 0, () => ({ data: "masked" }), { scope: it });
      scope.event("inside", 1);
    });
    scope.event("outside", 1);
    await seen.flushed();
    assert.ok(local.includes("inside") && !local.includes("outside"));
    const marks = seen.of("mark").map((mark) => [mark.name, mark.data]);
    assert.deepEqual(marks, [["inside", "masked"], ["outside", 1]]);
    assert.equal(subscribers.deregister("local", { scope: handle }), false);
  });
});

describe("FAM-9: runtimes", () => {
  it("two share nothing", async () => {
    const seen = new Seen();
    const runtime = new Runtime();
    const other = new Seen("seen", runtime);
    const asked = [];
    runtime.register("tool.conditional_execution", "g", (name) => void asked.push(name));
    await runtime.execute("theirs", {}, () => 1);
    await call("mine");
    await other.flushed();
    await seen.flushed();
    assert.deepEqual(asked, ["theirs"]);
    assert.deepEqual(seen.shown(), ["start mine", "end mine"]);
    assert.deepEqual(other.shown(), ["start g", "end g", "start theirs", "end theirs"]);
    assert.deepEqual(runtime.registrations().map((one) => one.name), ["g", "seen"]);
    assert.deepEqual(registrations().map((one) => one.name), ["seen"]);
    assert.equal(await runtime.shutdown(), 0);
    assert.deepEqual([runtime.isShut, Runtime.default().isShut], [true, false]);
    await call("later");
    assert.equal((await seen.flushed()).events.length, 4);
    assert.equal(Runtime.default(), Runtime.default());
  });
});

describe("exporters.jsonl", () => {
  it("appends one event a line", async () => {
    const path = inFolder("events.jsonl");
    exporters.jsonl(path);
    add("tool.request", (_, args) => ({ ...args, ü: "\u2028\n" }));
    await call("t", { a: 1, big: 2n ** 63n });
    assert.equal(await subscribers.flush(), 0);
    const lines = readLines(path);
    assert.deepEqual(lines.map((line) => line.scope_category), ["start", "end"]);
    assert.deepEqual(lines[0].data, { a: 1, big: 2 ** 63, ü: "\u2028\n" });
    assert.equal(subscribers.deregister("jsonl"), true);
    await call("t");
    assert.equal(await subscribers.flush(), 0);
    assert.equal(readLines(path).length, 2);
    exporters.jsonl(path, { name: "again" });
    await call("t");
    assert.equal(await subscribers.flush(), 0);
    assert.equal(readLines(path).length, 4);
    assert.throws(() => exporters.jsonl(inFolder("no/such/folder")), InvalidArgument);
  });
});
