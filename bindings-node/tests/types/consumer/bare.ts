/** Uses signals where the program does not know what they are: whatever looks like one. */

import { Cancellation, type Signal, tools } from "callweir";

const own: Signal = new Cancellation().signal;

export async function run(): Promise<number> {
  own.addEventListener("abort", () => undefined);
  const made: Signal = {
    aborted: false,
    reason: undefined,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  };
  // @ts-expect-error -- nothing of a signal is there
  void tools.execute("t", {}, () => 1, { signal: {} });
  return tools.execute("t", {}, () => 1, { signal: made });
}
