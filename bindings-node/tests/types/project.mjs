/** A project with the package installed, and programs of the compiler in it. */

import { cpSync, mkdirSync, mkdtempSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

import ts from "typescript";

const SOURCE = fileURLToPath(new URL("../..", import.meta.url));

/** The strictest that a program may be; what it does not check of itself it may check of libraries. */
export const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  skipLibCheck: false,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
};

/** Makes the project, and returns its folder. */
export function makeProject() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "callweir-types-")));
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@types"), { recursive: true });
  for (const name of ["package.json", "dist"]) {
    cpSync(join(SOURCE, name), join(modules, "callweir", name), { recursive: true });
  }
  for (const name of ["zod", join("@types", "node"), "undici-types"]) {
    symlinkSync(join(SOURCE, "node_modules", name), join(modules, name), "junction");
  }
  for (const name of ["consumer", "api"]) {
    cpSync(fileURLToPath(new URL(name, import.meta.url)), join(folder, name), { recursive: true });
  }
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "user", version: "1.0.0" }));
  return folder;
}

/** The declarations of the language, the DOM and Node, which are the same in all programs. */
const libraries = new Map();
const LIBRARY = /\/(typescript\/lib|@types\/node|undici-types)\/.*\.d\.ts$/;

function hostFor(options, folder) {
  const host = ts.createCompilerHost(options, true);
  host.getCurrentDirectory = () => folder;
  const read = host.getSourceFile;
  host.getSourceFile = (name, how, ...given) => {
    if (!LIBRARY.test(name)) return read(name, how, ...given);
    const key = `${name} ${how.impliedNodeFormat}`;
    if (!libraries.has(key)) libraries.set(key, read(name, how, ...given));
    return libraries.get(key);
  };
  return host;
}

/** Makes a program of some files of the project. */
export function programOf(folder, files, options) {
  const names = files.map((file) => join(folder, file));
  const all = { ...STRICT, ...options };
  const lib = all.lib?.map((name) => `lib.${name}.d.ts`);
  const given = { ...all, ...(lib && { lib }), typeRoots: [join(folder, "node_modules", "@types")] };
  return ts.createProgram(names, given, hostFor(given, folder));
}

/** Whether a file belongs to the project or to the package, and not to a library beside it. */
export function isOurs(folder, { fileName }) {
  const path = relative(folder, fileName);
  if (path.startsWith("..")) return false;
  return !path.startsWith("node_modules") || path.startsWith(join("node_modules", "callweir") + sep);
}

/** Lists what the compiler says about a program and the files of it that are ours. */
export function diagnosticsOf(folder, program) {
  const files = program.getSourceFiles().filter((file) => isOurs(folder, file));
  const ofFiles = files.flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
  ]);
  return [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics(), ...ofFiles];
}

/** Writes a diagnostic as one line. */
export function shown(folder, diagnostic) {
  const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, " ");
  const { file, start } = diagnostic;
  if (file === undefined) return text;
  const { line } = file.getLineAndCharacterOfPosition(start);
  return `${relative(folder, file.fileName)}:${line + 1}: ${text}`;
}
