// Tool middleware in one page: an audit log, a caller policy, a time limit and a concurrency limit.
//
// The tools work on a file of rows; two callers make five calls.

import { appendFile, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { tool, ToolCallDenied, ToolContext, ToolNotFound, ToolNotPermitted, ToolRegistry } from "callweir";

import { Checks, output } from "./checks.mjs";

/** What the five calls print, apart from how long they took. */
const EXPECTED = [
  "[audit] support-agent called inventory.lookup: succeeded in N ms",
  "7",
  "[audit] support-agent called billing.refund: " +
    "denied (caller 'support-agent' may not call billing.refund) in N ms",
  "denied: caller 'support-agent' may not call billing.refund",
  "[audit] billing-agent called billing.refund: succeeded in N ms",
  "refunded 40.00 on A-1001",
  "[audit] support-agent called inventory.recount: failed (TimeoutError) in N ms",
  "failed: inventory.recount took longer than 1 s",
  "[audit] support-agent called inventory.restock: not found in N ms",
  "Tool 'inventory.restock' was not found.",
];

/** Prints lines and keeps them, to compare them at the end. */
class Output {
  lines = [];

  line(text) {
    console.log(text);
    this.lines.push(text);
  }
}

/** Records who called which tool, the outcome and the time it took. */
class Audit {
  constructor(output) {
    this.output = output;
  }

  async run(call, next) {
    const started = performance.now();
    let outcome = "succeeded";
    try {
      return await next(call);
    } catch (error) {
      outcome = error instanceof ToolCallDenied ? `denied (${error.reason})` : `failed (${error.name})`;
      throw error;
    } finally {
      this.#write(call, outcome, performance.now() - started);
    }
  }

  /** Records a call to a tool that is not there. */
  onRefused(call, refusal) {
    this.#write(call, refusal instanceof ToolNotPermitted ? "not permitted" : "not found", 0);
  }

  #write(call, outcome, milliseconds) {
    const caller = call.context.callerId ?? "nobody";
    this.output.line(`[audit] ${caller} called ${call.name}: ${outcome} in ${Math.trunc(milliseconds)} ms`);
  }
}

/** Lets only named callers use certain tools. A middleware can be a function, too. */
function callerPolicy(allowed) {
  return async function policy(call, next) {
    const caller = call.context.callerId ?? "";
    const callers = allowed[call.name];
    if (callers !== undefined && !callers.includes(caller)) {
      throw new ToolCallDenied(call.name, `caller '${caller}' may not call ${call.name}`);
    }
    return next(call);
  };
}

/** Gives every call a time limit; a tool that is still running then is cancelled. */
class TimeLimit {
  constructor(milliseconds) {
    this.milliseconds = milliseconds;
  }

  async run(call, next) {
    const limit = AbortSignal.timeout(this.milliseconds);
    const { signal } = call.context;
    try {
      return await next(call.withCancellation(signal ? AbortSignal.any([signal, limit]) : limit));
    } catch (error) {
      if (error !== limit.reason) throw error;
      throw new DOMException(`${call.name} took longer than ${this.milliseconds / 1000} s`, "TimeoutError");
    }
  }
}

/** Lets at most so many calls through at once; the others wait for a slot. */
class ConcurrencyLimit {
  #waiting = [];

  constructor(calls) {
    this.free = calls;
  }

  async run(call, next) {
    if (this.free > 0) this.free -= 1;
    else await new Promise((resolve) => this.#waiting.push(resolve));
    try {
      return await next(call);
    } finally {
      // The slot goes to who has waited longest.
      const first = this.#waiting.shift();
      if (first) first();
      else this.free += 1;
    }
  }
}

/** The shop's database, a file with one row a line, and what the tools tell about how they ran. */
class Shop {
  recount = { started: false, cancelled: false, finished: false };
  mostAtOnce = 0;
  #running = 0;

  constructor(path) {
    this.path = path;
  }

  static async open(path) {
    const shop = new Shop(path);
    await shop.insert({ table: "stock", sku: "AB-12", units: 7 });
    await shop.insert({ table: "stock", sku: "CD-34", units: 0 });
    return shop;
  }

  insert(row) {
    return this.#query(() => appendFile(this.path, `${JSON.stringify(row)}\n`));
  }

  select(table) {
    return this.#query(async () => {
      const lines = (await readFile(this.path, "utf8")).trimEnd().split("\n");
      return lines.map((line) => JSON.parse(line)).filter((row) => row.table === table);
    });
  }

  /** Returns the units of a SKU in stock. */
  async units(sku) {
    const rows = await this.select("stock");
    return sum(rows.filter((row) => row.sku === sku).map((row) => row.units));
  }

  async #query(work) {
    this.#running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#running);
    try {
      return await work();
    } finally {
      this.#running -= 1;
    }
  }
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

