/**
 * Prepares the packages for `npm pack` and `npm publish`: `npm run stage` or `node npm/prepare.mjs [folder]`;
 * the folder is `target/npm` by default.
 *
 * Each package gets a folder of its own there: `callweir`, and one for each platform whose addon lies in
 * `bindings-node`; publish those of the platforms first. Only the prepared `callweir` names them as optional
 * dependencies: named in the sources they would break `npm ci` for as long as their version is not published.
 *
 * An addon holds the paths of its sources, for the texts of panics. One to be published is built without those of the
 * machine, which compiles everything anew and so goes into a folder of its own:
 *
 *     cd bindings-node && export CARGO_TARGET_DIR="$PWD/../target/publish"
 *     export RUSTFLAGS="--remap-path-prefix=$(dirname "$PWD")= --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
 *     npm ci && npm run addon && npm run build && npm run stage
 */

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const source = join(dirname(fileURLToPath(import.meta.url)), "..");
const target = resolve(process.argv[2] ?? join(source, "..", "target", "npm"));

/** What the sources need and users do not. */
const ONLY_HERE = ["private", "scripts", "devDependencies"];

function read(...path) {
  return JSON.parse(readFileSync(join(source, ...path, "package.json"), "utf8"));
}

function stage(manifest, copies) {
  const folder = join(target, manifest.name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  copyFileSync(join(source, "LICENSE"), join(folder, "LICENSE"));
  for (const name of copies) cpSync(join(source, name), join(folder, name), { recursive: true });
  return folder;
}

function stagePlatform(manifest) {
  const addon = manifest.main;
  if (!existsSync(join(source, addon))) {
    console.log(`${manifest.name}: left out, ${addon} is not built`);
    return;
  }
  const folder = stage(manifest, [addon]);
  const text = `# ${manifest.name}\n\n${manifest.description}. It comes with \`callweir\`; install that.\n`;
  writeFileSync(join(folder, "README.md"), text);
  console.log(`${manifest.name}: ${folder}`);
}

const platforms = readdirSync(join(source, "npm"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => read("npm", entry.name));
const main = read();
for (const name of ONLY_HERE) delete main[name];
main.optionalDependencies = Object.fromEntries(platforms.map(({ name, version }) => [name, version]));

platforms.forEach(stagePlatform);
console.log(`${main.name}: ${stage(main, ["README.md", "dist"])}`);
