/** Behaviours: the small programs that callbacks and tools run. */

import { ToolCallDenied, ToolContext } from "callweir";

import { contextForm, errorForm, shown } from "./forms.mjs";
import { runStep } from "./step.mjs";
import { Broken } from "./world.mjs";

/** What a callback was given, and the value that it works on. */
export class Frame {
  /** The name of the call. */
  name = "";
  isQueued = false;
  call;
  context;
  proceed;
  event;
  #passed;

  constructor(world, by, value, given = {}) {
    this.world = world;
    this.by = by;
    this.value = value;
    Object.assign(this, given);
  }

  /**
   * Runs the operations, as a generator of the promises that have to be awaited; only operations that say so
   * wait. It returns how it ended, unless it failed: `value`, `nothing`, `reject`, `wrong` or `denial`.
   */
  *run(ops) {
    for (const op of ops) {
      const end = yield* this.#one(op);
      if (end !== undefined) return end;
    }
    return { how: "value", value: this.value };
  }

  *#one(op) {
    const [name, argument] = typeof op === "string" ? [op] : Object.entries(op)[0];
    switch (name) {
      case "next":
        this.value = yield this.startNext();
        return undefined;
      case "swallow":
        try {
          this.value = yield this.startNext();
        } catch (error) {
          this.value = { caught: errorForm(this.world, error) };
        }
        return undefined;
      case "sleep":
        yield this.world.sleep(argument);
        return undefined;
      case "step":
        yield* runStep(this.world, argument, this.isQueued);
        return undefined;
      case "reject":
      case "nothing":
      case "wrong":
        return { how: name, value: argument };
      case "fail":
        throw this.world.fail(argument);
      case "deny":
        throw new ToolCallDenied(this.name, argument);
      case "return_denial":
        return { how: "denial", value: new ToolCallDenied(this.name, argument) };
      default:
        this.#atOnce(name, argument);
        return undefined;
    }
  }

  #atOnce(name, argument) {
    const run = AT_ONCE[name];
    if (run === undefined) throw new Broken(`no such operation: ${name}`);
    run(this, argument);
  }

  /** Uses `next` and returns its promise; a further use passes the same arguments as the first. */
  startNext() {
    if (this.proceed === undefined) throw new Broken(`'${this.by}' has no next`);
    this.#passed ??= { arguments: this.value };
    return this.#use(this.#passed.arguments);
  }

  #use(args) {
    return this.proceed(this.call === undefined ? args : this.call.withArguments(args));
  }

  keepNext(slot) {
    if (this.proceed === undefined) throw new Broken(`'${this.by}' has no next`);
    this.world.nexts.set(slot, (args) => this.#use(args));
  }

  log(what) {
    this.world.log({ by: this.by, ...what }, this.isQueued);
  }
}

/** The operations that never wait. */
const AT_ONCE = {
  record: (frame) => frame.log({ value: shown(frame.value) }),
  record_context(frame) {
    const context = frame.call?.context ?? frame.context;
    if (context === undefined) throw new Broken(`'${frame.by}' has no context`);
    frame.log(contextForm(context));
  },
  note(frame) {
    if (frame.event === undefined) throw new Broken(`'${frame.by}' has no event`);
    frame.log({ event: `${frame.event.scope_category ?? "mark"} ${frame.event.name}` });
  },
  set(frame, [key, value]) {
    frame.value[key] = value;
  },
  append(frame, [key, value]) {
    (frame.value[key] ??= []).push(value);
  },
  remove(frame, key) {
    delete frame.value[key];
  },
  replace(frame, value) {
    frame.value = value;
  },
  unjson(frame) {
    frame.value = { a: [1, 2, 3, Infinity] };
  },
  keep_next: (frame, slot) => frame.keepNext(slot),
  context(frame, spec) {
    if (frame.call === undefined) throw new Broken(`'${frame.by}' has no call`);
    frame.call = frame.call.withContext(contextOf(frame.world, spec, frame.call.context));
  },
  fire: (frame, token) => frame.world.token(token).fire(),
};

/** Makes a context from `context` with what `spec` says. */
export function contextOf(world, spec, context = new ToolContext()) {
  if ("caller_id" in spec) context = context.withCallerId(spec.caller_id);
  if ("metadata" in spec) context = context.withMetadata(spec.metadata);
  if ("deadline_ms" in spec) context = context.withDeadline(spec.deadline_ms);
  if ("token" in spec) context = context.withCancellation(world.token(spec.token).signal);
  return context;
}

/** Runs a generator of promises to its end, each awaited. */
export async function drive(running) {
  let step = running.next();
  while (!step.done) {
    let value;
    try {
      value = await step.value;
    } catch (error) {
      step = running.throw(error);
      continue;
    }
    step = running.next(value);
  }
  return step.value;
}

/** Runs a generator of promises that has none to its end, as part of a plain function. */
export function finish(running) {
  const { done, value } = running.next();
  if (!done) throw new Broken("a plain function had to wait");
  return value;
}
