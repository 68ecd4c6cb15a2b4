// Times the Node door beside plain asynchronous functions and, where it can be loaded, `nemo-relay-node`.
//
// Prints one JSON object a line; `cargo bench-doors` makes the table. All timed figures are taken in this
// process, round robin, so that a slow spell of the machine falls on every side alike. What changes the
// process for good (memory, import) runs in children of its own.
//
//     node tests/bench/bench_node.mjs [--quick] [--only ROW] [--peer] [--peer-path FOLDER]

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import * as callweir from "callweir";

const PEER = "nemo-relay-node";
/** The oldest Node that the peer runs on. */
const PEER_NODE = 24;
const SMALL = {
  query: "x".repeat(100),
  n: [1, 2, 3, 4, 5],
  opts: { a: 1.5, b: true, c: null },
  id: "call_0123456789abcdef",
};
const BIG = {
  messages: Array.from({ length: 85 }, (_, i) => {
    return { role: "user", content: "lorem ipsum dolor ".repeat(10), i, ok: true };
  }),
};
const SIZES = [1, 100, 10_000];
/** How long one round of one figure may take before the figure is given up, in milliseconds. */
const HANG = 20_000;
/** How long a child may take, in milliseconds. */
const CHILD = 300_000;

const SCRIPT = fileURLToPath(import.meta.url);

setFlagsFromString("--expose-gc");
// So many collections would make V8 forget what it has compiled.
setFlagsFromString("--no-flush-bytecode");
const collectGarbage = runInNewContext("gc");

function rounded(value) {
  return Math.round(value * 1e4) / 1e4;
}

/** Prints one measurement; what is undefined is left out. */
function emit(side, row, name, value, { unit = "us", ...more } = {}) {
  const line = { door: "node", side, row, case: name, unit, value: rounded(value), ...more };
  console.log(JSON.stringify(line));
}

/** Prints a line that is no measurement. */
function note(text) {
  console.log(`# ${text}`);
}

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}

// ---------------------------------------------------------------------------------------- timed figures

/** One cell of the table: how it is set up, one step of it, and what was measured so far. */
class Figure {
  entries = undefined;
  /** How many calls one step makes. */
  calls = 1;
  setup = () => {};
  teardown = () => {};
  flush = undefined;
  walls = [];
  flushed = [];
  broken = "";

  constructor(side, row, name, step, more = {}) {
    Object.assign(this, { side, row, name, step, ...more });
  }

  /** Prints the medians and the lowest rounds. */
  report() {
    for (const [suffix, values] of [
      ["", this.walls],
      [", with flush", this.flushed],
    ]) {
      if (values.length === 0) continue;
      const more = { entries: this.entries, min: rounded(Math.min(...values)) };
      emit(this.side, this.row, this.name + suffix, median(values), more);
    }
    if (this.broken) note(`${this.side} ${this.row} ${this.name}: ${this.broken}`);
  }
}

/** Finds out how many steps the budget allows. */
async function stepsWithin(figure, budget) {
  const { step } = figure;
  for (let warm = figure.calls === 1 ? 2 : 1; warm > 0; warm -= 1) await step();
  const start = performance.now();
  let tried = 0;
  while (tried < 2 || performance.now() - start < budget / 8) {
    await step();
    tried += 1;
  }
  return Math.max(1, Math.floor((budget * tried) / (performance.now() - start)));
}

/** Collects what figures before have left, so that its finalizers do not run in a timed step. */
async function tidy() {
  await turn();
  collectGarbage();
  await turn();
}

/** Takes one round: as many steps as the budget allows, then the flush. */
async function timed(figure, budget) {
  await tidy();
  const steps = await stepsWithin(figure, budget);
  const { step, flush } = figure;
  const each = (milliseconds) => (milliseconds * 1e3) / steps / figure.calls;
  await flush?.();
  await tidy();
  const start = performance.now();
  for (let done = 0; done < steps; done += 1) await step();
  figure.walls.push(each(performance.now() - start));
  if (flush) {
    await flush();
    figure.flushed.push(each(performance.now() - start));
  }
}

/** Gives what a promise gives, or fails once it has taken too long. */
async function within(milliseconds, promise) {
  const stop = new AbortController();
  const late = sleep(milliseconds, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`hung for ${milliseconds / 1e3} s`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    stop.abort();
  }
}

/** Takes one round of a figure; one that hangs or fails is given up. */
async function attempt(figure, budget) {
  if (figure.broken) return;
  try {
    figure.setup();
    await within(HANG, timed(figure, budget));
  } catch (error) {
    figure.broken = `failed: ${error}`;
  } finally {
    figure.teardown();
  }
}

