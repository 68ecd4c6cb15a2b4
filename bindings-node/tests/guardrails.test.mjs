/** Guardrails: verdicts, sanitizers, and how both are registered. */

import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import {
  AlreadyExists,
  CallRejected,
  guardrails,
  InvalidArgument,
  InvalidReturn,
  registrations,
  Runtime,
  scope,
  tools,
  Verdict,
} from "callweir";

import { call, clear, echo, KINDS, made, Seen, thrownBy } from "./helpers.mjs";

afterEach(clear);

const register = guardrails.registerToolConditionalExecution;

describe("ERR-1 what a guardrail may say", () => {
  for (const kind of KINDS) {
    test(`nothing, a reason or a verdict (${kind})`, async () => {
      for (const [answer, reason] of [
        [undefined],
        [null],
        [Verdict.allow()],
        ["no", "no"],
        ["", ""],
        ["ü\n", "ü\n"],
        [Verdict.reject("no"), "no"],
        [Verdict.reject(""), ""],
      ]) {
        register(
          "g",
          0,
          made(kind, () => answer),
        );
        const got = await call("t", 1).catch((error) => error);
        if (reason === undefined) {
          assert.equal(got, 1);
        } else {
          assert.ok(got instanceof CallRejected);
          assert.deepEqual([got.targetName, got.reason, got.by, got.code], ["t", reason, "g", "rejected"]);
          assert.equal(got.forModel(), JSON.stringify({ error: `denied: ${reason}` }));
        }
        clear();
      }
    });
  }

  test("what only looks like a verdict is a failure", async () => {
    const shapes = [
      { allowed: true, reason: "" },
      { allowed: false, reason: "no" },
      JSON.parse(JSON.stringify(Verdict.allow())),
      Verdict,
      Verdict.allow,
      ["no"],
      new String("no"), // eslint-disable-line no-new-wrappers
      new Error("no"),
      new CallRejected("t", "no", "g"),
    ];
    for (const shape of shapes) {
      register("g", 0, () => shape);
      const error = await thrownBy(call("t", 1, () => assert.fail("the tool ran")));
      assert.ok(error instanceof InvalidReturn);
      clear();
    }
  });
});

test("section 4 step 3: the events of guardrails", async () => {
  const seen = new Seen();
  register("allows", 0, () => undefined);
  register("rejects", 1, () => "no");
  register("never", 2, () => assert.fail("asked after a rejection"));
  await thrownBy(call("t", { secret: "PRIVATE-9" }));
  await seen.flushed();
  assert.deepEqual(seen.shown(), ["start allows", "end allows", "start rejects", "end rejects", "mark t"]);
  const [start] = seen.of("start", "rejects");
  assert.equal(start.category, "guardrail");
  assert.deepEqual(start.data, { kind: "tool_conditional_execution", target_name: "t" });
  assert.deepEqual(seen.end("allows").data, { allowed: true, rejected: false });
  assert.deepEqual(seen.end("rejects").data, { allowed: false, rejected: true, rejection_reason: "no" });
  assert.deepEqual(seen.of("mark", "t")[0].data, { rejected: true, rejection_reason: "no" });
  const ids = new Set(seen.events.map(({ metadata }) => metadata["callweir.call_uuid"]));
  assert.equal(ids.size, 1);
  assert.ok(!seen.events.some((event) => String(event).includes("PRIVATE")));
});

test("FAM-2 the order of entries: priority, then the name byte by byte", async () => {
  const ran = [];
  for (const [name, priority] of [
    ["b", 0],
    ["B", 0],
    ["a", 0],
    ["z", -5],
    ["é", 0],
    ["aa", 0],
    ["0", 7],
  ]) {
    register(name, priority, () => void ran.push(name));
  }
  register("last", 2 ** 31 - 1, () => void ran.push("last"));
  register("first", -(2 ** 31), () => void ran.push("first"));
  await call();
  assert.deepEqual(ran, ["first", "z", "B", "a", "aa", "b", "é", "0", "last"]);
  const listed = registrations().filter(({ stage }) => stage === "tool.conditional_execution");
  assert.deepEqual(new Set(listed.map(({ name }) => name)), new Set(ran));
});

