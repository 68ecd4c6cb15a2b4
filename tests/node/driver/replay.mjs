/** A replay from the first step to the trace. */

import { drive } from "./behaviour.mjs";
import { styled } from "./callbacks.mjs";
import { toText } from "./files.mjs";
import { callRecord } from "./forms.mjs";
import { parse } from "./json.mjs";
import { scrub } from "./scrub.mjs";
import { PATIENCE, runStep } from "./step.mjs";
import { Broken, World } from "./world.mjs";

/** Replays a scenario on a runtime of its own, and gives its trace as text. */
export async function replay(scenario, style) {
  const world = new World(scenario, style);
  try {
    if (scenario.trace !== false) world.runtime.subscribe("trace", tracer(world));
    if (scenario.calls === true) world.runtime.subscribeCalls("calls", recorder(world));
    for (const step of scenario.steps) await drive(runStep(world, step));
    const pending = await world.runtime.flush(PATIENCE);
    if (pending > 0) throw new Broken(`${pending} events are left at the end`);
    return toText(scrub(world));
  } finally {
    await world.runtime.shutdown(PATIENCE);
    world.leave();
  }
}

/** Makes the subscriber of events: plain it takes the event as an object, else as text. */
function tracer(world) {
  const plain = (event) => void world.trace.events.push(event.toJSON());
  const waiting = async (event) => void world.trace.events.push(parse(event.toString()));
  return styled(world, waiting, plain);
}

/** Makes the subscriber of typed records of registry calls. */
function recorder(world) {
  const plain = (record) => void world.trace.calls.push(callRecord(record));
  return styled(world, async (record) => plain(record), plain);
}
