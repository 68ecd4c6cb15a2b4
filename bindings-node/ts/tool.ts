/** Tools: functions with a name, a description and a schema. */

import { ToolContext } from "./context";
import { functionOf, jsonText, textOf } from "./convert";
import { checked, native, put, putWeak } from "./native";
import { type ArgumentsOf, isStandard, type JsonSchema, type StandardSchema, toJsonSchema, validate } from "./schema";

/** What a registry tells about a tool. */
export interface Descriptor {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the arguments, an object. */
  readonly parameters: JsonSchema;
  /** Whether the tool changes nothing. */
  readonly readOnly: boolean;
  /** Whether running it twice is as good as once. */
  readonly idempotent: boolean;
}

/** How a tool is defined. */
export interface ToolOptions<S = JsonSchema | StandardSchema> {
  /** The name; the function's own if absent. */
  name?: string | undefined;
  /** What the tool does, for the model. */
  description?: string | undefined;
  /** A JSON Schema of an object, or a schema of zod; any object if absent. */
  parameters?: S | undefined;
  /** Whether the tool changes nothing. */
  readOnly?: boolean | undefined;
  /** Whether running it twice is as good as once. */
  idempotent?: boolean | undefined;
}

/** A function that a registry can hold. */
export class Tool<A = any, R = any> {
  /** What a registry tells about it. */
  readonly descriptor: Descriptor;
  /** The function that the program wrote. */
  readonly execute: (args: A, context: ToolContext) => R;
  /** Calls the function with what the schema makes of the arguments. @internal */
  readonly call: (args: any, context: ToolContext) => unknown;
  readonly #parameters: string;

  private constructor(options: ToolOptions<any>, fn: (args: A, context: ToolContext) => R) {
    this.execute = functionOf(fn, "a tool's function");
    const { parameters = { type: "object" } } = options;
    const schema: unknown = parameters;
    this.descriptor = Object.freeze({
      name: textOf(options.name ?? fn.name, "a tool's name"),
      description: textOf(options.description ?? "", "a tool's description"),
      parameters: isStandard(schema) ? toJsonSchema(schema) : (parameters as JsonSchema),
      readOnly: options.readOnly ?? false,
      idempotent: options.idempotent ?? false,
    });
    this.#parameters = jsonText(this.descriptor.parameters) ?? "null";
    this.call = isStandard(schema) ? this.#validating(schema) : (this.execute as typeof this.call);
  }

  /** @internal */
  static of<A, R>(options: ToolOptions<any>, fn: (args: A, context: ToolContext) => R): Tool<A, R> {
    return new Tool(options, fn);
  }

  /** The tool's name. */
  get name(): string {
    return this.descriptor.name;
  }

  #validating(schema: StandardSchema): (args: unknown, context: ToolContext) => unknown {
    return (args, context) => {
      const read = validate(schema, args);
      return read instanceof Promise
        ? read.then((args: A) => this.execute(args, context))
        : this.execute(read as A, context);
    };
  }

  /**
   * Runs the tool directly: no middleware, not a managed call.
   *
   * A missing or unexpected argument is `InvalidArgument`, and so is what a schema of zod refuses.
   */
  executeWith(args: unknown, context?: ToolContext): R {
    checked(native.checkArguments(this.#parameters, put(args)));
    return this.call(args, context ?? new ToolContext()) as R;
  }

  /** Describes the tool for the native half, which takes over the function's place; the tool keeps the function. @internal */
  described(): object {
    const { name, description, readOnly, idempotent } = this.descriptor;
    const parameters = JSON.parse(this.#parameters) as unknown;
    return { function: putWeak(this.call), name, description, parameters, readOnly, idempotent };
  }
}

/**
 * Makes a tool of a function. Its arguments are typed from `parameters`: a JSON Schema or a schema of zod.
 *
 * With a schema of zod the arguments are what the schema gives: checked, and with its defaults.
 */
export function tool<const S extends JsonSchema | StandardSchema, R>(
  options: ToolOptions<S> & { parameters: S },
  fn: (args: ArgumentsOf<S>, context: ToolContext) => R,
): Tool<ArgumentsOf<S>, R>;
export function tool<A = any, R = any>(
  options: ToolOptions<undefined>,
  fn: (args: A, context: ToolContext) => R,
): Tool<A, R>;
export function tool<A = any, R = any>(fn: (args: A, context: ToolContext) => R): Tool<A, R>;
export function tool(
  options: ToolOptions<any> | ((args: any, context: ToolContext) => unknown),
  fn?: (args: any, context: ToolContext) => unknown,
): Tool {
  return typeof options === "function" ? Tool.of({}, options) : Tool.of(options, functionOf(fn!, "a tool's function"));
}
