/** A registry on this machine that has the packages of this folder's tests, as a worker thread. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

/**
 * Starts a registry of `packages`, each `{ manifest, tarball }`, and returns its address.
 *
 * It runs beside this thread, which waits for the programs that use it, and ends with the process.
 */
export async function serve(packages) {
  const worker = new Worker(new URL(import.meta.url), { workerData: packages });
  worker.unref();
  const [port] = await once(worker, "message");
  return `http://127.0.0.1:${port}/`;
}

/** What a registry answers about a package that has one version. */
function packument({ manifest, tarball }, host) {
  const { name, version } = manifest;
  const content = readFileSync(tarball);
  const digest = (algorithm, encoding) => createHash(algorithm).update(content).digest(encoding);
  const dist = {
    tarball: `http://${host}/${name}/-/${name}-${version}.tgz`,
    integrity: `sha512-${digest("sha512", "base64")}`,
    shasum: digest("sha1", "hex"),
  };
  return { name, "dist-tags": { latest: version }, versions: { [version]: { ...manifest, dist } } };
}

function answer(packages, request, response) {
  const [, name, isTarball] = decodeURIComponent(request.url).match(/^\/([^/]+)(\/-\/)?/) ?? [];
  const found = packages.find(({ manifest }) => manifest.name === name);
  if (found === undefined) {
    response.writeHead(404, { "content-type": "application/json" }).end("{}");
  } else if (isTarball !== undefined) {
    response.writeHead(200, { "content-type": "application/octet-stream" }).end(readFileSync(found.tarball));
  } else {
    const text = JSON.stringify(packument(found, request.headers.host));
    response.writeHead(200, { "content-type": "application/json" }).end(text);
  }
}

if (!isMainThread) {
  const server = createServer((request, response) => answer(workerData, request, response));
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
}
