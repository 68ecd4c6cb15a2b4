/** Uses the package by its names, and nothing else of its surroundings. */

import {
  type AtofEvent,
  CallRejected,
  export as exporting,
  forModel,
  guardrails,
  type Middleware,
  scope,
  subscribers,
  tool,
  ToolCallDenied,
  ToolContext,
  ToolRegistry,
  tools,
} from "callweir";

const refund = tool(
  {
    name: "refund",
    parameters: {
      type: "object",
      properties: { order: { type: "string" }, amount: { type: "number" } },
      required: ["order"],
    },
  },
  async ({ order, amount }) => `refunded ${(amount ?? 0).toFixed(2)} on ${order.toUpperCase()}`,
);

const policy: Middleware = async (call, next) => {
  if (call.context.callerId !== "billing") throw new ToolCallDenied(call.name, "only billing may refund");
  return next(call.withArguments({ ...call.arguments, amount: 1 }));
};

export async function run(): Promise<string> {
  const registry = new ToolRegistry().register(refund).use(policy);
  guardrails.registerToolConditionalExecution("limit", 0, (name, args) =>
    args.amount > 100 ? `${name} is limited` : undefined,
  );
  const seen: AtofEvent[] = [];
  subscribers.register("seen", (event) => void seen.push(event));
  exporting.jsonl("events.jsonl");
  try {
    const result: string = await registry.dispatch("refund", { order: "A-1" }, new ToolContext());
    const length: number = await tools.execute("length", { text: result }, async ({ text }) => text.length);
    return await scope.scope("work", "agent", async (handle) => `${handle.name}${length}`);
  } catch (error) {
    return error instanceof CallRejected ? `${error.by}: ${error.reason}` : forModel(error);
  }
}
