/**
 * The README's blocks for Node type-check, run in order, and print what the README says.
 *
 * The blocks of one chapter are one module, with the names of the blocks before, as a reader would type them.
 */

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import ts from "typescript";

import { clean, run } from "./helpers.mjs";
import { diagnosticsOf, programOf, shown } from "./types/project.mjs";

const SOURCE = fileURLToPath(new URL("..", import.meta.url));
const README = fileURLToPath(new URL("../../README.md", import.meta.url));
const LANGUAGES = ["js", "python", "rust", "sh", "text", "ts"];
const NODE = ["js", "ts"];

/** What is printed after each block. */
const END = "-- end of block --";

/** Lists the fenced blocks: chapter, line, language, content. */
function blocks(text) {
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map((match) => {
    const before = text.slice(0, match.index);
    const chapter = [...before.matchAll(/^## (.*)$/gm)].at(-1)?.[1];
    return { chapter, line: before.split("\n").length + 1, language: match[1], content: match[2] };
  });
}

/** Makes a folder where programs find the package, and what it and they are typed with. */
function makeFolder() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "callweir-readme-")));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@types"), { recursive: true });
  symlinkSync(SOURCE, join(modules, "callweir"), "junction");
  for (const name of [join("@types", "node"), "undici-types", "zod"]) {
    symlinkSync(join(SOURCE, "node_modules", name), join(modules, name), "junction");
  }
  return folder;
}

/** Makes one module of some blocks, each at the lines that it has in the README. */
function moduleOf(given) {
  let text = "";
  for (const { line, content } of given) {
    text += "\n".repeat(line - text.split("\n").length) + content + `console.log(${JSON.stringify(END)});`;
  }
  return text;
}

const OPTIONS = {
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  lib: ["es2023"],
};

/** Lists what the compiler, at its strictest, says about a module. */
function complaints(folder, text) {
  writeFileSync(join(folder, "README.mts"), text);
  const program = programOf(folder, ["README.mts"], OPTIONS);
  return diagnosticsOf(folder, program).map((diagnostic) => shown(folder, diagnostic));
}

/** Returns a module without types. */
function transpiled(text) {
  const { outputText } = ts.transpileModule(text, {
    fileName: "README.mts",
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, inlineSourceMap: true },
  });
  return outputText;
}

/** Runs a module, and lists what each of its blocks printed. */
async function printed(folder, text) {
  const path = join(folder, "README.mjs");
  writeFileSync(path, text);
  const start = `process.chdir(${JSON.stringify(folder)})`;
  const flags = ["--enable-source-maps", "--import", `data:text/javascript,${encodeURIComponent(start)}`];
  const shown = clean(await run(process.execPath, [...flags, path]));
  const parts = shown.split(`${END}\n`);
  assert.equal(parts.pop(), "", "nothing is printed after the last block");
  return parts;
}

/**
 * Lists what the README says that each block prints: the text that follows it, or nothing.
 *
 * A chapter "...: Node" without any such text prints what the one of the same title for Python shows.
 */
function wanted(chapter) {
  const mine = all.filter((block) => block.chapter === chapter);
  const isShort = /: Node$/.test(chapter) && mine.every(({ language }) => language !== "text");
  const given = isShort ? all.filter((block) => block.chapter === chapter.replace(/Node$/, "Python")) : mine;
  const code = isShort ? ["python"] : NODE;
  const texts = [];
  let isShown = false;
  for (const { language, content } of given) {
    if (code.includes(language)) texts.push("");
    else if (language === "text" && isShown) texts[texts.length - 1] = content;
    isShown = code.includes(language);
  }
  return texts;
}

const all = blocks(readFileSync(README, "utf8"));
const ofNode = all.filter(({ language }) => NODE.includes(language));
const chapters = [...new Set(ofNode.map(({ chapter }) => chapter))];

test("every block of the README says its language, and some are for Node", () => {
  for (const { line, language } of all) assert.ok(LANGUAGES.includes(language), `line ${line}: ${language}`);
  assert.ok(chapters.length > 0);
});

test("every shown output of the README follows its code", () => {
  all.forEach(({ line, language }, index) => {
    if (language !== "text") return;
    assert.ok([...NODE, "python"].includes(all[index - 1]?.language), `line ${line}`);
  });
});

for (const chapter of chapters) {
  test(`README, ${chapter}: the blocks for Node print what is shown`, async () => {
    const code = ofNode.filter((block) => block.chapter === chapter);
    const text = moduleOf(code);
    const folder = makeFolder();
    const isTyped = code.some(({ language }) => language === "ts");
    if (isTyped) assert.deepEqual(complaints(folder, text), []);
    assert.deepEqual(await printed(folder, isTyped ? transpiled(text) : text), wanted(chapter));
  });
}
