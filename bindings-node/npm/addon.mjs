/**
 * Builds the addon with cargo and puts it where the package loads it from: `npm run addon`.
 */

import { spawnSync } from "node:child_process";
import { copyFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const source = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Names this platform as the packages do: `linux-x64-gnu`. */
function platform() {
  const { platform, arch } = process;
  if (platform === "win32") return `win32-${arch}-msvc`;
  if (platform !== "linux") return `${platform}-${arch}`;
  process.report.excludeNetwork = true;
  return `linux-${arch}-${process.report.getReport().header.glibcVersionRuntime ? "gnu" : "musl"}`;
}

/** Builds, and returns the path of the library. */
function build() {
  const given = ["build", "--release", "-p", "callweir-node", "--message-format=json-render-diagnostics"];
  const options = { cwd: source, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", maxBuffer: 1 << 28 };
  const { error, status, stdout } = spawnSync("cargo", given, options);
  if (error !== undefined) throw new Error(`cannot start cargo: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
  const messages = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const library = messages.findLast(
    ({ reason, target }) => reason === "compiler-artifact" && target.name === "callweir_node",
  );
  return library.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
}

const addon = join(source, `callweir.${platform()}.node`);
const fresh = `${addon}.${process.pid}`;
copyFileSync(build(), fresh);
// Renamed into place: a process that has the old file mapped keeps it whole.
renameSync(fresh, addon);
console.log(addon);
