/** The end of the process: what is queued is delivered before it. */

import { native } from "./native";
import { after } from "./task";

/** How long the natural end of a process waits for what is queued, in milliseconds. */
const PATIENCE = 5000;

interface Flushed {
  counts(): { pending: number };
  flush(timeout: number): Promise<number>;
}

const known = new Set<WeakRef<Flushed>>();
const whenGone = new FinalizationRegistry<WeakRef<Flushed>>((reference) => known.delete(reference));
let isInstalled = false;
let hasGivenUp = false;

/** Delivers what a runtime has queued when the process ends, within 5 seconds. */
export function deliverAtExit(runtime: Flushed): void {
  const reference = new WeakRef(runtime);
  known.add(reference);
  whenGone.register(runtime, reference);
  if (isInstalled) return;
  isInstalled = true;
  process.on("beforeExit", deliver);
  // Nothing asynchronous runs any more: synchronous subscribers and exporters get the rest.
  process.on("exit", () => {
    native.exit();
    after();
  });
}

function deliver(): void {
  if (hasGivenUp) return;
  for (const reference of known) {
    const runtime = reference.deref();
    if (runtime === undefined || runtime.counts().pending === 0) continue;
    runtime.flush(PATIENCE).then(
      (left) => (hasGivenUp ||= left > 0),
      () => (hasGivenUp = true),
    );
  }
}
