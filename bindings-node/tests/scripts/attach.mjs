/** Continues under the scope of another process, given as JSON; prints what it emitted. */

import assert from "node:assert/strict";

import { attach, propagation, scope, subscribers, tools } from "callweir";

const value = JSON.parse(process.argv[2]);
const events = [];
subscribers.register("s", (event) => void events.push(event));
await attach(value, async (handle) => {
  assert.equal(scope.getHandle(), handle);
  await tools.execute("far", {}, (args) => args);
  await scope.scope("inner", () => {
    assert.equal(propagation().traceparent.slice(3, 35), value.traceparent.slice(3, 35));
  });
});
assert.equal(scope.getHandle(), undefined);
await subscribers.flush();
console.log(JSON.stringify(events.map((event) => [event.scope_category, event.name, event.parent_uuid])));
