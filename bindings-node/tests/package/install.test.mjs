/** The installed package: each way to load it, on each Node, and what it says where it cannot be loaded. */

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { copied, HERE, install, manifest, mustRun } from "./packages.mjs";
import { obtained, pack, project, run, SOURCE } from "./packages.mjs";

const { main, addon } = pack();
const installed = install(project(), main.tarball, addon.tarball);

/** The oldest Node that the package takes, and the newest that it is tried on. */
const OTHERS = ["20.0.0", "24.21.0"];

/** What the addon runs on: the version, and where its program is, or why it is not tried. */
const nodes = [
  { version: process.versions.node, program: process.execPath, skip: false },
  ...OTHERS.map((version) => {
    const name = `node-${process.platform}-${process.arch}`;
    const program = process.platform === "linux" ? obtained(name, version, join("bin", "node")) : undefined;
    return { version, program, skip: program === undefined && `${name} ${version} cannot be had here` };
  }),
];

/** Says that a call works, whatever `cw` was loaded by. */
const CALLS = `
const registry = new cw.ToolRegistry().register(cw.tool({ name: "double" }, async ({ n }) => 2 * n));
registry.dispatch("double", { n: 21 }).then((result) => console.log(result));
`;

const PARTS = `const cw = { tool, ToolRegistry };${CALLS}`;

const LIST = `JSON.stringify(Object.keys(require("callweir")))`;
const NAMES = JSON.parse(mustRun(process.execPath, ["-p", LIST], { cwd: installed }));

/** Each way to load the package, as a program that prints 42. */
const WAYS = {
  "require.cjs": `const cw = require("callweir");${CALLS}`,
  "parts.cjs": `const { tool, ToolRegistry } = require("callweir");${PARTS}`,
  "dynamic.cjs": `import("callweir").then((cw) => {${CALLS}});`,
  "named.mjs": `import { tool, ToolRegistry } from "callweir";${PARTS}`,
  "all.mjs": `import * as cw from "callweir";${CALLS}`,
  "default.mjs": `import cw from "callweir";${CALLS}`,
  "dynamic.mjs": `const cw = await import("callweir");${CALLS}`,
  "nothing.mjs": `import "callweir"; console.log(42);`,
};

/** Every name at once; one class, default runtime and list of entries for both kinds of module. */
const INSTANCE = `
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { ${NAMES.map((name, index) => `${name} as n${index}`).join(", ")} } from "callweir";
import * as all from "callweir";
const required = createRequire(import.meta.url)("callweir");
const dynamic = await import("callweir");
const names = ${JSON.stringify(NAMES)};
[${NAMES.map((_, index) => `n${index}`).join(", ")}].forEach((value, index) => {
  const name = names[index];
  assert.notEqual(value, undefined, name);
  for (const from of [required, all, dynamic, all.default]) assert.equal(from[name], value, name);
});
assert.deepEqual(Object.keys(required).sort(), [...names].sort());
assert.equal(required.Runtime.default(), dynamic.Runtime.default());
required.guardrails.registerToolConditionalExecution("no", 0, () => "closed");
const error = await all.tools.execute("t", {}, () => 1).catch((error) => error);
assert.ok(error instanceof required.CallRejected && error instanceof dynamic.Denied);
assert.equal(error.reason, "closed");
console.log(42);
`;

for (const { version, program, skip } of nodes) {
  for (const [name, text] of Object.entries(WAYS)) {
    test(`C-76: ${name} on Node ${version}`, { skip }, () => {
      writeFileSync(join(installed, name), text);
      assert.deepEqual(run(program, [name], { cwd: installed }), { code: 0, stdout: "42\n", stderr: "" });
    });
  }

  test(`C-76: ESM and CJS are one instance, with every name, on Node ${version}`, { skip }, () => {
    writeFileSync(join(installed, "instance.mjs"), INSTANCE);
    const { code, stdout, stderr } = run(program, ["instance.mjs"], { cwd: installed });
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: "42\n", stderr: "" });
    const { node } = JSON.parse(mustRun(program, ["-p", "JSON.stringify(process.versions)"]));
    assert.equal(node, version);
  });
}

test("C-76: only what is exported can be loaded", () => {
  const inner = `require("callweir/dist/callweir.js")`;
  const { code, stderr } = run(process.execPath, ["-e", inner], { cwd: installed });
  assert.equal(code, 1);
  assert.match(stderr, /ERR_PACKAGE_PATH_NOT_EXPORTED/);
  mustRun(process.execPath, ["-e", `require("callweir/package.json").version.at(0)`], { cwd: installed });
});

/** Loads the package where it cannot be loaded, and returns the error's message. */
function failure(folder, ...args) {
  const caught = "console.log(error.message); process.exitCode = 3;";
  const script = `try { require("callweir"); } catch (error) { ${caught} }`;
  const { code, stdout, stderr } = run(process.execPath, [...args, "-e", script], { cwd: folder });
  assert.deepEqual({ code, stderr }, { code: 3, stderr: "" });
  return stdout;
}

test("C-76: a missing platform package is an error that says so, and what was tried", () => {
  const alone = copied(installed);
  rmSync(join(alone, "node_modules", `callweir-${HERE}`), { recursive: true });
  const message = failure(alone);
  assert.ok(message.includes(`callweir-${HERE}`), message);
  assert.match(message, /no addon for .* optional dependency/s);
  assert.match(message, /Tried:\n.*Cannot find module 'callweir-/s);
});

test("C-76: the package installs without its platform package, and says so when loaded", () => {
  const alone = install(project(), main.tarball);
  assert.match(failure(alone), /optional dependency/);
});

test("C-75: an addon that does not load is an error with the loader's message and the path", () => {
  const spoilt = copied(installed);
  const path = join(spoilt, "node_modules", `callweir-${HERE}`, `callweir.${HERE}.node`);
  writeFileSync(path, "no library at all, but long enough to be looked at as if it were one");
  const loader = run(process.execPath, ["-e", `require(${JSON.stringify(path)})`]).stderr;
  const [, reason] = loader.match(/Error: (.*)/);
  const message = failure(spoilt);
  assert.ok(message.includes(reason), `${message}\nwithout\n${reason}`);
  assert.ok(message.includes(path), message);
});

test("C-76: on a Node below the minimum the first load names both versions", () => {
  const old = join(installed, "old.cjs");
  const versions = `{ ...process.versions, node: "18.20.8" }`;
  writeFileSync(old, `Object.defineProperty(process, "versions", { value: ${versions} });`);
  const message = failure(installed, "--require", old);
  const [, oldest] = manifest(SOURCE).engines.node.match(/^>=(\d+)$/);
  assert.ok(message.includes("18.20.8") && message.includes(`Node.js ${oldest}`), message);
});
