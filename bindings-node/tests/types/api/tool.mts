/** Tools: what their schemas say about their arguments. */

import {
  type ArgumentsOf,
  type Descriptor,
  type FromSchema,
  type JsonSchema,
  type StandardSchema,
  Tool,
  tool,
  type ToolContext,
  type ToolOptions,
} from "callweir";
import * as zod from "zod";
import * as mini from "zod/mini";

import { type Equal, expect, type Members } from "./equal.mjs";

export function requiredAndOptionalArguments(): void {
  const made = tool(
    {
      name: "refund",
      parameters: {
        type: "object",
        properties: { order: { type: "string" }, amount: { type: "number" }, times: { type: "integer" } },
        required: ["order", "times"],
        additionalProperties: false,
      },
    },
    (args, context) => {
      expect<Equal<typeof args, { order: string; times: number; amount?: number }>>();
      expect<Equal<typeof context, ToolContext>>();
      // @ts-expect-error -- it may be left out
      void args.amount.toFixed();
      return args.order;
    },
  );
  expect<Equal<typeof made, Tool<{ order: string; times: number; amount?: number }, string>>>();
}

export function nestedArguments(): void {
  const made = tool(
    {
      name: "order",
      parameters: {
        type: "object",
        properties: {
          lines: {
            type: "array",
            items: {
              type: "object",
              properties: { sku: { type: "string" }, tags: { type: "array", items: { type: "string" } } },
              required: ["sku"],
            },
          },
          size: { enum: ["s", "m", 3, null] },
          kind: { const: "gift" },
          note: { type: ["string", "null"] },
          of: { anyOf: [{ type: "boolean" }, { type: "array" }] },
          one: { oneOf: [{ type: "number" }, { const: "all" }] },
          prices: { type: "object", additionalProperties: { type: "number" } },
          free: { type: "object" },
          nothing: { type: "null" },
        },
        required: ["lines", "size", "kind", "note", "of", "one", "prices", "free", "nothing"],
      },
    },
    async (args) => args,
  );
  type Wanted = {
    lines: { sku: string; tags?: string[] }[];
    size: "s" | "m" | 3 | null;
    kind: "gift";
    note: string | null;
    of: boolean | any[];
    one: number | "all";
    prices: { [key: string]: number };
    free: { [key: string]: any };
    nothing: null;
  };
  expect<Equal<Parameters<typeof made.execute>[0], Wanted>>();
  expect<Equal<ReturnType<typeof made.execute>, Promise<Wanted>>>();
}

export function fromSchema(): void {
  expect<Equal<FromSchema<{ type: "string" }>, string>>();
  expect<Equal<FromSchema<{ properties: { a: { type: "boolean" } } }>, { a?: boolean }>>();
  expect<Equal<FromSchema<{ properties: { a: true; b: {} }; required: ["a", "c"] }>, { a: any; b?: any }>>();
  expect<Equal<FromSchema<{ type: "array"; items: { enum: [1, 2] } }>, (1 | 2)[]>>();
  // What says too little is anything.
  expect<Equal<[FromSchema<true>, FromSchema<{}>, FromSchema<{ $ref: "#/x" }>], [any, any, any]>>();
  expect<Equal<FromSchema<JsonSchema>, any>>();
}

const written = { type: "object", properties: { a: { type: "string" } }, required: ["a"] } as const;

export function schemasThatAreNotWrittenInPlace(schema: JsonSchema, read: Record<string, unknown>): void {
  const made = tool({ name: "a", parameters: written }, ({ a }) => a);
  expect<Equal<typeof made, Tool<{ a: string }, string>>>();
  tool({ name: "a", parameters: schema }, (args) => {
    expect<Equal<typeof args, any>>();
  });
  tool({ name: "a", parameters: read }, (args: { n: number }) => args.n);
  expect<Equal<JsonSchema, boolean | { readonly [key: string]: unknown }>>();
  // @ts-expect-error -- a schema is an object or a boolean
  tool({ name: "a", parameters: "object" }, () => 1);
}

