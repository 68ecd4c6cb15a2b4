/** The published packages, installed by each package manager from a registry. */

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { HERE, manifest, mustRun, obtained, pack, PLATFORMS, project, SOURCE } from "./packages.mjs";
import { serve } from "./registry.mjs";

const { folder, main, addon } = pack();

// The addons of other platforms are not built here: this one stands for them, and none may be installed.
const registry = await serve([
  { manifest: manifest(folder, "callweir"), tarball: main.tarball },
  ...PLATFORMS.map((name) => ({ manifest: manifest(SOURCE, "npm", name), tarball: addon.tarball })),
]);

const SCRIPT = `
const { ToolRegistry, tool } = require("callweir");
const registry = new ToolRegistry().register(tool({ name: "double" }, async ({ n }) => 2 * n));
registry.dispatch("double", { n: 21 }).then((result) => console.log(result));
`;

/** Installs `callweir` by name into a new project, and returns which platform packages came with it. */
function installed(program, args) {
  const home = project();
  const { PATH } = process.env;
  const env = { PATH, HOME: home, npm_config_registry: registry, YARN_REGISTRY: registry, CI: "1" };
  mustRun(program, args, { cwd: home, env });
  assert.equal(mustRun(process.execPath, ["-e", SCRIPT], { cwd: home }), "42\n");
  const from = [join(home, "node_modules"), join(home, "node_modules", ".pnpm")].filter(existsSync);
  const found = from.flatMap((path) => readdirSync(path)).map((name) => name.split("@")[0]);
  return PLATFORMS.filter((name) => found.includes(`callweir-${name}`));
}

test("C-76: npm installs the package with the addon of this platform alone", () => {
  assert.deepEqual(installed("npm", ["install", "--no-audit", "--no-fund", "callweir"]), [HERE]);
});

const OTHERS = [
  { name: "pnpm", version: "9.15.9", file: join("bin", "pnpm.cjs"), isChoosy: true },
  // It reads the limits of a package in its tarball, and here all have the same.
  { name: "yarn", version: "1.22.22", file: join("bin", "yarn.js"), isChoosy: false },
];

for (const { name, version, file, isChoosy } of OTHERS) {
  const program = obtained(name, version, file);
  const skip = program === undefined && `${name} ${version} cannot be had here`;
  test(`C-76: ${name} installs the package with the addon of this platform`, { skip }, () => {
    const found = installed(process.execPath, [program, "add", "callweir"]);
    assert.deepEqual(isChoosy ? found : found.filter((other) => other === HERE), [HERE]);
  });
}
