/** The packages as they are described, packed and linked. */

import assert from "node:assert/strict";
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { HERE, manifest, mustRun, pack, PLATFORMS, run, SOURCE, temporary } from "./packages.mjs";

const { folder, main, addon } = pack();
const own = manifest(SOURCE);

test("C-76: there is a package for each platform, which only that platform installs", () => {
  const expected = ["darwin-arm64", "darwin-x64", "linux-arm64-gnu", "linux-arm64-musl", "linux-x64-gnu"];
  assert.deepEqual([...PLATFORMS].sort(), [...expected, "linux-x64-musl", "win32-x64-msvc"]);
  for (const platform of PLATFORMS) {
    const [os, cpu, abi] = platform.split("-");
    const { name, main, files, version, license, engines, ...rest } = manifest(SOURCE, "npm", platform);
    assert.equal(name, `callweir-${platform}`);
    assert.equal(main, `callweir.${platform}.node`);
    assert.deepEqual(files, [main]);
    assert.deepEqual([version, license, engines], [own.version, own.license, own.engines]);
    const libc = { gnu: ["glibc"], musl: ["musl"] }[abi];
    const { description, ...limits } = rest;
    assert.ok(description.includes({ linux: "Linux", darwin: "macOS", win32: "Windows" }[os]));
    assert.deepEqual(limits, { os: [os], cpu: [cpu], ...(libc && { libc }) });
    assert.ok(own.os.includes(os));
  }
});

test("C-76: the version is that of the workspace", () => {
  const [, version] = readFileSync(join(SOURCE, "..", "Cargo.toml"), "utf8").match(/^version = "(.*)"/m);
  assert.equal(own.version, version);
});

test("C-76: the prepared package names the platform packages, each in exactly its version", () => {
  const prepared = manifest(folder, "callweir");
  const wanted = Object.fromEntries(PLATFORMS.map((platform) => [`callweir-${platform}`, own.version]));
  assert.deepEqual(prepared.optionalDependencies, wanted);
  for (const field of ["private", "scripts", "dependencies", "devDependencies", "peerDependencies"]) {
    assert.ok(!(field in prepared), field);
  }
  for (const field of ["name", "version", "license", "main", "types", "exports", "engines", "os", "files"]) {
    assert.deepEqual(prepared[field], own[field], field);
  }
});

test("C-76: the sources cannot be published by mistake, and install from a fresh clone", () => {
  assert.equal(own.private, true);
  const lock = JSON.parse(readFileSync(join(SOURCE, "package-lock.json"), "utf8"));
  assert.deepEqual(lock.packages[""].devDependencies, own.devDependencies);
  for (const [name, entry] of Object.entries(lock.packages)) {
    assert.ok(!("resolved" in entry), `${name} says where it comes from`);
  }
  const clone = temporary();
  for (const name of ["package.json", "package-lock.json"]) {
    copyFileSync(join(SOURCE, name), join(clone, name));
  }
  mustRun("npm", ["ci", "--dry-run", "--offline", "--ignore-scripts"], { cwd: clone });
});

function compiled(folder, below = "") {
  return readdirSync(join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    return entry.isDirectory() ? compiled(folder, path) : [path];
  });
}

test("C-76: the packages hold what they need and nothing else", () => {
  const modules = compiled(join(SOURCE, "ts")).map((path) => path.replace(/\.ts$/, ""));
  const dist = ["dist/callweir.js", "dist/index.js", ...modules.map((name) => `dist/${name}.d.ts`)];
  assert.deepEqual(main.files, ["LICENSE", "README.md", "package.json", ...dist].sort());
  assert.deepEqual(addon.files, ["LICENSE", "README.md", `callweir.${HERE}.node`, "package.json"].sort());
  const license = readFileSync(join(SOURCE, "..", "LICENSE"), "utf8");
  for (const name of ["callweir", `callweir-${HERE}`]) {
    assert.equal(readFileSync(join(folder, name, "LICENSE"), "utf8"), license);
  }
});

test("C-76: the compiled files know neither their sources nor the machine", () => {
  for (const path of compiled(join(folder, "callweir"), "dist")) {
    const text = readFileSync(join(folder, "callweir", path), "utf8");
    assert.doesNotMatch(text, /sourceMappingURL/, path);
    assert.ok(!text.includes(SOURCE), path);
  }
});

const addonFile = join(SOURCE, `callweir.${HERE}.node`);
const MACHINES = { x64: "X86-64", arm64: "AArch64" };
const isReadable = process.platform === "linux" && run("readelf", ["--version"]).code === 0;

function newest(versions) {
  const inOrder = (a, b) => a.localeCompare(b, "en", { numeric: true });
  return [...versions].sort(inOrder).at(-1);
}

test("C-75: the addon needs only what every Linux has", { skip: !isReadable && "no readelf" }, (t) => {
  const machine = mustRun("readelf", ["-h", addonFile]).match(/Machine:.*/)[0];
  assert.ok(machine.includes(MACHINES[HERE.split("-")[1]]), machine);
  const dynamic = mustRun("readelf", ["-d", addonFile]);
  const needed = [...dynamic.matchAll(/NEEDED.*\[(.*)\]/g)].map(([, name]) => name);
  t.diagnostic(`needs ${needed.join(", ")}`);
  const glibc = /^(lib(c|m)\.so\.6|libgcc_s\.so\.1|libdl\.so\.2|libpthread\.so\.0|ld-linux-.*\.so\.\d)$/;
  const musl = /^(libc\.musl-.*\.so\.1|libc\.so|libgcc_s\.so\.1)$/;
  assert.ok(needed.length > 0);
  assert.deepEqual(needed.filter((name) => !(HERE.endsWith("musl") ? musl : glibc).test(name)), []);
});

test("C-75: the addon needs no newer glibc than documented", { skip: !isReadable && "no readelf" }, (t) => {
  const symbols = mustRun("readelf", ["--wide", "--dyn-syms", addonFile]);
  assert.match(symbols, /napi_register_module_v1/);
  const asked = new Set([...symbols.matchAll(/@+GLIBC_([\d.]+)/g)].map(([, version]) => version));
  if (HERE.endsWith("musl")) {
    assert.equal(asked.size, 0);
    return;
  }
  const documented = readFileSync(join(SOURCE, "README.md"), "utf8").match(/glibc ([\d.]+) or newer/)[1];
  t.diagnostic(`needs glibc ${newest(asked)}, documented is ${documented}`);
  assert.equal(newest([...asked, documented]), documented);
});
