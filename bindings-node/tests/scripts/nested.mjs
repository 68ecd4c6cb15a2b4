/** A managed call inside a tool, with a guardrail that counts; prints whether the parent is right. */

import { guardrails, subscribers, tools } from "callweir";

let asked = 0;
const events = [];
guardrails.registerToolConditionalExecution("g", 0, async () => void (asked += 1));
subscribers.register("s", (event) => void events.push(event));
const inner = async (args) => args.n + 1;
const outer = async (args) => tools.execute("inner", { n: args.n }, inner);
const result = await tools.execute("outer", { n: 1 }, outer);
await subscribers.flush();
const start = (name) => events.find((event) => event.name === name && event.scope_category === "start");
console.log(result, asked, start("inner").parent_uuid === start("outer").uuid);
