/** Values: what the tool and the caller get, and what the copies for observers hold. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, describe, test } from "node:test";

import vm from "node:vm";

import { InvalidArgument, NotJson, Runtime, scope, tool, ToolRegistry, tools } from "callweir";

import { add, call, clear, echo, made, quietly, Seen, temporary, thrownBy } from "./helpers.mjs";

afterEach(clear);

const SAFE = Number.MAX_SAFE_INTEGER;
const U64 = 2n ** 64n;

const dispatched = (args, fn = echo) =>
  new ToolRegistry().register(tool({ name: "t" }, fn)).dispatch("t", args);

/** Makes a call that returns a value, and gives the end event's payload and what its metadata says of it. */
async function shown(value, runtime = Runtime.default()) {
  const seen = new Seen("shown", runtime);
  const got = await quietly(() => runtime.execute("t", {}, () => value));
  assert.ok(Object.is(got, value));
  await seen.flushed();
  runtime.unsubscribe("shown");
  const { data, metadata, outcome } = seen.end("t");
  assert.equal(outcome, "succeeded");
  const text = String(seen.end("t"));
  assert.equal(JSON.parse(text).name, "t", "the event is strict JSON");
  return { data, how: metadata["callweir.payload"], path: metadata["callweir.not_json_path"], text };
}

const NESTED = '{"z":1,"model":"m","inner":{"y":[{"d":1,"c":2}],"b":2},"a":3}';

for (const form of ["value", "text"]) {
  test(`C-45 PAY-3 key order, of a ${form}`, async () => {
    for (const kind of ["plain", "async", "thenable"]) {
      const seen = new Seen();
      add(
        "tool.request",
        made(kind, (_, args) => args),
      );
      const written = [];
      const result = await dispatched(form === "text" ? NESTED : JSON.parse(NESTED), (args) => {
        written.push(JSON.stringify(args));
        return args;
      });
      assert.deepEqual(written, [NESTED]);
      assert.equal(JSON.stringify(result), NESTED);
      await seen.flushed();
      for (const event of [seen.start("t"), seen.end("t")]) {
        assert.equal(JSON.stringify(event.data), NESTED);
        assert.equal(JSON.stringify(event.toJSON().data), NESTED);
        assert.ok(String(event).includes(`"data":${NESTED}`));
      }
      clear();
    }
  });

  test(`C-55 PAY-3 numbers, of a ${form}`, async () => {
    const seen = new Seen();
    add("tool.request", (_, args) => args);
    const text =
      '{"count":42,"id":4611686018427387905,"ratio":0.5,"u":18446744073709551615,"i":-9223372036854775808,' +
      '"safe":9007199254740991,"unsafe":9007199254740993,"low":-9007199254740993,"zero":0,"e":1e21}';
    const value = {
      count: 42,
      id: 4611686018427387905n,
      ratio: 0.5,
      u: U64 - 1n,
      i: -(2n ** 63n),
      safe: SAFE,
      unsafe: 9007199254740993n,
      low: -9007199254740993n,
      zero: 0,
      e: 1e21,
    };
    let got;
    const result = await dispatched(form === "text" ? text : value, (args) => {
      got = args;
      return args;
    });
    assert.deepEqual(got, value);
    assert.equal(result, got);
    await seen.flushed();
    for (const event of [seen.start("t"), seen.end("t")]) {
      assert.deepEqual(event.data, value);
      for (const digits of text.match(/\d{16,}/g)) assert.ok(String(event).includes(digits), digits);
      for (const [key, item] of Object.entries(value)) assert.equal(typeof event.data[key], typeof item, key);
    }
  });
}

test("C-55 integers of JSON text beyond 64 bits are never rounded", async () => {
  const seen = new Seen();
  const { a, b } = await dispatched('{"a":18446744073709551616,"b":[-1000000000000000000000000000000]}');
  assert.equal(a, U64);
  assert.deepEqual(b, [-(10n ** 30n)]);
  await seen.flushed();
  assert.equal(seen.end("t").metadata["callweir.payload"], "not_json");
});

