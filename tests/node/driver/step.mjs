/** Steps: what a scenario does with the runtime, one after another. */

import { ToolCall, ToolContext, ToolRegistry } from "callweir";

import { contextOf } from "./behaviour.mjs";
import * as callbacks from "./callbacks.mjs";
import { errorForm, line, shown } from "./forms.mjs";
import { Broken, HostCancelled, known } from "./world.mjs";

/** Milliseconds; long enough for everything that a scenario queues. */
export const PATIENCE = 10_000;

const NO_ACTION = ["label", "in"];

/** Runs a step from the top or a callback, as a generator of promises; only one with a label may fail. */
export function* runStep(world, step, isQueued = false) {
  const action = Object.keys(step).find((key) => !NO_ACTION.includes(key));
  const run = ACTIONS[action];
  if (run === undefined) throw new Broken(`no such action: ${action}`);
  const scope = world.maybeScope(step.in);
  // A scenario's own values must not be what callbacks change in place.
  const asked = structuredClone(step[action]);
  const entry = { label: step.label };
  try {
    const value = scope === undefined ? run(world, asked) : scope.run(() => run(world, asked));
    entry.result = shown(isThenable(value) ? yield value : value);
  } catch (error) {
    if (error instanceof Broken || entry.label === undefined) throw error;
    entry.error = errorForm(world, error);
  }
  if (entry.label !== undefined) world.noteStep(entry, isQueued);
}

/** Says whether a value has to be awaited: plain callbacks give their results at once. */
function isThenable(value) {
  return typeof value?.then === "function";
}

function execute(world, asked) {
  const { name, arguments: args, metadata, tool_call_id: toolCallId, token, run = [] } = asked;
  const own = token === undefined ? undefined : world.token(token).signal;
  const work = callbacks.work(world, name, run);
  return cancelledOn(world, asked, (signal = own) =>
    world.runtime.execute(name, args, work, { metadata, toolCallId, signal }),
  );
}

function dispatch(world, asked) {
  const registry = known("registry", asked.registry, world.registries);
  const args = asked.text ?? asked.arguments ?? {};
  const context = contextOf(world, asked.context ?? {});
  return cancelledOn(world, asked, (signal) => {
    const given = signal === undefined ? context : context.withCancellation(signal);
    if (asked.as_text === true) return registry.dispatchJson(asked.tool, args, given);
    return registry.dispatch(asked.tool, args, given);
  });
}

/** Starts a call, which the signal of a program's own controller cancels when a token fires. */
async function cancelledOn(world, asked, start) {
  if (asked.cancel_on === undefined) return start();
  const controller = new AbortController();
  const reason = { of: asked.cancel_on };
  world.token(asked.cancel_on).whenFired(() => controller.abort(reason));
  try {
    return await start(controller.signal);
  } catch (error) {
    if (error !== reason) throw error;
    world.isHostCancelled = true;
    throw new HostCancelled();
  }
}

function direct(world, { registry, tool, arguments: args }) {
  return known("tool", `${registry} ${tool}`, world.tools).executeWith(args, new ToolContext());
}

function alone(world, asked) {
  const call = new ToolCall({ name: asked.name, arguments: asked.arguments, context: new ToolContext() });
  const middleware = callbacks.middleware(world, asked.middleware);
  return callbacks.runAlone(middleware, call, callbacks.nextAlone(world, asked.next));
}

function register(world, asked) {
  const { family, name, run, priority, break_chain: breakChain } = asked;
  const options = { priority, breakChain, scope: world.maybeScope(asked.scope) };
  world.runtime.register(family, name, callbacks.handler(world, family, name, run), options);
}

function deregister(world, { family, name, scope }) {
  return world.runtime.deregister(family, name, { scope: world.maybeScope(scope) });
}

function subscribe(world, { name, run, scope }) {
  world.runtime.subscribe(name, callbacks.subscriber(world, name, run), { scope: world.maybeScope(scope) });
}