/** Takes every figure once a round, and reports them. */
async function roundRobin(figures, { rounds, budget }) {
  // The first round is for the compiler.
  for (const figure of figures) {
    await attempt(figure, budget);
    figure.walls.length = figure.flushed.length = 0;
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const figure of figures) await attempt(figure, budget);
  }
  for (const figure of figures) figure.report();
}

// ---------------------------------------------------------------------------------------- the three sides

async function identity(args) {
  return args;
}

function concurrently(one, count) {
  return () => Promise.all(Array.from({ length: count }, one));
}

/** Nests `count` asynchronous functions around the work: what a program without any library would write. */
function chain(count) {
  let inner = identity;
  for (let index = 0; index < count; index += 1) {
    const next = inner;
    inner = async (args) => await next(args);
  }
  return inner;
}

/** Lists the rows that plain code has an answer to. */
function plainFigures() {
  const figure = (...given) => new Figure("plain", ...given);
  const call = (fn, payload = SMALL) => () => fn(payload);
  const changed = (changes) => async () => {
    let args = SMALL;
    for (const change of changes) args = change("t", args);
    return await identity(args);
  };
  const judged = (guards) => async () => {
    for (const guard of guards) {
      const reason = guard("t", SMALL);
      if (reason !== undefined) throw new Error(reason);
    }
    return await identity(SMALL);
  };
  const made = [
    figure("a", "bare call", call(identity)),
    figure("a", "bare call, 20 kB", call(identity, BIG)),
    figure("d", "execution intercepts, 20 kB", call(chain(16), BIG), { entries: 16 }),
  ];
  for (const entries of [1, 4, 16]) {
    const changes = Array.from({ length: entries }, () => (name, args) => args);
    const guards = Array.from({ length: entries }, () => () => undefined);
    made.push(figure("c", "request intercepts", changed(changes), { entries }));
    made.push(figure("d", "execution intercepts", call(chain(entries)), { entries }));
    made.push(figure("e", "guardrails", judged(guards), { entries }));
  }
  const gathered = concurrently(call(chain(4)), 1000);
  made.push(figure("i", "1000 concurrent, execution intercepts", gathered, { entries: 4, calls: 1000 }));
  return made;
}

/** This library, under the names that the figures use. */
function ours() {
  const { guardrails, intercepts, subscribers, tools } = callweir;
  return {
    name: "ours",
    execute: tools.execute,
    tool: identity,
    around: async (name, args, next) => await next(args),
    subscribe: subscribers.register,
    unsubscribe: subscribers.deregister,
    flush: () => subscribers.flush(),
    request: [
      (name, priority, fn) => intercepts.registerToolRequest(name, priority, false, fn),
      intercepts.deregisterToolRequest,
    ],
    execution: [intercepts.registerToolExecution, intercepts.deregisterToolExecution],
    guard: [guardrails.registerToolConditionalExecution, guardrails.deregisterToolConditionalExecution],
    sanitizeRequest: [guardrails.registerToolSanitizeRequest, guardrails.deregisterToolSanitizeRequest],
    sanitizeResponse: [guardrails.registerToolSanitizeResponse, guardrails.deregisterToolSanitizeResponse],
  };
}

/** The peer, whose tools and execution intercepts return objects of its own. */
function peer(relay) {
  return {
    name: "peer",
    execute: relay.toolCallExecuteAsync,
    tool: async (args) => ({ result: args }),
    around: async (context, next) => ({ result: (await next(context.args)).result }),
    subscribe: relay.registerSubscriber,
    unsubscribe: relay.deregisterSubscriber,
    flush: relay.flushSubscribers,
    request: [
      (name, priority, fn) => relay.registerToolRequestIntercept(name, priority, false, fn),
      relay.deregisterToolRequestIntercept,
    ],
    execution: [relay.registerToolExecutionIntercept, relay.deregisterToolExecutionIntercept],
    guard: [
      relay.registerToolConditionalExecutionGuardrail,
      relay.deregisterToolConditionalExecutionGuardrail,
    ],
    sanitizeRequest: [
      relay.registerToolSanitizeRequestGuardrail,
      relay.deregisterToolSanitizeRequestGuardrail,
    ],
    sanitizeResponse: [
      relay.registerToolSanitizeResponseGuardrail,
      relay.deregisterToolSanitizeResponseGuardrail,
    ],
  };
}

/** Makes one step of a library: a managed call. */
function managedCall({ execute, tool }, payload = SMALL) {
  return () => execute("t", payload, tool);
}

