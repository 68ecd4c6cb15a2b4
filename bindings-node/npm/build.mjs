/**
 * Compiles `ts` to `dist`: `npm run build` or `node npm/build.mjs`.
 *
 * Each module gets its declarations; what runs is one file, since most of what an import of many small ones takes is
 * finding them. Programs see the names of classes and functions, so that what bundles must not change them. A second
 * file names what is exported: an `import` searches all of a CommonJS file for that, which takes longer than to run it.
 */

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { rollup } from "rollup";

const source = join(dirname(fileURLToPath(import.meta.url)), "..");
const temporary = mkdtempSync(join(tmpdir(), "callweir-build-"));
process.on("exit", () => rmSync(temporary, { recursive: true, force: true }));
const [modules, built] = ["modules", "dist"].map((name) => join(temporary, name));

/** Checks the sources, and writes the declarations and, for the bundle, a module of each. */
function compile() {
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const forBundle = ["--module", "esnext", "--moduleResolution", "bundler", "--outDir", modules];
  const options = ["-p", join(source, "tsconfig.json"), "--declarationDir", built, ...forBundle];
  const { status } = spawnSync(process.execPath, [compiler, ...options], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** Writes what runs, with namespaces that tests can replace parts of, and returns the names of what it exports. */
async function bundle() {
  const bundled = await rollup({
    input: join(modules, "index.js"),
    external: /^node:/,
    onLog(_, { message }) {
      throw new Error(message);
    },
  });
  const { output } = await bundled.write({
    file: join(built, "callweir.js"),
    format: "cjs",
    esModule: true,
    externalLiveBindings: false,
    freeze: false,
    generatedCode: "es2015",
    interop: "default",
  });
  return output[0].exports;
}

function writeEntry(names) {
  const lines = [
    '"use strict";',
    'Object.defineProperty(exports, "__esModule", { value: true });',
    'const callweir = require("./callweir.js");',
    ...names.map((name) => `exports.${name} = callweir.${name};`),
  ];
  writeFileSync(join(built, "index.js"), `${lines.join("\n")}\n`);
}

compile();
writeEntry(await bundle());
const dist = join(source, "dist");
// What an earlier source left would still be found by an import.
rmSync(dist, { recursive: true, force: true });
cpSync(built, dist, { recursive: true });
