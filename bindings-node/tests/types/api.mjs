/** The tests of `api/`: each function that a file declares there is one. */

import { readdirSync } from "node:fs";
import { join } from "node:path";

import ts from "typescript";

import { diagnosticsOf, programOf, shown } from "./project.mjs";

/** Makes the program of all tests. */
export function apiProgram(project) {
  const files = readdirSync(join(project, "api")).map((name) => join("api", name));
  const { Node16: module } = ts.ModuleKind;
  return programOf(project, files, { module, types: ["node"], lib: ["es2022"] });
}

/** Lists the tests: their names, and the functions that they are. */
export function testsOf(project, program) {
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(`${project}/api/`));
  return files.flatMap((file) =>
    file.statements
      .filter((statement) => ts.isFunctionDeclaration(statement) && statement.body !== undefined)
      .map((node) => ({ name: `${file.fileName.split("/").at(-1)}: ${node.name.text}`, file, node })),
  );
}

/** Gives each test with what the compiler says about it, and what it says about the rest. */
export function* apiChecks(project) {
  const program = apiProgram(project);
  const left = new Set(diagnosticsOf(project, program));
  for (const { name, file, node } of testsOf(project, program)) {
    const isInside = ({ file: its, start }) => its === file && start >= node.pos && start < node.end;
    const problems = [...left].filter(isInside);
    problems.forEach((problem) => left.delete(problem));
    yield { name: `DOOR-3: ${name}`, problems: problems.map((problem) => shown(project, problem)) };
  }
  const problems = [...left].map((problem) => shown(project, problem));
  yield { name: "DOOR-3: nothing is wrong outside the tests of api", problems };
}