test("FAM-7 a name is taken once for each family and level", async () => {
  const ran = [];
  register("g", 0, () => void ran.push("first"));
  assert.throws(
    () => register("g", 5, () => void ran.push("second")),
    (error) => {
      assert.ok(error instanceof AlreadyExists);
      return error.targetName === "g";
    },
  );
  assert.throws(
    () => Runtime.default().register("tool.conditional_execution", "g", () => undefined),
    AlreadyExists,
  );
  guardrails.registerToolSanitizeRequest("g", 0, (_, args) => args);
  await scope.scope("s", async (handle) => {
    register("g", 0, () => void ran.push("scoped"), { scope: handle });
    assert.throws(() => register("g", 0, () => undefined, { scope: handle }), AlreadyExists);
    await call();
    assert.deepEqual(ran, ["first", "scoped"]);
    assert.equal(guardrails.deregisterToolConditionalExecution("g", { scope: handle }), true);
    assert.equal(guardrails.deregisterToolConditionalExecution("g", { scope: handle }), false);
  });
  assert.equal(guardrails.deregisterToolConditionalExecution("g"), true);
  assert.equal(guardrails.deregisterToolConditionalExecution("g"), false);
  assert.equal(guardrails.deregisterToolConditionalExecution("unknown"), false);
  await call();
  assert.equal(ran.length, 2);
});

test("FAM-7 what is wrong with a registration is an error at once, and registers nothing", () => {
  for (const priority of [1.5, NaN, 2 ** 31, -(2 ** 31) - 1, "1", Infinity]) {
    assert.throws(() => register("g", priority, () => undefined), InvalidArgument);
  }
  for (const fn of [undefined, null, "fn", {}, Promise.resolve(() => undefined)]) {
    assert.throws(() => register("g", 0, fn), TypeError);
  }
  for (const name of [undefined, null, 5, {}])
    assert.throws(() => register(name, 0, () => undefined), TypeError);
  assert.throws(() => Runtime.default().register("no.such_family", "g", () => undefined), Error);
  const handle = scope.push("s");
  scope.pop(handle);
  assert.throws(() => register("g", 0, () => undefined, { scope: handle }), Error);
  assert.deepEqual(registrations(), []);
});

test("FAM-3 each guardrail is asked when the one before has answered", async () => {
  const ran = [];
  const slow = (name) => async () => {
    ran.push(`${name} asked`);
    await turn();
    ran.push(`${name} answered`);
  };
  for (const [priority, name] of ["a", "b", "c"].entries()) register(name, priority, slow(name));
  await call();
  assert.deepEqual(
    ran,
    ["a", "b", "c"].flatMap((name) => [`${name} asked`, `${name} answered`]),
  );
});

test("FAM-2 two hundred guardrails", async () => {
  let asked = 0;
  for (let n = 0; n < 200; n++) register(`g${n}`, n, n % 2 ? async () => void asked++ : () => void asked++);
  assert.equal(await call("t", 1), 1);
  assert.equal(asked, 200);
});

describe("sanitizers change what observers see, and nothing else", () => {
  for (const kind of KINDS) {
    test(`of request and response (${kind})`, async () => {
      const seen = new Seen();
      const given = [];
      guardrails.registerToolSanitizeRequest(
        "s",
        0,
        made(kind, (name, args) => {
          given.push([name, args]);
          return { ...args, card: "****" };
        }),
      );
      guardrails.registerToolSanitizeResponse(
        "s",
        0,
        made(kind, (name, value) => {
          given.push([name, value]);
          return value.map((item) => item * 2);
        }),
      );
      const args = { card: "1", keep: 1 };
      const result = [1, 2];
      assert.equal(await call("t", args, (got) => (got === args ? result : assert.fail())), result);
      await seen.flushed();
      assert.deepEqual(seen.start("t").data, { card: "****", keep: 1 });
      assert.deepEqual(seen.end("t").data, [2, 4]);
      assert.deepEqual(given, [
        ["t", { card: "1", keep: 1 }],
        ["t", [1, 2]],
      ]);
      assert.deepEqual([args, result], [{ card: "1", keep: 1 }, [1, 2]]);
    });
  }

  test("each sees what the one before gave", async () => {
    const seen = new Seen();
    for (const [priority, name] of ["a", "b", "c"].entries()) {
      guardrails.registerToolSanitizeResponse(name, priority, async (_, value) => {
        await turn();
        return `${value}${name}`;
      });
    }
    await call("t", {}, () => "-");
    await seen.flushed();
    assert.equal(seen.end("t").data, "-abc");
  });

  test("a sanitizer may give any JSON, and what is not withholds the payload", async () => {
    const big = 2n ** 60n;
    for (const [value, data, how] of [
      [0, 0],
      [false, false],
      ["", ""],
      [[], []],
      [big, big],
      [new Date(0), "1970-01-01T00:00:00.000Z"],
      [{ toJSON: () => ({ j: 1 }) }, { j: 1 }],
      [new Map(), null, "withheld"],
      [{ a: NaN }, null, "withheld"],
      [() => 1, null, "withheld"],
    ]) {
      const seen = new Seen();
      guardrails.registerToolSanitizeResponse("s", 0, () => value);
      assert.equal(await call("t", {}, () => "real"), "real");
      await seen.flushed();
      assert.deepEqual(seen.end("t").data, data);
      const shown = seen.end("t").metadata["callweir.payload"];
      if (how === undefined) assert.equal(shown, undefined);
      else assert.ok(["withheld", "not_json"].includes(shown), shown);
      clear();
    }
  });

  test("they run on manual calls too, and not where nobody observes", async () => {
    let ran = 0;
    guardrails.registerToolSanitizeRequest("s", 0, (_, args) => (ran++, args));
    await call();
    assert.equal(ran, 0);
    const seen = new Seen();
    tools.callEnd(tools.call("t", { a: 1 }), 1);
    await seen.flushed();
    assert.equal(ran, 1);
  });
});

