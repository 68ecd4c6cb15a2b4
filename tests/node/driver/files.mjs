/** Scenario files, and the text form in which traces are compared. */

import { readdirSync, readFileSync } from "node:fs";

import { parse, stringify } from "./json.mjs";

export const SCENARIOS = new URL("../../scenarios/", import.meta.url);
export const GOLDEN = new URL("golden/", SCENARIOS);

/** Lists the scenarios in the order of their names. */
export function names() {
  const files = readdirSync(SCENARIOS).filter((file) => file.endsWith(".json"));
  return files.map((file) => file.slice(0, -".json".length)).sort();
}

/** Reads a scenario. */
export function read(name) {
  return parse(readFileSync(new URL(`${name}.json`, SCENARIOS), "utf8"));
}

/** Writes a trace as the golden files hold it: one line for each entry of its lists. */
export function toText(trace) {
  const lists = Object.entries(trace).map(([key, entries]) => {
    const lines = entries.map((entry) => `\n    ${stringify(entry)}`);
    return `\n  "${key}": [${lines.join(",")}\n  ]`;
  });
  return `{${lists.join(",")}\n}\n`;
}

/** Compares a trace with the golden one; the answer shows the first line that differs and those before it. */
export function difference(name, found) {
  const expected = readFileSync(new URL(`${name}.json`, GOLDEN), "utf8");
  if (found === expected) return undefined;
  const [wanted, got] = [expected.split("\n"), found.split("\n")];
  let same = 0;
  while (same < Math.min(wanted.length, got.length) && wanted[same] === got[same]) same += 1;
  const before = got.slice(Math.max(same - 3, 0), same).join("\n");
  const [left, right] = [wanted, got].map((lines) => lines[same] ?? "<end>");
  return `${name}, line ${same + 1}:\n${before}\nexpected: ${left}\nfound:    ${right}`;
}
