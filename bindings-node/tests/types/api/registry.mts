/** The registry, middleware, and the calls and contexts that they get. */

import {
  type Awaitable,
  type CallweirError,
  type Descriptor,
  type DispatchOptions,
  type Middleware,
  type MiddlewareFunction,
  type MiddlewareObject,
  type NextCall,
  type Provider,
  type Registration,
  Runtime,
  type ScopeHandle,
  type Signal,
  type Tool,
  tool,
  ToolCall,
  ToolCallDenied,
  type ToolCallOptions,
  ToolContext,
  type ToolContextOptions,
  ToolRegistry,
} from "callweir";

import { type Equal, expect, type Members, type Own } from "./equal.mjs";

type Plain = (args: any, context: ToolContext) => unknown;

export function registries(): void {
  type Options = DispatchOptions;
  type All = {
    middleware: () => Middleware[];
    descriptors: () => Descriptor[];
    descriptorOf: (name: string) => Descriptor | undefined;
    subset: (names: Iterable<string>) => ToolRegistry;
    manifest: (provider?: Provider) => any;
    explain: (name: string, options?: { scope?: ScopeHandle | undefined }) => Registration[];
    dispatch: <R = any>(name: string, args: unknown, context?: ToolContext, options?: Options) => Promise<R>;
    dispatchJson: (name: string, args: unknown, context?: ToolContext, options?: Options) => Promise<string>;
  };
  expect<Equal<Members<Omit<ToolRegistry, "register" | "use">>, All>>();
  expect<Equal<Parameters<ToolRegistry["register"]>, (Tool | ToolRegistry | Plain)[]>>();
  expect<Equal<Parameters<ToolRegistry["use"]>, Middleware[]>>();
  type Given = ConstructorParameters<typeof ToolRegistry>;
  expect<Equal<Given, [options?: { runtime?: Runtime | undefined }]>>();
}

export function registeringGoesOn(): void {
  const made = new ToolRegistry({ runtime: Runtime.default() })
    .register(
      tool({ name: "a" }, (args: { n: number }) => args.n),
      new ToolRegistry(),
      function plain(args: { text: string }, context: ToolContext) {
        return `${args.text} for ${context.callerId}`;
      },
    )
    .use((call, next) => next(call));
  expect<Equal<typeof made, ToolRegistry>>();
  class Mine extends ToolRegistry {
    readonly mine = true;
  }
  expect<Equal<ReturnType<Mine["register"]>, Mine>>();
  const mine = new Mine().register().use();
  expect<Equal<typeof mine, Mine>>();
  // @ts-expect-error -- a name is no tool
  made.register("a");
  // @ts-expect-error -- a middleware of an object has `run`
  made.use({});
}

export function dispatchGivesWhatIsAskedFor(): void {
  const registry = new ToolRegistry();
  const any = registry.dispatch("a", {});
  expect<Equal<typeof any, Promise<any>>>();
  const typed = registry.dispatch<number>("a", '{"n":1}', new ToolContext(), { toolCallId: "c" });
  expect<Equal<typeof typed, Promise<number>>>();
  const text = registry.dispatchJson("a", { n: 1 });
  expect<Equal<typeof text, Promise<string>>>();
  // @ts-expect-error -- a context is made with `new`
  void registry.dispatch("a", {}, { callerId: "c" });
  // @ts-expect-error -- a deadline is one of the context
  void registry.dispatch("a", {}, undefined, { deadline: 1 });
}

export function dispatchOptions(): void {
  expect<Equal<Members<DispatchOptions>, { metadata?: unknown; toolCallId?: string | undefined }>>();
}

export function providers(): void {
  type All = "openai_chat" | "openai_responses" | "anthropic" | "gemini" | "mcp";
  expect<Equal<Provider, All>>();
  // @ts-expect-error -- there is no such provider
  new ToolRegistry().manifest("openai");
}

export function subsets(): void {
  const names: ReadonlySet<string> = new Set(["a"]);
  expect<Equal<ReturnType<ToolRegistry["subset"]>, ToolRegistry>>();
  new ToolRegistry().subset(names);
  // @ts-expect-error -- names are texts
  new ToolRegistry().subset([1]);
}