/**
 * Makes a figure of a library.
 *
 * `callbacks` has a callback for each kind of entry; each is registered as often as `entries` says.
 */
function libraryFigure(library, row, name, { callbacks = {}, subscribed = false, ...more } = {}) {
  const { entries = 0, step = managedCall(library) } = more;
  const each = (act) => {
    for (const [kind, callback] of Object.entries(callbacks)) {
      for (let index = 0; index < entries; index += 1) act(library[kind], `entry${index}`, index, callback);
    }
  };
  const setup = () => {
    if (subscribed) library.subscribe("s", () => {});
    each(([register], entry, priority, callback) => register(entry, priority, callback));
  };
  const teardown = () => {
    if (subscribed) library.unsubscribe("s");
    each(([, deregister], entry) => deregister(entry));
  };
  const flush = subscribed ? library.flush : undefined;
  return new Figure(library.name, row, name, step, { setup, teardown, flush, ...more });
}

/** Lists the rows as programs of a library with these modules write them. */
function libraryFigures(library) {
  const figure = (...given) => libraryFigure(library, ...given);
  const same = (name, payload) => payload;
  const around = { execution: library.around };
  const bigCall = managedCall(library, BIG);
  const made = [
    figure("a", "bare call"),
    figure("a", "bare call, 20 kB", { step: bigCall }),
    figure("b", "one subscriber", { subscribed: true }),
    figure("d", "execution intercepts, 20 kB", { callbacks: around, entries: 16, step: bigCall }),
  ];
  for (const entries of [1, 4, 16]) {
    made.push(figure("c", "request intercepts", { callbacks: { request: same }, entries }));
    made.push(figure("d", "execution intercepts", { callbacks: around, entries }));
    made.push(figure("e", "guardrails", { callbacks: { guard: () => null }, entries }));
  }
  const sanitizers = { sanitizeRequest: same, sanitizeResponse: same };
  const sanitized = { callbacks: sanitizers, entries: 16, subscribed: true };
  made.push(figure("f", "sanitizers and a subscriber", sanitized));
  const step = concurrently(managedCall(library), 1000);
  const crowd = { callbacks: around, entries: 4, step, calls: 1000 };
  made.push(figure("i", "1000 concurrent, execution intercepts", crowd));
  return made;
}

/** Lists the rows that only this library has. */
function ownFigures(library) {
  const step = () => library.execute("t", SMALL, (args) => args);
  return [libraryFigure(library, "a", "bare call, synchronous function", { step })];
}

/** Loads the peer; undefined where it cannot be. */
function loadPeer(options) {
  const folder = options["peer-path"];
  if (!options.peer && folder === undefined) return undefined;
  const [major] = process.versions.node.split(".").map(Number);
  if (major < PEER_NODE) {
    note(`no peer: it needs Node ${PEER_NODE}, and this is ${process.versions.node}`);
    return undefined;
  }
  const from = folder === undefined ? import.meta.url : join(resolve(folder), "package.json");
  const require = createRequire(from);
  try {
    return { ...peer(require(PEER)), path: require.resolve(PEER) };
  } catch (error) {
    note(`no peer: ${error.message.split("\n")[0]}`);
    return undefined;
  }
}

// ---------------------------------------------------------------------------------------- growth

async function aroundNothing(name, args, next) {
  return await next(args);
}

function growthFigure(name, entries, step, more = {}) {
  return new Figure("ours", "growth", name, step, { entries, ...more });
}

function runtimeCall(runtime) {
  return () => runtime.execute("t", SMALL, identity);
}

function withTools(size) {
  const registry = new callweir.ToolRegistry({ runtime: new callweir.Runtime() });
  const made = Array.from({ length: size }, (_, index) =>
    callweir.tool({ name: `tool${index}` }, async ({ query }) => query),
  );
  registry.register(...made);
  const name = `tool${Math.floor(size / 2)}`;
  return growthFigure("registered tools", size, () => registry.dispatch(name, { query: "q" }));
}

function withOpenScopes(size) {
  const runtime = new callweir.Runtime();
  const held = Array.from({ length: size }, (_, index) => runtime.openScope(`scope${index}`));
  return growthFigure("open scopes", size, runtimeCall(runtime), { held });
}

/** Makes 100 calls with `scope` as the current one. */
function inside(runtime, scope) {
  const one = runtimeCall(runtime);
  const calls = async () => {
    for (let done = 0; done < 100; done += 1) await one();
  };
  return { step: () => scope.run(calls), calls: 100 };
}

