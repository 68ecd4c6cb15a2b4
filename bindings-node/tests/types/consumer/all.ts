/** Uses the package as one object, and types by their qualified names. */

import * as callweir from "callweir";

const settings: callweir.Settings = { queueEvents: 10, errorText: undefined };
const type: callweir.ScopeType = callweir.ScopeType.Agent;

export function run(options: callweir.ScopeOptions = { type }): callweir.Registration[] {
  callweir.configure(settings);
  const handle: callweir.ScopeHandle = callweir.scope.push("work", options);
  callweir.scope.pop(handle);
  callweir.export.jsonl("events.jsonl");
  return callweir.registrations();
}
