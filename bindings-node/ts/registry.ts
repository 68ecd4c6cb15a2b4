/** The registry: tools by name, with middleware around every call that is dispatched through it. */

import { ToolCall, ToolContext } from "./context";
import { maybeTextOf, textOf, wrongArgument } from "./convert";
import { contextParts } from "./engine";
import type { CallweirError } from "./generated/errors";
import { checked, native, NO_PLACE, put, putWeak, whenCollected } from "./native";
import { currentNumber, numberOf, places, type ScopeHandle } from "./place";
import { defaultRuntime, Runtime } from "./runtime";
import { begin, Task } from "./task";
import { type Descriptor, Tool } from "./tool";
import type { Awaitable, Registration, SignalLike } from "./types";
import { hasLoneSurrogate, MAX_DEPTH, parseLoose, Refused } from "./value";

/** Runs the rest of a chain with the call, or with an edited copy of it. */
export type NextCall = (call?: ToolCall) => Promise<any>;

/** A middleware as a function; it may carry an `onRefused`. */
export interface MiddlewareFunction {
  (call: ToolCall, next: NextCall): Awaitable<unknown>;
  /** Is told of a call that the registry refused before any middleware ran. What it throws replaces the refusal. */
  onRefused?: ((call: ToolCall, refusal: CallweirError) => Awaitable<void>) | undefined;
}

/** A middleware as an object. */
export interface MiddlewareObject {
  /** What listings show; the class's name if absent. */
  readonly name?: string | undefined;
  /** Runs around `next`; throwing or returning a denial refuses the call. */
  run(call: ToolCall, next: NextCall): Awaitable<unknown>;
  /** Is told of a call that the registry refused before any middleware ran. What it throws replaces the refusal. */
  onRefused?(call: ToolCall, refusal: CallweirError): Awaitable<void>;
}

/** Runs around every call that a registry dispatches. */
export type Middleware = MiddlewareFunction | MiddlewareObject;

/** What a dispatch may be given beside the call itself. */
export interface DispatchOptions {
  /** Free metadata for start and end event. */
  metadata?: unknown;
  /** The id that the model gave the call. */
  toolCallId?: string | undefined;
}

/** The providers that a manifest can be rendered for. */
export type Provider = "openai_chat" | "openai_responses" | "anthropic" | "gemini" | "mcp";

/** What is shared with subsets and with registries that this one is registered into. */
const registries = whenCollected((id) => native.forgetRegistry(id));

/** Tools by name, with middleware around every call that is dispatched through it. */
export class ToolRegistry {
  #id: number;
  readonly #runtime: Runtime;
  readonly #tools = new Map<string, Tool>();
  readonly #middleware: Middleware[] = [];
  /** What the native half refers to weakly, since it may refer to this registry in turn. */
  readonly #kept: unknown[] = [];

