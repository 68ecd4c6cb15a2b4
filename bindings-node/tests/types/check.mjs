/**
 * Checks the declarations of the package as a program that uses it sees them: `node tests/types/check.mjs`.
 *
 * The package is copied into the `node_modules` of a project. There `consumer/` is compiled with each way
 * to resolve modules, with and without the types of Node and of the DOM. In `api/` each function tests some
 * names; that every exported name has a test is checked too. A line is printed for each check, the counts
 * at the end.
 */

import { rmSync } from "node:fs";

import { apiChecks } from "./api.mjs";
import { commandLineChecks, consumerChecks } from "./consumers.mjs";
import { coverageChecks } from "./coverage.mjs";
import { makeProject } from "./project.mjs";

const project = makeProject();
const counts = { passed: 0, failed: 0 };

function report({ name, problems }) {
  counts[problems.length === 0 ? "passed" : "failed"] += 1;
  console.log(`${problems.length === 0 ? "ok    " : "failed"} ${name}`);
  for (const problem of problems) console.log(`         ${problem}`);
}

try {
  for (const checks of [consumerChecks, commandLineChecks, apiChecks, coverageChecks]) {
    for (const check of checks(project)) report(check);
  }
} finally {
  rmSync(project, { recursive: true, force: true });
}

console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;