const SKU = {
  type: "object",
  properties: { sku: { type: "string", description: "The article, such as AB-12." } },
  required: ["sku"],
};

const REFUND = {
  type: "object",
  properties: {
    orderId: { type: "string", description: "The order, such as A-1001." },
    amount: { type: "number", description: "How much, in dollars." },
  },
  required: ["orderId", "amount"],
};

/** Makes the tools of the stock-room. */
function inventory(shop) {
  const lookup = tool(
    {
      name: "inventory.lookup",
      description: "Looks up the units of a SKU in stock.",
      parameters: SKU,
      readOnly: true,
    },
    ({ sku }) => shop.units(sku),
  );

  const recount = tool(
    { name: "inventory.recount", description: "Counts the units of a SKU on the shelf.", parameters: SKU },
    async ({ sku }, { signal }) => {
      shop.recount.started = true;
      try {
        // Stands in for a slow call to the warehouse.
        await sleep(10_000, undefined, { signal });
      } catch (error) {
        shop.recount.cancelled = true;
        throw error;
      }
      shop.recount.finished = true;
      return shop.units(sku);
    },
  );

  return [lookup, recount];
}

/** Makes the tool of the cash desk. */
function billing(shop) {
  return tool(
    { name: "billing.refund", description: "Refunds an amount on an order.", parameters: REFUND },
    async ({ orderId, amount }) => {
      await shop.insert({ table: "refunds", orderId, amount });
      return `refunded ${amount.toFixed(2)} on ${orderId}`;
    },
  );
}

/** Makes a call and puts what came of it into words. */
async function ask(tools, name, args, context) {
  try {
    return String(JSON.parse(await tools.dispatchJson(name, args, context)).result);
  } catch (error) {
    if (error instanceof ToolCallDenied) return `denied: ${error.reason}`;
    if (error instanceof ToolNotFound) return error.message;
    if (error.name === "TimeoutError") return `failed: ${error.message}`;
    throw error;
  }
}

/** Makes the calls of the guide. */
async function fiveCalls(tools, written) {
  const support = new ToolContext({ callerId: "support-agent" });
  const billing = new ToolContext({ callerId: "billing-agent" });
  const refund = '{"orderId":"A-1001","amount":40}';
  for (const [name, args, context] of [
    ["inventory.lookup", '{"sku":"AB-12"}', support],
    ["billing.refund", refund, support],
    ["billing.refund", refund, billing],
    ["inventory.recount", '{"sku":"AB-12"}', support],
    ["inventory.restock", '{"sku":"AB-12"}', support],
  ]) {
    written.line(await ask(tools, name, args, context));
  }
}

/** Makes many calls at once through the same limit, and returns how many of them ran at once. */
async function crowd(shop, limit) {
  const tools = new ToolRegistry().register(...inventory(shop)).use(limit);
  const calls = Array.from({ length: 40 }, () => ask(tools, "inventory.lookup", '{"sku":"AB-12"}'));
  await Promise.all(calls);
  return shop.mostAtOnce;
}

/** Replaces how long a call took. */
function withoutTimes(line) {
  return line.replace(/^(\[audit\] .*) in \d+ ms$/, "$1 in N ms");
}

/** Runs the guide and checks it. */
async function main() {
  const shop = await Shop.open(output("guide-node.jsonl"));
  const written = new Output();
  const limit = new ConcurrencyLimit(4);
  const policy = callerPolicy({ "billing.refund": ["billing-agent"] });
  const tools = new ToolRegistry()
    .register(...inventory(shop), billing(shop))
    .use(new Audit(written), policy, new TimeLimit(1000), limit);

  const started = performance.now();
  await fiveCalls(tools, written);
  const took = performance.now() - started;

  const checks = new Checks();
  checks.equal("the five calls print what the guide says", EXPECTED, written.lines.map(withoutTimes));
  const stopped = { started: true, cancelled: true, finished: false };
  checks.equal("the recount started, was cancelled, and did not finish", stopped, shop.recount);
  checks.check("the recount was not waited for", took > 990 && took < 5000);
  checks.equal("the stopped call gave its slot back", 4, limit.free);
  checks.equal("of many calls at once four run", 4, await crowd(shop, limit));
  const refunds = await shop.select("refunds");
  const found = [refunds.length, sum(refunds.map((row) => row.amount))];
  checks.equal("the database holds the one refund", [1, 40], found);
  return checks.exitCode;
}

process.exitCode = await main();
