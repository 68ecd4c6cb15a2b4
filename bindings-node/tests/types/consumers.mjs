/** Programs that use the package, compiled in every way that is in use. */

import { spawnSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import ts from "typescript";

import { diagnosticsOf, isOurs, programOf, shown, STRICT } from "./project.mjs";

const { ModuleKind, ModuleResolutionKind } = ts;

/** The ways to resolve modules: the options, the files, and how files that they apply to are called. */
const RESOLUTIONS = [
  {
    name: "node10",
    options: { module: ModuleKind.CommonJS, moduleResolution: ModuleResolutionKind.Node10 },
    extension: "ts",
    files: ["named", "all", "required"],
  },
  ...["Node16", "NodeNext"].flatMap((name) => {
    const options = { module: ModuleKind[name], moduleResolution: ModuleResolutionKind[name] };
    return [
      { name: `${name}, ESM`, options, extension: "mts", files: ["named", "all", "default"] },
      { name: `${name}, CommonJS`, options, extension: "cts", files: ["named", "all", "required"] },
    ];
  }),
  {
    name: "bundler",
    options: { module: ModuleKind.ESNext, moduleResolution: ModuleResolutionKind.Bundler },
    extension: "ts",
    files: ["named", "all", "default"],
  },
];

/** What a program may know of its surroundings; its files say what signals are to it. */
const SURROUNDINGS = [
  { name: "without Node and DOM", types: [], lib: ["es2022"], files: ["bare"] },
  { name: "with Node", types: ["node"], lib: ["es2022"], files: ["signals"] },
  { name: "with DOM", types: [], lib: ["es2022", "dom"], files: ["signals"] },
  { name: "with Node and DOM", types: ["node"], lib: ["es2022", "dom"], files: ["signals"] },
];

/** Returns the files under the names that a way to resolve modules needs. */
function filesOf(project, { files, extension }, more) {
  return [...files, ...more].map((name) => {
    const file = join("consumer", `${name}.${extension}`);
    if (extension !== "ts") copyFileSync(join(project, "consumer", `${name}.ts`), join(project, file));
    return file;
  });
}

/** Compiles a program for each way to resolve modules in each of the surroundings. */
export function* consumerChecks(project) {
  for (const resolution of RESOLUTIONS) {
    for (const { name, types, lib, files } of SURROUNDINGS) {
      const given = { ...resolution.options, types, lib };
      const program = programOf(project, filesOf(project, resolution, files), given);
      const problems = diagnosticsOf(project, program).map((diagnostic) => shown(project, diagnostic));
      const read = program.getSourceFiles().filter((file) => isOurs(project, file));
      if (!read.some(({ fileName }) => fileName.endsWith("/callweir/dist/index.d.ts"))) {
        problems.push("the package's declarations were not read");
      }
      yield { name: `C-76 DOOR-3: a consumer under ${resolution.name}, ${name}`, problems };
    }
  }
}

/** Compiles with the compiler's own program, which checks everything, libraries too. */
export function* commandLineChecks(project) {
  const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const surroundings = { lib: ["es2022"], types: ["node"] };
  const compilerOptions = { ...STRICT, ...surroundings, target: "es2022", module: "nodenext" };
  const config = { compilerOptions, include: ["consumer/*.mts", "consumer/*.cts"], exclude: ["**/bare.*"] };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify(config));
  const done = spawnSync(process.execPath, [tsc, "-p", project], { encoding: "utf8", cwd: project });
  const problems = done.status === 0 ? [] : `${done.stdout}${done.stderr}`.trim().split("\n");
  yield { name: "C-76 DOOR-3: a consumer by tsc, with the declarations of libraries checked", problems };
}