/** Calls inside `size` nested scopes, the outermost of which owns a registration. */
function withDepth(size) {
  const runtime = new callweir.Runtime();
  let scope = runtime.openScope("outermost");
  runtime.register("tool.execution", "local", aroundNothing, { scope });
  for (let index = 1; index < size; index += 1) scope = runtime.openScope(`scope${index}`, { parent: scope });
  const { step, calls } = inside(runtime, scope);
  return growthFigure("scope depth", size, step, { calls });
}

/** Calls inside one scope while `size` other scopes own an intercept each. */
function withOtherRegistrations(size) {
  const runtime = new callweir.Runtime();
  const held = Array.from({ length: size }, (_, index) => {
    const scope = runtime.openScope(`scope${index}`);
    runtime.register("tool.execution", "local", aroundNothing, { scope });
    return scope;
  });
  const { step, calls } = inside(runtime, runtime.openScope("here"));
  return growthFigure("registrations that do not apply", size, step, { calls, held });
}

/** Keeps `size` calls waiting in their tools while others are timed. */
function withCallsInFlight(size) {
  const runtime = new callweir.Runtime();
  let open;
  const gate = new Promise((resolve) => (open = resolve));
  const wait = async (args) => {
    await gate;
    return args;
  };
  const waiting = Array.from({ length: size }, () => runtime.execute("t", SMALL, wait));
  const stop = async () => {
    open();
    await Promise.all(waiting);
  };
  return { figure: growthFigure("concurrent calls", size, runtimeCall(runtime)), stop };
}

/** Times calls beside 1, 100 and 10,000 of what must not matter. */
async function growth(effort) {
  for (const make of [withTools, withOpenScopes, withDepth, withOtherRegistrations]) {
    await roundRobin(SIZES.map(make), effort);
  }
  const crowds = SIZES.map(withCallsInFlight);
  const figures = crowds.map((crowd) => crowd.figure);
  await roundRobin(figures, effort);
  for (const crowd of crowds) await crowd.stop();
}

// ---------------------------------------------------------------------------------------- memory and import

const megabytes = {
  resident: () => process.memoryUsage.rss() / 1e6,
  // What `process.resourceUsage` tells is at least the size of the process that started this one.
  peak: () => (Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024) / 1e6,
};

/** Makes `count` calls with a subscriber and prints by how much the process grew; nobody collects garbage. */
async function memory(library, slow, count) {
  let events = 0;
  const call = managedCall(library);
  library.subscribe("s", () => {
    events += 1;
    return slow ? sleep(10) : undefined;
  });
  for (let done = 0; done < (slow ? 10 : 2000); done += 1) await call();
  await within(HANG, library.flush());
  const start = megabytes.resident();
  const began = performance.now();
  for (let done = 0; done < count; done += 1) {
    await call();
    // Timers fire only where the event loop turns.
    if (slow && done % 100 === 0) await turn();
  }
  const seconds = rounded((performance.now() - began) / 1e3);
  if (!slow) await within(HANG * 5, library.flush());
  const after = megabytes.resident() - start;
  const grown = Math.max(0, after, megabytes.peak() - start);
  const more = { unit: "MB", calls: count, seconds, events, after: rounded(after) };
  emit(library.name, "memory", slow ? "slow subscriber" : "subscriber", grown, more);
  // What a slow subscriber has not taken yet would hold up a normal exit.
  process.exit(0);
}

/** Runs this program for one figure that needs a process of its own. */
function child(options, ...words) {
  const folder = options["peer-path"];
  const found = [...(options.peer ? ["--peer"] : []), ...(folder ? ["--peer-path", folder] : [])];
  const command = [SCRIPT, ...found, ...words];
  const { status, error } = spawnSync(process.execPath, command, { stdio: "inherit", timeout: CHILD });
  if (status !== 0) note(`${words.join(" ")}: failed${error ? ` (${error.code})` : ""}`);
}

function memoryRows(options, libraries) {
  const scale = options.quick ? 10 : 1;
  for (const { name } of libraries) {
    child(options, "--memory", name, "--calls", String(200_000 / scale));
    child(options, "--memory", name, "--slow", "--calls", String(100_000 / scale));
  }
}

const IMPORT = `
const before = process.memoryUsage.rss();
const start = performance.now();
if (process.argv[1]) require(process.argv[1]);
const took = performance.now() - start;
console.log(JSON.stringify([took, (process.memoryUsage.rss() - before) / 1e6]));
process.exit(0);
`;