test("PAY-3 numbers of a host value are written as JavaScript writes them", async () => {
  const numbers = [0, -0, 0.1, 1e21, 1e-7, 5e-324, Number.MAX_VALUE, SAFE, -SAFE, 1.5, 123456789.123];
  const { data, text } = await shown(numbers);
  assert.deepEqual(
    data,
    numbers.map((number) => (number === 0 ? 0 : number)),
  );
  assert.ok(text.includes(JSON.stringify(numbers)));
  const large = await shown([2 ** 53, 2 ** 64, 1e20]);
  assert.deepEqual(large.data.map(Number), [2 ** 53, 2 ** 64, 1e20]);
  assert.ok(
    large.data.every((number) => typeof number === "bigint"),
    "outside the safe range it is a BigInt",
  );
  assert.ok(large.text.includes("[9007199254740992,18446744073709552000,100000000000000000000]"));
});

test("PAY-3 integers of any size are whole in a file of events", async () => {
  const path = temporary()("events.jsonl");
  const runtime = new Runtime();
  const seen = new Seen("seen", runtime);
  runtime.exportJsonl(path);
  const registry = new ToolRegistry({ runtime }).register(tool({ name: "t" }, echo));
  await registry.dispatch("t", '{"big":18446744073709551615,"text":"ü\\n"}');
  assert.equal(await runtime.shutdown(), 0);
  assert.deepEqual(readFileSync(path, "utf8").trimEnd().split("\n"), seen.events.map(String));
  assert.ok(String(seen.end("t")).includes('{"big":18446744073709551615,"text":"ü\\n"}'));
});

for (const [text, path] of [
  ['{"a":[1,1e400]}', "$.a[1]"],
  ['{"a":-1e999}', "$.a"],
  ['{"a":{"b c":[[1e400]]}}', '$.a["b c"][0][0]'],
  ['{"a":"\\ud800","b":1e400}', "$.b"],
  ['{"a":"\ud800","b":[-1e400]}', "$.b[0]"],
]) {
  test(`PAY-3 a number that JavaScript cannot hold: ${JSON.stringify(text)}`, async () => {
    const error = await thrownBy(dispatched(text, () => assert.fail("the tool ran")));
    assert.ok(error instanceof InvalidArgument);
    assert.equal(error.path, path);
  });
}

test("REG-3 text that is no JSON runs nothing", async () => {
  const broken = [
    "",
    " ",
    "{",
    '{"a":1',
    "{'a':1}",
    '{"a":NaN}',
    '{"a":01}',
    '{"a":1,}',
    "undefined",
    "\ufeff{}",
    "{}x",
  ];
  for (const text of [...broken, '{"a":"\\ud800"', '{"\\ud800":NaN}', '{"\\ud800":01}', '{"a":"\ud800",}']) {
    const error = await thrownBy(dispatched(text, () => assert.fail("the tool ran")));
    assert.ok(error instanceof InvalidArgument, text);
    assert.equal(error.path, "$");
  }
  for (const text of ["[]", "1", '"a"', "null", '["\\ud800"]']) {
    assert.ok(
      (await thrownBy(dispatched(text, () => assert.fail("the tool ran")))) instanceof InvalidArgument,
    );
  }
});

test("REG-3 JSON text at its edges", async () => {
  assert.deepEqual(await dispatched(' \n\t{ "a" : [ ] }\r\n'), { a: [] });
  assert.deepEqual(await dispatched('{"a":1,"a":2}'), { a: 2 });
  assert.deepEqual(await dispatched('{"\\u0000\\u0001n5":"\\u0000\\u0001n5"}'), {
    "\0\u0001n5": "\0\u0001n5",
  });
  const both = '{"\\u0000\\u0001n5":"\\u0000\\u0001n5","id":4611686018427387905,"s":"\\u0000\\u0001sx"}';
  const seen = new Seen();
  const expected = { "\0\u0001n5": "\0\u0001n5", id: 4611686018427387905n, s: "\0\u0001sx" };
  assert.deepEqual(await dispatched(both), expected);
  await seen.flushed();
  assert.deepEqual(seen.end("t").data, expected);
  assert.ok(String(seen.end("t")).includes(`"data":${both}`));
});