type Refused = (call: ToolCall, refusal: CallweirError) => Awaitable<void>;

export function middleware(): void {
  expect<Equal<NextCall, (call?: ToolCall) => Promise<any>>>();
  expect<Equal<Middleware, MiddlewareFunction | MiddlewareObject>>();
  expect<Equal<Members<MiddlewareFunction>, { onRefused?: Refused | undefined }>>();
  expect<Equal<Parameters<MiddlewareFunction>, [call: ToolCall, next: NextCall]>>();
  expect<Equal<ReturnType<MiddlewareFunction>, Awaitable<unknown>>>();
  expect<
    Equal<
      Members<MiddlewareObject>,
      {
        readonly name?: string | undefined;
        run: (call: ToolCall, next: NextCall) => Awaitable<unknown>;
        onRefused?: Refused;
      }
    >
  >();
}

export function middlewareInAllItsForms(): void {
  class Audit {
    async run(call: ToolCall<{ n: number }>, next: NextCall): Promise<number> {
      return (await next(call.withArguments({ n: 1 }))) as number;
    }
    onRefused(_: ToolCall, { code }: CallweirError): void {
      console.log(code);
    }
  }
  const limited = Object.assign((call: ToolCall, next: NextCall) => next(call), {
    onRefused: async (call: ToolCall) => console.log(call.name),
  });
  const refusing: Middleware = (call) => new ToolCallDenied(call.name, "never");
  new ToolRegistry().use(new Audit(), limited, refusing, { name: "m", run: (_, next) => next() });
  new ToolRegistry().use(async ({ name, context }, next) => {
    expect<Equal<[typeof name, typeof context, typeof next], [string, ToolContext, NextCall]>>();
    return await next();
  });
  // @ts-expect-error -- `next` takes a call, not its arguments
  new ToolRegistry().use((_, next) => next({ n: 1 }));
}

export function contexts(): void {
  expect<
    Equal<
      Members<ToolContextOptions>,
      {
        callerId?: string | undefined;
        metadata?: any;
        signal?: Signal | undefined;
        deadline?: number | undefined;
      }
    >
  >();
  expect<
    Equal<
      Members<ToolContext>,
      {
        readonly callerId: string | undefined;
        readonly metadata: any;
        readonly signal: Signal;
        readonly deadline: number | undefined;
        withCallerId: (callerId: string) => ToolContext;
        withMetadata: (metadata: unknown) => ToolContext;
        withCancellation: (signal: Signal) => ToolContext;
        withDeadline: (deadline: number) => ToolContext;
      }
    >
  >();
  expect<Equal<ConstructorParameters<typeof ToolContext>, [options?: ToolContextOptions]>>();
  // @ts-expect-error -- contexts are immutable
  new ToolContext().callerId = "c";
}

export function calls(): void {
  type Base = { name: string; context?: ToolContext | undefined; descriptor?: Descriptor | undefined };
  expect<Equal<Own<ToolCallOptions<1>, Base>, { arguments: 1 }>>();
  expect<Equal<Pick<ToolCallOptions<1>, keyof Base>, Base>>();
  expect<
    Equal<
      Members<ToolCall<1>>,
      {
        readonly name: string;
        readonly arguments: 1;
        readonly context: ToolContext;
        readonly descriptor: Descriptor | undefined;
        withArguments: (args: 1) => ToolCall<1>;
        withContext: (context: ToolContext) => ToolCall<1>;
        withCancellation: (signal: Signal) => ToolCall<1>;
      }
    >
  >();
  expect<Equal<[ToolCall, ToolCallOptions], [ToolCall<any>, ToolCallOptions<any>]>>();
  const call = new ToolCall({ name: "t", arguments: { n: 1 } });
  expect<Equal<typeof call, ToolCall<{ n: number }>>>();
  // @ts-expect-error -- these are arguments of another type
  call.withArguments({ n: "1" });
  // @ts-expect-error -- a call has arguments
  void new ToolCall({ name: "t" });
}