describe("C-82 EVT-3 event sanitizers", () => {
  test("see the event, and change its three fields and nothing else", async () => {
    const seen = new Seen();
    guardrails.registerToolSanitizeRequest("mask", 0, (_, args) => ({ ...args, card: "****" }));
    let given;
    guardrails.registerScopeSanitizeStart("s", 0, async (event, fields) => {
      await turn();
      given = [event.name, event.data, structuredClone(fields)];
      for (const [key, value] of Object.entries({ name: "changed", uuid: "changed", data: 5 })) {
        try {
          event[key] = value;
        } catch {
          // Read only.
        }
      }
      return { data: { ...fields.data, added: true } };
    });
    await call("t", { card: "1" }, echo, { metadata: { mine: 1 }, toolCallId: "c1" });
    await seen.flushed();
    const { uuid, data, category_profile, metadata } = seen.start("t");
    assert.deepEqual(given[1], { card: "****" });
    assert.equal(given[2].metadata.mine, 1);
    assert.equal(uuid, seen.end("t").uuid);
    assert.deepEqual(data, { card: "****", added: true });
    assert.equal(category_profile ?? null, null);
    assert.ok(
      Object.keys(metadata ?? {}).every((key) => key.startsWith("callweir.")),
      JSON.stringify(metadata),
    );
  });

  test("cannot change or clear what Callweir itself says", async () => {
    const seen = new Seen();
    const spoil = () => ({ data: 1, metadata: { "callweir.outcome": "failed", "error.type": "x", own: 1 } });
    guardrails.registerScopeSanitizeEnd("s", 0, spoil);
    await call("t", {});
    await thrownBy(call("bad", {}, () => Promise.reject(new RangeError("x"))));
    await seen.flushed();
    assert.equal(seen.end("t").metadata["callweir.outcome"], "succeeded");
    assert.equal(seen.end("t").metadata.own, 1);
    assert.equal(seen.end("bad").metadata["error.type"], "RangeError");
    assert.equal(seen.end("bad").metadata["callweir.outcome"], "failed");
    assert.equal(seen.end("t").metadata["otel.status_code"], "OK");
  });

  test("of marks, with what they return of the wrong kind", async () => {
    for (const [value, data] of [
      [{ data: { n: 2 } }, { n: 2 }],
      [{}, null],
      [5, null],
      ["text", null],
      [[], null],
    ]) {
      const seen = new Seen();
      guardrails.registerMarkSanitize("s", 0, () => value);
      scope.event("m", { n: 1 });
      await seen.flushed();
      assert.deepEqual(seen.of("mark", "m")[0].data, data, JSON.stringify(value));
      clear();
    }
  });

  test("run one after another, on calls, scopes and manual calls", async () => {
    const seen = new Seen();
    for (const name of ["a", "b"]) {
      guardrails.registerScopeSanitizeEnd(name, 0, (event, { data, metadata }) => {
        return { data: `${data}${event.name}${name}`, metadata };
      });
    }
    await call("t", {}, () => "-");
    scope.scope("s", (handle) => handle.setOutput("-"));
    tools.callEnd(tools.call("m", {}), "-");
    await seen.flushed();
    for (const name of ["t", "s", "m"]) assert.equal(seen.end(name).data, `-${name}a${name}b`);
  });
});