function unsubscribe(world, { name, scope }) {
  return world.runtime.unsubscribe(name, { scope: world.maybeScope(scope) });
}

function open(world, { as, name, type, input, metadata, attributes }) {
  world.scopes.set(as, world.runtime.openScope(name, { type, input, metadata, attributes }));
}

function close(world, { scope, output, metadata, outcome }) {
  known("scope", scope, world.scopes).close(output, { metadata, outcome });
}

function mark(world, { name, data, metadata }) {
  world.runtime.mark(name, data, { metadata });
}

function startCall(world, { as, name, arguments: args, metadata, tool_call_id: toolCallId }) {
  const call = world.runtime.startCall(name, args, { metadata, toolCallId });
  world.calls.set(as, call);
  world.scopes.set(as, call.scope);
}

function end(world, asked) {
  const { outcome } = asked;
  const call = known("call", asked.call, world.calls);
  call.end(asked.result, "fail" in asked ? { error: world.fail(asked.fail), outcome } : { outcome });
}

function makeRegistry(world, asked) {
  world.registries.set(asked.as, new ToolRegistry({ runtime: world.runtime }));
  add(world, { ...asked, registry: asked.as });
  use(world, { ...asked, registry: asked.as });
}

function add(world, { registry: name, tools = [], registries = [] }) {
  const made = tools.map((spec) => callbacks.tool(world, spec));
  const inner = registries.map((one) => known("registry", one, world.registries));
  known("registry", name, world.registries).register(...made, ...inner);
  for (const tool of made) world.tools.set(`${name} ${tool.name}`, tool);
}

function use(world, { registry: name, middleware = [] }) {
  const made = middleware.map((spec) => callbacks.middleware(world, spec));
  known("registry", name, world.registries).use(...made);
}

function subset(world, { as, registry, names }) {
  world.registries.set(as, known("registry", registry, world.registries).subset(names));
}

function explain(world, { kind = "tool", registry, tool }) {
  if (registry === undefined) return world.runtime.explain(kind, "any").map(line);
  return known("registry", registry, world.registries).explain(tool).map(line);
}

function propagate(world, { scope, as }) {
  const value = known("scope", scope, world.scopes).propagation();
  world.propagations.set(as, { ...value });
  const [uuid, root] = [value.uuid, value.root].map((id) => id.replaceAll("-", ""));
  if (value.traceparent === `00-${root}-${uuid.slice(16)}-01`) value.traceparent = "well-formed";
  return value;
}

function attach(world, asked) {
  const value = "from" in asked ? known("propagation", asked.from, world.propagations) : asked.value;
  world.scopes.set(asked.as, world.runtime.attach(value));
}

/** The actions; some return promises. */
const ACTIONS = {
  execute,
  dispatch,
  direct,
  alone,
  guardrails: (world, asked) => world.runtime.conditionalExecution(asked.name, asked.arguments),
  requests: (world, asked) => world.runtime.requestIntercepts(asked.name, asked.arguments),
  use_next: (world, asked) => known("next", asked.slot, world.nexts)(asked.arguments),
  flush: (world) => world.runtime.flush(PATIENCE),
  shutdown: (world) => world.runtime.shutdown(PATIENCE),
  register,
  deregister,
  subscribe,
  unsubscribe,
  open,
  close,
  mark,
  call: startCall,
  end,
  registry: makeRegistry,
  add,
  use,
  subset,
  manifest: (world, asked) => known("registry", asked.registry, world.registries).manifest(asked.provider),
  middleware: (world, asked) =>
    known("registry", asked.registry, world.registries)
      .middleware()
      .map(({ name }) => name),
  explain,
  registrations: (world) => world.runtime.registrations().map(line),
  fire: (world, asked) => world.token(asked.token).fire(),
  propagate,
  attach,
  counts: (world) => ({ failures: world.runtime.counts().failures }),
};