/** Starts a fresh process that loads what lies at `path`, if anything, and says what that took. */
function freshImport(path) {
  const start = performance.now();
  const { stdout } = spawnSync(process.execPath, ["-e", IMPORT, path], { encoding: "utf8", timeout: CHILD });
  const [inside, grown] = JSON.parse(stdout);
  return { whole: performance.now() - start, inside, grown };
}

/** Times the import in fresh processes, alternating, and adds up the installed files. */
function importRows(options, libraries) {
  const taken = new Map([["", []], ...libraries.map(({ path }) => [path, []])]);
  for (let round = 0; round < (options.quick ? 5 : 15); round += 1) {
    for (const [path, samples] of taken) samples.push(freshImport(path));
  }
  const without = taken.get("").map((sample) => sample.whole);
  for (const { name, path } of libraries) {
    const samples = taken.get(path);
    // The whole process less one without the library: what the import costs a program.
    const costs = samples.map((sample, round) => sample.whole - without[round]);
    const low = Math.min(...samples.map((sample) => sample.whole)) - Math.min(...without);
    const inside = samples.map((sample) => sample.inside);
    emit(name, "import", "import", median(costs), { unit: "ms", min: rounded(low) });
    const more = { unit: "ms", min: rounded(Math.min(...inside)) };
    emit(name, "import", "import, inside the process", median(inside), more);
    emit(name, "import", "import, memory", median(samples.map((sample) => sample.grown)), { unit: "MB" });
    emit(name, "import", "installed", installed(name, path) / 1e6, { unit: "MB" });
  }
}

/** Adds up the files that a program gets with a library on this platform. */
function installed(name, path) {
  const folder = dirname(path);
  if (name === "peer") {
    const platforms = readdirSync(dirname(folder)).filter((other) => other.startsWith(basename(folder)));
    return platforms.reduce((total, other) => total + sizeOf(join(folder, "..", other)), 0);
  }
  // The package stands where it is made, beside its sources.
  const shipped = /^(dist|README\.md|LICENSE|package\.json|.*\.node)$/;
  const parts = readdirSync(dirname(folder)).filter((part) => shipped.test(part));
  return parts.reduce((total, part) => total + sizeOf(join(folder, "..", part)), 0);
}

function sizeOf(path) {
  const found = statSync(path);
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((total, name) => total + sizeOf(join(path, name)), 0);
}

// ---------------------------------------------------------------------------------------- the program

function optionsOf(words) {
  const { values } = parseArgs({
    args: words,
    options: {
      /** Fewer and shorter rounds. */
      quick: { type: "boolean", default: false },
      /** One row: a to f, i, growth, memory, import. */
      only: { type: "string", default: "" },
      /** Measure the peer, too, where Node finds it. */
      peer: { type: "boolean", default: false },
      /** A folder in whose `node_modules` the peer is. */
      "peer-path": { type: "string" },
      /** Inside a child: the side. */
      memory: { type: "string", default: "" },
      /** Inside a child: the subscriber takes 10 ms. */
      slow: { type: "boolean", default: false },
      /** Inside a child: how many calls. */
      calls: { type: "string", default: "0" },
    },
  });
  return values;
}

/** Sides of one row next to each other, so that they share the machine's mood. */
function byCase(one, other) {
  const keys = ({ row, name }) => `${row} ${name}`;
  return keys(one).localeCompare(keys(other)) || (one.entries ?? 0) - (other.entries ?? 0);
}

function load() {
  return `load ${loadavg()[0].toFixed(1)}`;
}

async function main() {
  const options = optionsOf(process.argv.slice(2));
  const own = { ...ours(), path: createRequire(import.meta.url).resolve("callweir") };
  if (options.memory === "ours") return memory(own, options.slow, Number(options.calls));
  const other = loadPeer(options);
  if (options.memory === "peer") return memory(other, options.slow, Number(options.calls));
  const libraries = other === undefined ? [own] : [own, other];
  const effort = options.quick ? { rounds: 3, budget: 10 } : { rounds: 11, budget: 30 };
  const wanted = (row) => ["", row].includes(options.only);

  const all = [...libraries.flatMap(libraryFigures), ...ownFigures(own), ...plainFigures()];
  const figures = all.filter(({ row }) => wanted(row)).sort(byCase);
  note(`Node ${process.versions.node}, ${load()}`);
  if (figures.length > 0) await roundRobin(figures, effort);
  if (wanted("growth")) await growth(effort);
  if (wanted("import")) importRows(options, libraries);
  if (wanted("memory")) memoryRows(options, libraries);
  note(load());
  // The peer keeps the process alive.
  process.exit(0);
}

await main();