export function argumentsOfZodAreWhatItGives(): void {
  const schema = zod.object({
    order: zod.string(),
    amount: zod.number().default(1),
    when: zod.string().transform((text) => new Date(text)),
    note: zod.string().optional(),
  });
  const made = tool({ name: "refund", parameters: schema }, async (args) => args);
  type Wanted = { order: string; amount: number; when: Date; note?: string | undefined };
  expect<Equal<Parameters<typeof made.execute>[0], Wanted>>();
  expect<Equal<ArgumentsOf<typeof schema>, zod.output<typeof schema>>>();
  expect<Equal<ReturnType<typeof made.executeWith>, Promise<Wanted>>>();
  tool({ name: "refund", parameters: schema }, ({ amount, when }) => amount.toFixed() + when.toISOString());
}

export function otherLibrariesAreWelcome(): void {
  const small = mini.object({ n: mini.optional(mini.number()) });
  const made = tool({ name: "a", parameters: small }, (args) => args.n);
  expect<Equal<typeof made, Tool<{ n?: number | undefined }, number | undefined>>>();
  type Own = StandardSchema<{ n?: number }, { n: number }>;
  expect<Equal<ArgumentsOf<Own>, { n: number }>>();
  expect<Equal<ArgumentsOf<{ type: "integer" }>, number>>();
  type Types = { readonly input: { n?: number }; readonly output: { n: number } };
  expect<Equal<Own["~standard"]["types"], Types | undefined>>();
  expect<Equal<StandardSchema, StandardSchema<unknown, unknown>>>();
  const foreign = (schema: Own) => tool({ name: "a", parameters: schema }, ({ n }) => n);
  expect<Equal<ReturnType<typeof foreign>, Tool<{ n: number }, number>>>();
}

export function toolsWithoutSchema(): void {
  const plain = tool(async function lookUp(args: { name: string }, context: ToolContext) {
    return `${args.name} ${context.callerId}`;
  });
  expect<Equal<typeof plain, Tool<{ name: string }, Promise<string>>>>();
  const flags = { readOnly: true, idempotent: false };
  const named = tool({ name: "n", description: "d", ...flags }, (args: number[]) => args);
  expect<Equal<typeof named, Tool<number[], number[]>>>();
  const untyped = tool({ name: "n" }, (args) => {
    expect<Equal<typeof args, any>>();
    return 1 as number;
  });
  expect<Equal<typeof untyped, Tool<any, number>>>();
  const nothing = tool(() => {});
  expect<Equal<ReturnType<typeof nothing.executeWith>, void>>();
  // @ts-expect-error -- there is no function
  tool({ name: "n" });
  // @ts-expect-error -- there is no such option
  tool({ name: "n", blocking: true }, () => 1);
  // @ts-expect-error -- a tool gets its arguments and a context
  tool((args: number, context: ToolContext, more: number) => [args, context, more]);
}

export function argumentsThatDoNotFit(): void {
  // @ts-expect-error -- the schema says that it is a text
  tool({ name: "a", parameters: written }, (args: { a: number }) => args.a);
  // @ts-expect-error -- the schema says that it is a text
  tool({ name: "a", parameters: zod.object({ a: zod.string() }) }, (args: { a: number }) => args.a);
}

export function toolMembers(): void {
  expect<
    Equal<
      Members<Tool<1, 2>>,
      {
        readonly descriptor: Descriptor;
        readonly execute: (args: 1, context: ToolContext) => 2;
        readonly name: string;
        executeWith: (args: unknown, context?: ToolContext) => 2;
      }
    >
  >();
  expect<Equal<Tool, Tool<any, any>>>();
  // @ts-expect-error -- `tool` makes them
  void new Tool({}, () => 1);
}

export function descriptors(): void {
  expect<
    Equal<
      Members<Descriptor>,
      {
        readonly name: string;
        readonly description: string;
        readonly parameters: JsonSchema;
        readonly readOnly: boolean;
        readonly idempotent: boolean;
      }
    >
  >();
}

export function toolOptions(): void {
  expect<
    Equal<
      Members<ToolOptions<1>>,
      {
        name?: string | undefined;
        description?: string | undefined;
        parameters?: 1 | undefined;
        readOnly?: boolean | undefined;
        idempotent?: boolean | undefined;
      }
    >
  >();
  expect<Equal<ToolOptions, ToolOptions<JsonSchema | StandardSchema>>>();
}