function deep(levels, innermost = 1) {
  let value = innermost;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

test("C-56 PAY-3 nesting of 512 levels is JSON, of 513 it is not", async () => {
  for (const [levels, fits] of [
    [511, true],
    [512, true],
    [513, false],
    [100_000, false],
  ]) {
    const { data, how } = await shown(deep(levels));
    assert.equal(data !== null, fits, levels);
    assert.equal(how, fits ? undefined : "not_json", levels);
    add("tool.conditional_execution", () => undefined);
    assert.equal(await call("t", { v: deep(levels) }, () => 1), 1);
    clear();
    const text = `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    const odd = `{"a":${"[".repeat(levels - 1)}"\\ud800"${"]".repeat(levels - 1)}}`;
    for (const given of [text, odd]) {
      if (fits) assert.ok(Array.isArray((await dispatched(given)).a));
      else assert.equal((await thrownBy(dispatched(given))).path, "$");
    }
  }
});

const looped = (() => {
  const value = [1];
  value.push({ value });
  return value;
})();

async function* generated() {
  yield 1;
}

/** What is not JSON, with the path of what is wrong in it. */
const NOT_JSON = {
  infinity: [{ a: [1, 2, 3, Infinity] }, "$.a[3]"],
  "minus infinity": [[-Infinity], "$[0]"],
  nan: [[NaN], "$[0]"],
  bytes: [{ b: new Uint8Array(2) }, "$.b"],
  buffer: [{ b: Buffer.from("x") }, "$.b"],
  "array buffer": [new ArrayBuffer(2), "$"],
  "data view": [[new DataView(new ArrayBuffer(2))], "$[0]"],
  "shared memory": [[new SharedArrayBuffer(2)], "$[0]"],
  "bytes with toJSON": [Object.assign(new Uint8Array(1), { toJSON: () => 1 }), "$"],
  map: [{ s: new Map([["a", 1]]) }, "$.s"],
  set: [new Set([1]), "$"],
  "weak map": [new WeakMap(), "$"],
  "weak set": [[new WeakSet()], "$[0]"],
  "weak reference": [[new WeakRef({})], "$[0]"],
  "map of another realm": [vm.runInNewContext("[new Map([[1, 2]])]"), "$[0]"],
  loop: [looped, "$[1].value"],
  large: [{ n: U64 }, "$.n"],
  small: [{ n: -(2n ** 63n) - 1n }, "$.n"],
  "undefined in an array": [{ a: [1, undefined] }, "$.a[1]"],
  "a hole in an array": [[1, , 2], "$[1]"], // eslint-disable-line no-sparse-arrays
  "a long hole": [Object.assign([], { length: 5 }), "$[0]"],
  function: [{ f: [() => 1] }, "$.f[0]"],
  "a method": [{ run() {} }, "$.run"],
  class: [class {}, "$"],
  symbol: [{ s: Symbol("s") }, "$.s"],
  "a promise": [{ p: Promise.resolve(1) }, "$.p"],
  "a regular expression": [[/x/], "$[0]"],
  error: [[new Error("x")], "$[0]"],
  generator: [[generated()], "$[0]"],
  iterator: [[[1].values()], "$[0]"],
  "map iterator": [[new Map().keys()], "$[0]"],
  boxed: [[new Number(1)], "$[0]"], // eslint-disable-line no-new-wrappers
  "an invalid date": [{ when: new Date(NaN) }, "$.when"],
  headers: [[new Headers({ a: "1" })], "$[0]"],
  "search parameters": [[new URLSearchParams("a=1")], "$[0]"],
  "odd keys": [{ "a b": { ü: { "1x": new Set() } } }, '$["a b"].ü["1x"]'],
  "an empty key": [{ "": [NaN] }, '$[""][0]'],
  "a throwing getter": [
    {
      get x() {
        throw new Error("card PRIVATE");
      },
    },
    "$.x",
  ],
  "a throwing toJSON": [
    [
      {
        toJSON() {
          throw new Error("card PRIVATE");
        },
      },
    ],
    "$[0]",
  ],
  "a throwing toJSON at the top": [
    {
      toJSON() {
        throw new Error("card PRIVATE");
      },
    },
    "$",
  ],
  "a class with a map inside": [
    new (class {
      inner = new Map();
    })(),
    "$.inner",
  ],
  "a revoked proxy": [
    [
      (() => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
      })(),
    ],
    "$[0]",
  ],
};

describe("C-56 PAY-2 what is not JSON", () => {
  for (const [what, [value, path]] of Object.entries(NOT_JSON)) {
    test(`${what}, as a result and as an argument`, async () => {
      const result = await shown(value);
      assert.deepEqual([result.data, result.how, result.path], [null, "not_json", path]);
      assert.ok(!result.text.includes("PRIVATE"));
      const seen = new Seen();
      let got;
      await call("t", value, (args) => {
        got = args;
      });
      assert.ok(Object.is(got, value));
      await seen.flushed();
      assert.equal(seen.start("t").data, null);
      assert.equal(seen.start("t").metadata["callweir.not_json_path"], path);
      assert.equal(seen.end("t").metadata["callweir.payload"], undefined);
    });

    test(`${what}, where nobody reads`, async () => {
      assert.ok(Object.is(await call("t", {}, () => value), value));
      assert.ok(Object.is(await call("t", value), value));
    });

    test(`${what}, given for events themselves`, () => {
      for (const act of [
        () => scope.event("m", value),
        () => scope.event("m", 1, { metadata: { value } }),
        () => scope.push("s", { input: value }),
        () => tools.call("t", {}, { metadata: value }),
      ]) {
        assert.throws(act, (error) => error instanceof NotJson && error.path.startsWith("$"));
      }
      assert.equal(scope.getHandle(), undefined);
    });
  }
});

test("C-56 a sanitizer is not asked about what is not JSON, and the call does not fail", async () => {
  const seen = new Seen();
  add("tool.sanitize_response", () => assert.fail("a sanitizer ran"));
  const value = new Set([1]);
  assert.equal(await call("t", {}, () => value), value);
  await seen.flushed();
  assert.equal(seen.end("t").metadata["callweir.payload"], "not_json");
});

test("PAY-6 where nobody reads, nothing of a payload is touched", async () => {
  const touched = [];
  const traps = Object.fromEntries(
    Object.getOwnPropertyNames(Reflect).map((trap) => [
      trap,
      (_, key) => void touched.push(`${trap} ${String(key)}`),
    ]),
  );
  const args = new Proxy({}, traps);
  assert.equal(await call("t", args, (given) => given === args), true);
  assert.equal(
    await dispatched(Object.assign(Object.create(null), { args }), (given) => given.args === args),
    true,
  );
  assert.deepEqual(touched, []);
});

const PAIR = "\ud83d\ude00";

describe("C-57 strings at the edges", () => {
  for (const [what, [value, copied]] of Object.entries({
    "a lone surrogate": ["a\ud800b\udfffc", "a\ufffdb\ufffdc"],
    "surrogates the wrong way round": ["\ude00\ud83d", "\ufffd\ufffd"],
    "a pair": [PAIR, PAIR],
    "a byte-order mark": ["\ufeffx\ufeff", "\ufeffx\ufeff"],
    "a zero": ["a\0b", "a\0b"],
    controls: ["\u0001\b\n\u001f\u007f\u2028\u2029", "\u0001\b\n\u001f\u007f\u2028\u2029"],
    "what marks integers": ["\0\u0001n12", "\0\u0001n12"],
    quotes: ['"\\"\\\\', '"\\"\\\\'],
    "five megabytes": ["ü".repeat(5_000_000), "ü".repeat(5_000_000)],
  })) {
    test(what, async () => {
      const seen = new Seen();
      assert.ok(Object.is(await call("t", { v: value }, ({ v }) => v), value));
      await seen.flushed();
      assert.ok(seen.end("t").data === copied);
      assert.ok(seen.start("t").data.v === copied);
      assert.ok(JSON.parse(String(seen.end("t"))).data === copied);
      if (value.length > 100) return;
      assert.deepEqual((await shown({ [value]: [value, 2n ** 60n] })).data, {
        [copied]: [copied, 2n ** 60n],
      });
      scope.event("m", { [value]: value });
      await seen.flushed();
      assert.deepEqual(seen.of("mark", "m")[0].data, { [copied]: copied });
    });
  }

  test("in JSON text", async () => {
    for (const text of ['{"a":"\\ud800"}', '{"a":"\\uD800"}', '{"a":"\ud800"}']) {
      assert.deepEqual(await dispatched(text), { a: "\ud800" });
    }
    assert.deepEqual(await dispatched('{"a":"\\ud83d\\ude00"}'), { a: PAIR });
    assert.deepEqual(await dispatched('{"a":"\\ude00\\ud83d"}'), { a: "\ude00\ud83d" });
    assert.deepEqual(await dispatched('{"a":"\\\\ud800"}'), { a: "\\ud800" });
    assert.deepEqual(await dispatched('{"\\udc00":"b"}'), { "\udc00": "b" });
    for (const odd of ["\\ud800", "\ud800", "\\ud83d\\ude00"]) {
      const text = `{"a":"${odd}","id":4611686018427387905,"n":[-9007199254740993,"9007199254740993",1.5]}`;
      const got = await dispatched(text);
      assert.deepEqual(
        [got.id, got.n],
        [4611686018427387905n, [-9007199254740993n, "9007199254740993", 1.5]],
      );
    }
  });

  test("in a name, a reason, an id and an error's text", async () => {
    const runtime = new Runtime({ errorText: true });
    const seen = new Seen("seen", runtime);
    const error = new Error("a\ud800b");
    const failing = runtime.execute("n\ud800", {}, () => Promise.reject(error), { toolCallId: "i\ud800" });
    assert.equal(await thrownBy(failing), error);
    await seen.flushed();
    assert.ok(String(seen.end("n\ufffd")).includes("a\ufffdb"));
    assert.equal(seen.end("n\ufffd").category_profile.tool_call_id, "i\ufffd");
    runtime.register("tool.conditional_execution", "g", () => "r\ud800");
    assert.equal((await thrownBy(runtime.execute("t", {}, echo))).reason, "r\ufffd");
    await runtime.shutdown();
  });
});

test("__proto__ is a key like any other, and nothing is polluted", async () => {
  const seen = new Seen();
  const text =
    '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"id":4611686018427387905}';
  const own = (value) => Object.getOwnPropertyDescriptor(value, "__proto__")?.value;
  const check = (value) => {
    assert.deepEqual(own(value), { polluted: 1 });
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal({}.polluted, undefined);
  };
  add("tool.request", (_, args) => (check(args), args));
  add("tool.execution", (_, args, next) => next({ ...args }));
  add("tool.sanitize_request", (_, args) => (check(args), args));
  add("tool.sanitize_response", (_, value) => (check(value), value));
  add("scope.sanitize_end", (_, fields) => (check(fields.data), fields));
  for (const form of [text, JSON.parse(text)]) {
    check(await dispatched(form));
    await seen.flushed();
    for (const event of seen.events) check(event.data);
    assert.ok(String(seen.end("t")).includes('"__proto__":{"polluted":1}'));
    seen.events.length = 0;
  }
  scope.event("m", JSON.parse(text), { metadata: JSON.parse('{"__proto__":{"polluted":1}}') });
  await seen.flushed();
  check(seen.of("mark", "m")[0].data);
  assert.equal({}.polluted, undefined);
  clear();
  const lone = await dispatched('{"__proto__":{"polluted":"\\ud800"}}', (args) => own(args).polluted);
  assert.equal(lone, "\ud800");
  assert.equal({}.polluted, undefined);
});

class Money {
  #cents = 5;
  currency = "EUR";
  static rate = 1;
  get amount() {
    return this.#cents;
  }
}

describe("C-101 PAY-3 values that are converted", () => {
  const converted = {
    "properties that are undefined": [{ a: undefined, b: 1 }, '{"b":1}'],
    "undefined at the top": [undefined, "null"],
    null: [null, "null"],
    toJSON: [[{ toJSON: () => ({ from: ["toJSON", 1] }) }], '[{"from":["toJSON",1]}]'],
    "toJSON that gives a date": [{ toJSON: () => new Date(0) }, '"1970-01-01T00:00:00.000Z"'],
    "toJSON that gives itself": [
      {
        a: 1,
        toJSON() {
          return Object.assign(this, { toJSON: undefined });
        },
      },
      '{"a":1}',
    ],
    "a date": [{ when: new Date(Date.UTC(2024, 1, 3, 4, 5, 6, 7)) }, '{"when":"2024-02-03T04:05:06.007Z"}'],
    "a date with a toJSON of its own": [
      Object.assign(new Date(0), { toJSON: () => 5 }),
      '"1970-01-01T00:00:00.000Z"',
    ],
    "a date of another realm": [[vm.runInNewContext("new Date(0)")], '["1970-01-01T00:00:00.000Z"]'],
    "an address": [new URL("http://host/a?b=c"), '"http://host/a?b=c"'],
    "an instance of a class": [new Money(), '{"currency":"EUR"}'],
    "without a prototype": [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    "of another realm": [vm.runInNewContext("({ a: [1, { b: null }] })"), '{"a":[1,{"b":null}]}'],
    "inherited properties": [
      Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } }),
      '{"own":2}',
    ],
    "keys that are symbols": [{ [Symbol("s")]: 1, a: 1 }, '{"a":1}'],
    "what is not enumerable": [Object.defineProperty({ a: 1 }, "hidden", { value: 2 }), '{"a":1}'],
    getters: [
      {
        get x() {
          return [1];
        },
      },
      '{"x":[1]}',
    ],
    proxies: [new Proxy({ a: new Proxy([1], {}) }, {}), '{"a":[1]}'],
    "an array with toJSON": [[Object.assign([1], { toJSON: () => "list" })], '["list"]'],
    "an array with properties": [Object.assign([1], { more: 2 }), "[1]"],
    "a class that extends Array": [new (class Row extends Array {})(1, 2), "[1,2]"],
    "one object twice": [((one) => [one, one])({ a: 1 }), '[{"a":1},{"a":1}]'],
    "keys like numbers": [{ b: 1, 2: 1, 1: 1 }, '{"1":1,"2":1,"b":1}'],
    booleans: [[true, false, null, ""], '[true,false,null,""]'],
  };
  for (const [what, [value, text]] of Object.entries(converted)) {
    test(what, async () => {
      const copy = await shown(value);
      assert.equal(copy.how, undefined, copy.path);
      assert.equal(JSON.stringify(copy.data), text);
      assert.ok(copy.text.includes(`"data":${text}`));
    });
  }

  const convert = {
    "without a converter": [undefined, null, "not_json"],
    "with one": [
      (value) => (value instanceof Map ? Object.fromEntries(value) : [...value]),
      { m: { a: [1] } },
    ],
    "with one that gives nested ones": [(value) => [...value].flat(), { m: ["a", [1]] }],
    "with one that throws": [() => assert.fail("card PRIVATE"), null, "not_json"],
    "with one that gives nothing": [() => undefined, null, "not_json"],
    "with one that gives the same": [(value) => value, null, "not_json"],
    "with one that never ends": [(value) => [value], null, "not_json"],
  };
  for (const [what, [converter, data, how]] of Object.entries(convert)) {
    test(`Map and Set ${what}`, async () => {
      const runtime = new Runtime({ default: converter });
      const copy = await shown({ m: new Map([["a", new Set([1])]]) }, runtime);
      assert.deepEqual([copy.data, copy.how], [data, how]);
      assert.ok(!copy.text.includes("PRIVATE"));
      assert.equal(copy.path?.startsWith("$.m"), how && true);
      await runtime.shutdown();
    });
  }

  test("the converter is asked for what else has no form, wherever the runtime writes JSON", async () => {
    const asked = [];
    const runtime = new Runtime({
      default: (value) => {
        asked.push(value);
        return "converted";
      },
    });
    const seen = new Seen("seen", runtime);
    const one = new Map();
    await runtime.execute("t", one, () => [1n << 70n, one], { metadata: { one } });
    runtime.mark("m", one, { metadata: { one } });
    const registry = new ToolRegistry({ runtime }).register(tool({ name: "r" }, () => one));
    await registry.dispatch("r", {}, undefined, { metadata: { one } });
    assert.equal(await registry.dispatchJson("r", {}), '{"result":"converted"}');
    await seen.flushed();
    assert.equal(seen.start("t").data, "converted");
    assert.deepEqual(seen.of("mark", "m")[0].data, "converted");
    assert.deepEqual(
      seen.of("end", "r").map(({ data }) => data),
      ["converted", "converted"],
    );
    assert.equal(seen.of("start", "r")[0].metadata.one, "converted");
    assert.ok(asked.every((value) => value === one || typeof value === "bigint"));
    await runtime.shutdown();
  });

  test("the converter of a runtime can be changed", async () => {
    const runtime = new Runtime();
    assert.equal((await shown(new Set([1]), runtime)).how, "not_json");
    runtime.configure({ default: (value) => [...value] });
    assert.deepEqual((await shown(new Set([1]), runtime)).data, [1]);
    runtime.configure({ errorText: true });
    assert.deepEqual((await shown(new Set([2]), runtime)).data, [2], "what is not given stays");
    assert.throws(() => runtime.configure({ default: 5 }), TypeError);
    await runtime.shutdown();
  });
});

/** Makes a random JSON value from a seed. */
function random(seed) {
  let state = seed;
  const next = (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const among = (points) =>
    String.fromCodePoint(...Array.from({ length: next(6) }, () => points[next(points.length)]));
  const text = () => among([34, 92, 0, 0x1f600, 233, 97]);
  // Without what is escaped: JSON.parse of V8 13.6 misreads some keys that begin with an escape.
  const key = () => among([0x1f600, 233, 97, 32, 0xfeff, 49]);
  const leaves = [
    () => null,
    () => next(2) === 0,
    () => next(1e6) / 2 ** next(30),
    () => (BigInt(next(2 ** 32)) << 31n) + 2n ** 60n,
    () => -(2n ** 53n) - BigInt(next(100)),
    text,
    () => -next(1e9),
  ];
  const make = (depth) => {
    const kind = depth > 4 ? next(leaves.length) : next(leaves.length + 4);
    if (kind < leaves.length) return leaves[kind]();
    const items = Array.from({ length: next(5) }, () => make(depth + 1));
    return kind % 2 ? items : Object.fromEntries(items.map((item) => [key(), item]));
  };
  return make(0);
}

test("PAY-3 copies are exact", async () => {
  const seen = new Seen();
  for (let seed = 1; seed <= 300; seed++) {
    const value = random(seed);
    assert.ok(Object.is(await call("t", { value }, (args) => args.value), value));
    await seen.flushed();
    assert.deepEqual(seen.end("t").data, value, `seed ${seed}`);
    assert.deepEqual(seen.start("t").data, { value });
    const text = String(seen.end("t"));
    assert.deepEqual(await dispatched(text, ({ data }) => data), value, `seed ${seed}, as text`);
    await seen.flushed();
    seen.events.length = 0;
  }
});
