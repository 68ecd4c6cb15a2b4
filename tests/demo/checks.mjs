// What the demonstrations share: a place for their files, and checks that decide how they end.

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";

export const TESTS = fileURLToPath(new URL("..", import.meta.url));

/** Makes the folder for what demonstrations write, and returns a path in it; an old file there is removed. */
export function output(name) {
  const folder = join(TESTS, "..", "target", "demo");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  rmSync(path, { force: true });
  return path;
}

/** Statements about a run that have to be true. */
export class Checks {
  #failed = 0;

  /** Prints a statement and whether it is true. */
  check(statement, holds) {
    console.log(`${holds ? "ok    " : "FAILED"} ${statement}`);
    this.#failed += holds ? 0 : 1;
  }

  /** Prints a statement and whether the two sides are equal; both are shown if they are not. */
  equal(statement, expected, found) {
    const same = isDeepStrictEqual(found, expected);
    this.check(statement, same);
    if (!same) console.log("       expected: %o\n       found:    %o", expected, found);
  }

  /** The exit code of the demonstration: 1 if any statement was false. */
  get exitCode() {
    return this.#failed === 0 ? 0 : 1;
  }
}
