/** Calls that the program runs itself and reports. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import {
  AlreadyEnded,
  currentCall,
  InvalidArgument,
  ManualCall,
  NotJson,
  Runtime,
  scope,
  ToolCallDenied,
  tools,
} from "callweir";

import { add, call, clear, Seen } from "./helpers.mjs";

afterEach(clear);

test("section 4: a manual call has one start and one end, and runs no middleware", async () => {
  const seen = new Seen();
  for (const family of ["tool.conditional_execution", "tool.request", "tool.execution"]) {
    add(family, () => assert.fail(`${family} ran`));
  }
  const args = { a: 1 };
  const handle = tools.call("t", args, {
    metadata: { m: 1 },
    toolCallId: "c1",
    attributes: ["remote"],
    timestamp: 1000,
  });
  assert.ok(handle instanceof ManualCall);
  args.a = 2;
  tools.callEnd(handle, { r: [1n << 60n] }, { timestamp: new Date(2500) });
  await seen.flushed();
  const [start, end] = [seen.start("t"), seen.end("t")];
  assert.equal(start.uuid, handle.uuid);
  assert.deepEqual([start.data, end.data], [{ a: 1 }, { r: [1n << 60n] }]);
  assert.deepEqual([start.timestamp, end.timestamp].map(Date.parse), [1000, 2500]);
  assert.deepEqual(start.attributes, ["remote"]);
  assert.equal(start.category, "tool");
  assert.deepEqual(
    [start, end].map(({ metadata }) => metadata.m),
    [1, 1],
  );
  assert.deepEqual(start.category_profile, { tool_call_id: "c1" });
  assert.equal(end.outcome, "succeeded");
});

test("C-13 ending twice is AlreadyEnded, and changes nothing", async () => {
  const seen = new Seen();
  const handle = tools.call("t", {});
  tools.callEnd(handle, 1);
  for (const again of [
    () => tools.callEnd(handle, 2),
    () => handle.end(),
    () => handle.end(1, { error: 5 }),
  ]) {
    assert.throws(again, AlreadyEnded);
  }
  await seen.flushed();
  assert.equal(seen.end("t").data, 1);
});

test("how a manual call ended: by its error, or as it says", async () => {
  const seen = new Seen();
  const denial = new ToolCallDenied("t", "no");
  for (const [name, options, outcome, type] of [
    ["good", {}, "succeeded", undefined],
    ["error", { error: new RangeError("PRIVATE-9") }, "failed", "RangeError"],
    ["denied", { error: denial }, "refused", "denied"],
    ["null", { error: null }, "failed", null],
    ["nothing", { error: undefined }, "failed", "undefined"],
    ["text", { error: "PRIVATE-9" }, "failed", "string"],
    ["cancelled", { outcome: "cancelled" }, "cancelled", undefined],
    ["abandoned", { outcome: "abandoned" }, "abandoned", undefined],
    ["both", { error: new TypeError("x"), outcome: "cancelled" }, "cancelled", "TypeError"],
  ]) {
    tools.call(name, {}).end(undefined, options);
    await seen.flushed();
    const { metadata } = seen.end(name);
    assert.equal(seen.end(name).outcome, outcome, name);
    assert.equal(metadata["error.type"], type, name);
    assert.equal("error.type" in metadata, type !== undefined, name);
  }
  assert.ok(!seen.events.some((event) => String(event).includes("PRIVATE")));
});

test("what is wrong with a manual call is an error at once, and leaves it open", async () => {
  const seen = new Seen();
  assert.throws(() => tools.call(5, {}), TypeError);
  assert.throws(
    () => tools.call("t", {}, { metadata: { a: new Map() } }),
    (error) => {
      return error instanceof NotJson && error.path === "$.a";
    },
  );
  assert.throws(() => tools.call("t", {}, { timestamp: "soon" }), InvalidArgument);
  assert.throws(() => tools.call("t", {}, { timestamp: new Date(NaN) }), InvalidArgument);
  assert.throws(() => tools.call("t", {}, { toolCallId: 5 }), TypeError);
  const handle = tools.call("open", {});
  assert.throws(() => handle.end(1, { outcome: "excellent" }), InvalidArgument);
  assert.throws(() => handle.end(1, { timestamp: NaN }), InvalidArgument);
  handle.end(2);
  await seen.flushed();
  assert.deepEqual(seen.shown(), ["start open", "end open"]);
  assert.equal(seen.end("open").data, 2);
});

test("PAY-2 a payload that is not JSON is marked so, and fails nothing", async () => {
  const seen = new Seen();
  tools.call("t", { a: [new Map()] }).end({ b: NaN });
  await seen.flushed();
  assert.equal(seen.start("t").metadata["callweir.not_json_path"], "$.a[0]");
  assert.equal(seen.end("t").metadata["callweir.not_json_path"], "$.b");
});

test("SCP-1 the parent is the current scope, or the one given; the call is a parent too", async () => {
  const seen = new Seen();
  const other = scope.push("other");
  scope.pop(other);
  await scope.scope("s", async (handle) => {
    const manual = tools.call("m", {});
    assert.equal(manual.scope.parentUuid, handle.uuid);
    assert.equal(scope.getHandle(), handle, "a manual call is not made current");
    await manual.scope.run(async () => {
      assert.equal(currentCall(), manual.scope);
      await call("inner");
      scope.event("mark");
    });
    tools.call("given", {}, { scope: other }).end();
    manual.end();
  });
  await seen.flushed();
  const { uuid } = seen.start("m");
  assert.equal(seen.start("m").parent_uuid, seen.start("s").uuid);
  assert.equal(seen.start("inner").parent_uuid, uuid);
  assert.equal(seen.of("mark", "mark")[0].parent_uuid, uuid);
  assert.equal(seen.start("given").parent_uuid, other.uuid);
});

test("SCP-3 a manual call is ended from anywhere, and outlives the scope around it", async () => {
  const seen = new Seen();
  let handle;
  scope.scope("s", () => {
    handle = tools.call("m", {});
  });
  await new Promise((resolve) => {
    setTimeout(() => {
      handle.end("late");
      resolve();
    }, 1);
  });
  await seen.flushed();
  assert.equal(seen.end("m").data, "late");
  assert.ok(seen.events.indexOf(seen.end("s")) < seen.events.indexOf(seen.end("m")));
});

test("SCP-3 what is open at shutdown ends as abandoned", async () => {
  const runtime = new Runtime();
  const seen = new Seen("seen", runtime);
  const handle = runtime.startCall("open", { a: 1 });
  const ended = runtime.startCall("ended", {});
  ended.end(1);
  assert.equal(await runtime.shutdown(), 0);
  assert.equal(seen.end("open").outcome, "abandoned");
  assert.equal(seen.end("ended").outcome, "succeeded");
  const before = seen.events.length;
  handle.end();
  ended.end();
  assert.equal(await runtime.flush(1000), 0);
  assert.equal(seen.events.length, before, "after shutdown ending does nothing");
});

test("CALL-1 a hundred manual calls at once, ended in any order", async () => {
  const seen = new Seen();
  const handles = Array.from({ length: 100 }, (_, n) => tools.call(`m${n}`, { n }));
  assert.equal(new Set(handles.map(({ uuid }) => uuid)).size, 100);
  for (const n of handles.keys()) handles[(n * 37) % 100].end((n * 37) % 100);
  await seen.flushed();
  for (const n of handles.keys()) assert.equal(seen.end(`m${n}`).data, n);
  assert.throws(() => handles[0].end(), { code: "already_ended" });
});
