/**
 * Compiles `ts` to `dist`: `npm run build` or `node npm/build.mjs`.
 *
 * Each module gets its declarations; what runs is one file, since most of what an import of many small ones takes is
 * finding them. Programs see the names of classes and functions, so that what bundles must not change them.
 */

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
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

/** Writes what runs: CommonJS that `import` sees the names of, with namespaces that tests can replace parts of. */
async function bundle() {
  const bundled = await rollup({
    input: join(modules, "index.js"),
    external: /^node:/,
    onLog(_, { message }) {
      throw new Error(message);
    },
  });
  await bundled.write({
    file: join(built, "index.js"),
    format: "cjs",
    esModule: true,
    externalLiveBindings: false,
    freeze: false,
    generatedCode: "es2015",
    interop: "default",
  });
}

compile();
await bundle();
const dist = join(source, "dist");
// What an earlier source left would still be found by an import.
rmSync(dist, { recursive: true, force: true });
cpSync(built, dist, { recursive: true });
