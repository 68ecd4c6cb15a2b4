/** Packs and installs the packages as users get them, for the tests of this folder. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the sources. */
export const SOURCE = fileURLToPath(new URL("../..", import.meta.url));

const TARGET = join(SOURCE, "..", "target");

/** How long one program may take, in milliseconds. */
const PATIENCE = 300_000;

/** What npm would tell the programs that a test of `npm test` or `npm run` starts. */
const INHERITED = /^(npm_|NODE_OPTIONS$|NODE_PATH$|NODE_TEST_CONTEXT$)/i;

/** Runs a program to its end. */
export function run(program, args, options = {}) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !INHERITED.test(name)));
  const done = spawnSync(program, args, { encoding: "utf8", timeout: PATIENCE, env, ...options });
  return { code: done.status, stdout: done.stdout ?? "", stderr: done.stderr ?? String(done.error) };
}

/** Runs a program that has to succeed, and returns what it printed. */
export function mustRun(program, args, options) {
  const { code, stdout, stderr } = run(program, args, options);
  assert.equal(code, 0, `${program} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

/** Reads a manifest. */
export function manifest(...path) {
  return JSON.parse(readFileSync(join(...path, "package.json"), "utf8"));
}

/** The names of the platforms that have a package. */
export const PLATFORMS = readdirSync(join(SOURCE, "npm"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name);

/** The platform that tests run on; its addon is built. */
export const HERE = PLATFORMS.find((name) => {
  const isHere = name.startsWith(`${process.platform}-${process.arch}`);
  return isHere && existsSync(join(SOURCE, `callweir.${name}.node`));
});

/** Makes a folder that is removed at the end of the process. */
export function temporary() {
  const folder = mkdtempSync(join(tmpdir(), "callweir-package-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Prepares and packs the package and that of this platform. */
export function pack() {
  const folder = temporary();
  mustRun(process.execPath, [join(SOURCE, "npm", "prepare.mjs"), folder]);
  const packed = (name) => {
    const [made] = JSON.parse(mustRun("npm", ["pack", "--json", join(folder, name)], { cwd: folder }));
    return { tarball: join(folder, made.filename), files: made.files.map(({ path }) => path).sort() };
  };
  return { folder, main: packed("callweir"), addon: packed(`callweir-${HERE}`) };
}

/** Makes a project with nothing but a manifest. */
export function project(fields = {}) {
  const folder = temporary();
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "user", version: "1.0.0", ...fields }));
  return folder;
}

/** Installs tarballs into a folder, without asking any registry. */
export function install(folder, ...tarballs) {
  mustRun("npm", ["install", "--offline", "--no-audit", "--no-fund", ...tarballs], { cwd: folder });
  return folder;
}

/** Copies an installed project, to spoil the copy. */
export function copied(folder) {
  const copy = temporary();
  cpSync(folder, copy, { recursive: true });
  return copy;
}

/**
 * Installs a tool that tests need into a folder that stays, and returns the path of a file of it.
 *
 * Where it cannot be had the result is undefined; CI insists on it.
 */
export function obtained(name, version, file) {
  const folder = join(TARGET, "node-versions", `${name}-${version}`);
  const path = join(folder, "node_modules", name, file);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "tools", private: true }));
  const quietly = ["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
  const { code, stderr } = run("npm", ["install", ...quietly, `${name}@${version}`], { cwd: folder });
  if (code === 0 && existsSync(path)) return path;
  assert.ok(!process.env.CI, `cannot install ${name} ${version}:\n${stderr}`);
  return undefined;
}
