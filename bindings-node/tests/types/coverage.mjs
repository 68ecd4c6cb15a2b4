/** Whether every exported name has a test of its types, a comment, and a value if it is to have one. */

import { createRequire } from "node:module";
import { join } from "node:path";

import ts from "typescript";

import { apiProgram, testsOf } from "./api.mjs";

const { SymbolFlags } = ts;

/** What has members of its own, so that to name it in a call says little of it. */
const SHAPES = SymbolFlags.Class | SymbolFlags.Interface | SymbolFlags.TypeAlias;

const isNamespace = (symbol) => (symbol.flags & SymbolFlags.ValueModule) !== 0;

function resolved(checker, symbol) {
  return (symbol.flags & SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol;
}

/** Lists what a module exports, by its name, and what modules that it exports do. */
function exportsOf(checker, module, prefix = "") {
  return checker.getExportsOfModule(module).flatMap((exported) => {
    const symbol = resolved(checker, exported);
    const name = `${prefix}${exported.name}`;
    return isNamespace(symbol) ? exportsOf(checker, symbol, `${name}.`) : [{ name, symbol, module }];
  });
}

/** Whether a node stands among what a test compares: the arguments of `Equal`. */
function isCompared(node) {
  for (let at = node; at !== undefined; at = at.parent) {
    if (ts.isTypeReferenceNode(at) && at.typeName.getText() === "Equal") return true;
  }
  return false;
}

/** Whether a node stands for all that its module exports: a test compares `Members<typeof module>`. */
function isWhole({ parent: query }) {
  if (!ts.isTypeQueryNode(query) || !ts.isTypeReferenceNode(query.parent)) return false;
  return query.parent.typeName.getText() === "Members" && isCompared(query);
}

/** Finds what the tests name, what of that they compare, and the modules that they compare as a whole. */
function namedBy(checker, tests) {
  const found = { named: new Set(), compared: new Set(), whole: new Set() };
  const visit = (node) => {
    const given = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined;
    if (given !== undefined) {
      const symbol = resolved(checker, given);
      found.named.add(symbol);
      if (isCompared(node)) found.compared.add(symbol);
      if (isNamespace(symbol) && isWhole(node)) found.whole.add(symbol);
    }
    ts.forEachChild(node, visit);
  };
  tests.forEach(({ node }) => visit(node));
  return found;
}

/** Lists the names of a module of the package as a program finds them when it runs. */
function valuesOf(module, prefix = "") {
  return Object.entries(module).flatMap(([name, value]) =>
    Object.prototype.toString.call(value) === "[object Module]"
      ? valuesOf(value, `${prefix}${name}.`)
      : [`${prefix}${name}`],
  );
}

function* membersOf(checker, { name, symbol }) {
  if ((symbol.flags & (SymbolFlags.Class | SymbolFlags.Interface)) === 0) return;
  for (const member of symbol.members.values()) {
    const isOwn = (member.flags & (SymbolFlags.Method | SymbolFlags.Accessor)) !== 0;
    if (isOwn) yield { name: `${name}.${member.name}`, symbol: member };
  }
}

const namesOf = (entries) => entries.map(({ name }) => name);

const uncommented = (checker, entries) =>
  namesOf(entries.filter(({ symbol }) => symbol.getDocumentationComment(checker).length === 0));

/** Checks the list of exports against the tests, the comments and the values. */
export function* coverageChecks(project) {
  const program = apiProgram(project);
  const checker = program.getTypeChecker();
  const path = join(project, "node_modules", "callweir", "dist", "index.d.ts");
  const all = exportsOf(checker, checker.getSymbolAtLocation(program.getSourceFile(path)));
  const { named, compared, whole } = namedBy(checker, testsOf(project, program));
  const isTested = ({ symbol, module }) =>
    whole.has(module) || ((symbol.flags & SHAPES) !== 0 ? compared.has(symbol) : named.has(symbol));
  for (const entry of all) {
    const problems = isTested(entry) ? [] : ["no test of api/ compares it"];
    yield { name: `DOOR-3: the types of ${entry.name} are tested`, problems };
  }
  const members = all.flatMap((entry) => [...membersOf(checker, entry)]);
  yield { name: "DOOR-3: every export has a comment", problems: uncommented(checker, all) };
  yield { name: "DOOR-3: every method has a comment", problems: uncommented(checker, members) };
  const declared = namesOf(all.filter(({ symbol }) => (symbol.flags & SymbolFlags.Value) !== 0));
  const values = valuesOf(createRequire(import.meta.url)("callweir"));
  const only = (one, other) => one.filter((name) => !other.includes(name));
  yield { name: "DOOR-3: every value is declared", problems: only(values, declared) };
  yield { name: "DOOR-3: every declared value is there", problems: only(declared, values) };
}
