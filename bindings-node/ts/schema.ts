/** What arguments look like: JSON Schema, or a schema of zod or another library that says what it accepts. */

import { checked, native } from "./native";
import { keyText } from "./value";

/** A JSON Schema. */
export type JsonSchema = boolean | { readonly [key: string]: unknown };

/** A schema of a validation library: the Standard Schema interface (https://standardschema.dev), which zod has. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema says that arguments are. */
export type ArgumentsOf<S> = S extends StandardSchema<any, infer Output> ? Output : FromSchema<S>;

type Simplify<T> = { [K in keyof T]: T[K] };

type Names<S> = S extends { readonly required: readonly (infer Name extends string)[] } ? Name : never;

type FromProperties<P, Required extends string> = Simplify<
  { -readonly [K in keyof P as K extends Required ? K : never]: FromSchema<P[K]> } & {
    -readonly [K in keyof P as K extends Required ? never : K]?: FromSchema<P[K]>;
  }
>;

type FromType<S, T> = T extends "string"
  ? string
  : T extends "number" | "integer"
    ? number
    : T extends "boolean"
      ? boolean
      : T extends "null"
        ? null
        : T extends "array"
          ? S extends { readonly items: infer Items }
            ? FromSchema<Items>[]
            : any[]
          : T extends "object"
            ? S extends { readonly properties: infer P }
              ? FromProperties<P, Names<S>>
              : S extends { readonly additionalProperties: infer Extra extends object }
                ? { [key: string]: FromSchema<Extra> }
                : { [key: string]: any }
            : any;

/** The type of what a JSON Schema describes; `any` where it says too little. */
export type FromSchema<S> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly anyOf: readonly (infer One)[] } | { readonly oneOf: readonly (infer One)[] }
      ? FromSchema<One>
      : S extends { readonly type: readonly (infer T)[] }
        ? FromType<S, T>
        : S extends { readonly type: infer T }
          ? FromType<S, T>
          : S extends { readonly properties: infer P }
            ? FromProperties<P, Names<S>>
            : any;

/** Says whether something is a schema of a validation library. */
export function isStandard(schema: unknown): schema is StandardSchema {
  // Schemas of some libraries are functions.
  return ((typeof schema === "object" && schema !== null) || typeof schema === "function") && "~standard" in schema;
}

/** Returns the JSON Schema of what a library's schema accepts. */
export function toJsonSchema(schema: StandardSchema): JsonSchema {
  const target = "draft-2020-12";
  const { vendor } = schema["~standard"];
  let made: JsonSchema | undefined;
  try {
    made = fromStandard(schema, target) ?? fromMethod(schema) ?? fromZod(schema);
  } catch (cause) {
    throw new TypeError(
      `the schema of ${vendor} has no form in JSON Schema (${(cause as Partial<Error> | null)?.message}): ` +
        "use a type that JSON has, such as `z.iso.date()` for a date, or give `parameters` as JSON Schema",
      { cause },
    );
  }
  if (made === undefined) {
    throw new TypeError(
      `the schema of ${vendor} cannot say itself as JSON Schema: ` +
        "give `parameters` as JSON Schema, or use zod 4",
    );
  }
  // What only describes the schema document itself is no use to a model.
  const { $schema: _, ...parameters } = made as Record<string, unknown>;
  return parameters;
}

type Convert = (options: object) => JsonSchema;

function fromStandard(schema: StandardSchema, target: string): JsonSchema | undefined {
  const { jsonSchema } = schema["~standard"] as { jsonSchema?: { input?: Convert } };
  return jsonSchema?.input?.({ target });
}

function fromMethod(schema: StandardSchema): JsonSchema | undefined {
  const { toJSONSchema } = schema as { toJSONSchema?: Convert };
  return typeof toJSONSchema === "function" ? toJSONSchema.call(schema, { io: "input" }) : undefined;
}

/** Asks the zod of the program, for versions of zod 4 whose schemas cannot say it themselves. */
function fromZod(schema: StandardSchema): JsonSchema | undefined {
  if (!("_zod" in schema)) return undefined;
  let zod: { toJSONSchema?: (schema: unknown, options: object) => JsonSchema };
  try {
    zod = require(require.resolve("zod", { paths: [process.cwd(), __dirname] })) as typeof zod;
  } catch {
    return undefined;
  }
  return zod.toJSONSchema?.(schema, { io: "input" });
}

/** Returns the arguments as a library's schema gives them; what it refuses is an error with the path. */
export function validate(schema: StandardSchema, args: unknown): unknown {
  const read = (result: StandardResult<unknown>) => {
    if (result.issues === undefined) return result.value;
    const [issue] = result.issues;
    return checked(native.argumentError(pathOf(issue), issue?.message ?? "the schema refuses it"));
  };
  const result = schema["~standard"].validate(args) as StandardResult<unknown> & PromiseLike<StandardResult<unknown>>;
  // A promise may be one of another realm, or of a library.
  return typeof result.then === "function" ? Promise.resolve(result).then(read) : read(result);
}

function pathOf(issue: StandardIssue | undefined): string {
  const steps = (issue?.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
  const shown = (step: PropertyKey) => (typeof step === "number" ? `[${step}]` : keyText(String(step)));
  return steps.reduce<string>((path, step) => path + shown(step), "$");
}
