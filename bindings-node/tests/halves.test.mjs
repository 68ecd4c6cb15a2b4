/** The two halves of the door say the same of what both write down. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
const NATIVE = read("ts/native.ts");

/** Lists the variants of an enum, whatever comments stand among them. */
function variants(text, start) {
  const from = text.indexOf(start);
  assert.ok(from >= 0, `no ${start}`);
  const body = text.slice(from + start.length, text.indexOf("\n}", from));
  return body.split("\n").flatMap((line) => line.match(/^ {2,4}(\w+),$/)?.[1] ?? []);
}

for (const [name, file] of [
  ["Standing", "src/drive.rs"],
  ["How", "src/foreign.rs"],
  ["Kind", "src/foreign.rs"],
  ["Shared", "src/instance.rs"],
]) {
  test(`${name} is the same list in Rust and in TypeScript`, () => {
    const rust = variants(read(file), `pub(crate) enum ${name} {`);
    assert.ok(rust.length > 5);
    assert.deepEqual(variants(NATIVE, `export const enum ${name} {`), rust);
  });
}

test("every native function is declared, and no other", () => {
  const table = [...read("src/lib.rs").matchAll(/^ {4}\("(\w+)", \d+, [\w:]+\),$/gm)].map(([, name]) => name);
  const declared = NATIVE.slice(NATIVE.indexOf("export interface Native {"), NATIVE.indexOf("\n}"));
  const made = ["describe", "forModel"];
  const names = [...declared.matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => name);
  assert.ok(table.length > 40);
  assert.deepEqual(names.filter((name) => !made.includes(name)).toSorted(), table.toSorted());
});

test("every function that Rust calls is lent", () => {
  const wanted = [...read("src/instance.rs").matchAll(/=> c"(\w+)",$/gm)].map(([, name]) => name);
  const engine = read("ts/engine.ts");
  const lent = engine.slice(engine.indexOf("const lent = {"), engine.indexOf("\n};"));
  assert.ok(wanted.length > 10);
  for (const name of wanted) assert.match(lent, new RegExp(`^ {2}${name}(\\(|:|,)`, "m"));
});
