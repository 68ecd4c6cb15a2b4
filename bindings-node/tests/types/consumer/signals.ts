/** Uses signals where the program knows what they are. */

import { Cancellation, type Signal, ToolContext, tools } from "callweir";

const controller = new AbortController();
const given: Signal = controller.signal;
const own: AbortSignal = new Cancellation().signal;

export async function run(): Promise<number> {
  const context = new ToolContext({ signal: own }).withCancellation(AbortSignal.timeout(5));
  const signal: AbortSignal | undefined = context.signal;
  signal?.throwIfAborted();
  // @ts-expect-error -- a controller is no signal
  void tools.execute("t", {}, () => 1, { signal: controller });
  return tools.execute("t", {}, () => 1, { signal: given });
}