  constructor(options: { runtime?: Runtime | undefined } = {}) {
    this.#runtime = options.runtime ?? defaultRuntime();
    this.#id = checked(native.makeRegistry(this.#runtime.number));
    registries.register(this, this.#id);
  }

  /**
   * Registers tools, plain functions and registries: all or none. A taken name is `AlreadyExists`.
   *
   * A registry's tools are taken as they are now and keep its middleware, inside this one's.
   */
  register(...items: (Tool | ToolRegistry | ((args: any, context: ToolContext) => unknown))[]): this {
    const taken = items.map((item) => {
      if (item instanceof ToolRegistry || item instanceof Tool) return item;
      if (typeof item === "function") return Tool.of({}, item);
      throw new TypeError("expected a tool, a function or a registry");
    });
    const described = taken.map((item) =>
      item instanceof ToolRegistry ? { registry: item.#id } : item.described(),
    );
    checked(native.registerTools(this.#id, JSON.stringify(described)));
    for (const item of taken) {
      if (item instanceof Tool) this.#tools.set(item.name, item);
      else for (const [name, tool] of item.#tools) this.#tools.set(name, tool);
      this.#kept.push(item);
    }
    return this;
  }

  /** Adds middleware inside those that are there: functions `(call, next)`, or objects with `run`. */
  use(...middleware: Middleware[]): this {
    const parts = middleware.map(partsOf);
    parts.forEach(({ name, run, onRefused }, index) => {
      const hook = onRefused === undefined ? NO_PLACE : putWeak(onRefused);
      checked(native.useMiddleware(this.#id, name, putWeak(run), hook));
      this.#middleware.push(middleware[index]);
      this.#kept.push(run, onRefused);
    });
    return this;
  }

  /** Lists the middleware in the order in which it runs, outermost first. */
  middleware(): Middleware[] {
    return [...this.#middleware];
  }

  /** Lists the tools' manifest entries in the order of registration. */
  descriptors(): Descriptor[] {
    return [...this.#tools.values()].map((tool) => tool.descriptor);
  }

  /** Returns a tool's manifest entry. */
  descriptorOf(name: string): Descriptor | undefined {
    return this.#tools.get(name)?.descriptor;
  }

  /**
   * Copies the named tools and the middleware as they are now; no names give no tools.
   *
   * An unknown name is `ToolNotFound`, one that a subset left out `ToolNotPermitted`.
   */
  subset(names: Iterable<string>): ToolRegistry {
    if (typeof names === "string") throw new TypeError("subset takes a list of names, not one name");
    const wanted = [...names].map((name) => textOf(name, "a tool's name"));
    const id = checked(native.subset(this.#id, JSON.stringify(wanted)));
    const made = new ToolRegistry({ runtime: this.#runtime });
    registries.unregister(made);
    native.forgetRegistry(made.#id);
    made.#id = id;
    registries.register(made, id);
    for (const name of wanted) made.#tools.set(name, this.#tools.get(name)!);
    made.#middleware.push(...this.#middleware);
    made.#kept.push(...this.#kept);
    return made;
  }

  /** Renders the tools for a provider, or neutrally; names that would become one there are an error. */
  manifest(provider?: Provider): any {
    return JSON.parse(checked(native.manifest(this.#id, provider))) as unknown;
  }

  /** Lists what runs for a call to `name` made here: the runtime's entries, then the middleware. */
  explain(name: string, options: { scope?: ScopeHandle | undefined } = {}): Registration[] {
    return JSON.parse(checked(native.explainTool(this.#id, name, numberOf(options.scope)))) as Registration[];
  }

  /**
   * Calls a tool and gives the tool's own result. Arguments are an object or JSON text.
   *
   * A tool that is not there is `ToolNotFound`, one that a subset left out `ToolNotPermitted`; a missing or
   * unexpected argument is `InvalidArgument`. What a callback throws arrives as it is.
   */
  dispatch<R = any>(name: string, args: unknown, context?: ToolContext, options?: DispatchOptions): Promise<R> {
    return this.#dispatch<R>(false, name, args, context, options);
  }

  /** Like `dispatch`, and gives the text `{"result": ...}`. */
  dispatchJson(name: string, args: unknown, context?: ToolContext, options?: DispatchOptions): Promise<string> {
    return this.#dispatch<string>(true, name, args, context, options);
  }

  #dispatch<R>(
    asText: boolean,
    name: string,
    args: unknown,
    context: ToolContext | undefined,
    options: DispatchOptions | undefined,
  ): Promise<R> {
    try {
      textOf(name, "a tool's name");
      if (context !== undefined && !(context instanceof ToolContext)) {
        throw new TypeError("the context of a dispatch is a ToolContext");
      }
      const metadata = this.#runtime.json(options?.metadata);
      const toolCallId = maybeTextOf(options?.toolCallId, "a tool call's id");
      const [text, value] = given(args);
      const signal = context?.given as SignalLike | undefined;
      if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
      const task = new Task(this.#runtime.number, name, places.getStore(), undefined, undefined, this);
      if (signal !== undefined) task.listen(signal);
      return begin<R>(task, (object) =>
        native.dispatch(
          object,
          this.#id,
          name,
          text === undefined ? put(value) : NO_PLACE,
          text,
          asText,
          currentNumber(),
          metadata,
          toolCallId,
          ...(contextParts(context) ?? []),
        ),
      );
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }
}

/** Returns arguments as text that the native half reads, or else as a value. */
function given(args: unknown): [string | undefined, unknown] {
  if (typeof args !== "string") return [undefined, args];
  if (!hasLoneSurrogate(args)) return [args, undefined];
  try {
    return [undefined, parseLoose(args)];
  } catch (error) {
    // What is no JSON the native half refuses.
    if (!(error instanceof Refused)) return [args, undefined];
    const isDeep = error.steps.length >= MAX_DEPTH;
    return wrongArgument(isDeep ? "$" : error.path(), error.why);
  }
}

interface Parts {
  name: string;
  run: (call: ToolCall, next: NextCall) => unknown;
  onRefused: ((call: ToolCall, refusal: CallweirError) => unknown) | undefined;
}

function partsOf(middleware: Middleware): Parts {
  if (typeof middleware === "function") {
    const { name, onRefused } = middleware;
    return { name: name || "middleware", run: middleware, onRefused: onRefused?.bind(middleware) };
  }
  if (typeof middleware !== "object" || middleware === null || typeof middleware.run !== "function") {
    throw new TypeError("a middleware is a function (call, next), or an object with a method run(call, next)");
  }
  return {
    name: middleware.name ?? middleware.constructor.name,
    run: middleware.run.bind(middleware),
    onRefused: middleware.onRefused?.bind(middleware),
  };
}
