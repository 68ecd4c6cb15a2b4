// Replays a hundred recorded runs of an airline support agent.
//
// Every tool call of theirs goes through a registry, under one scope for each run.
// The events go to a file that must not hold private data.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";

import {
  CallRejected,
  exporters,
  guardrails,
  scope,
  shutdown,
  tool,
  ToolContext,
  ToolRegistry,
} from "callweir";

import { Checks, output, TESTS } from "./checks.mjs";

const EMAIL = /[\w.+-]+@[\w-]+\.[\w.]+/g;
const NO_EMAIL = "<e-mail>";
const NO_DATE = "<date of birth>";
/** Dollars that a certificate may be worth without a person who agrees. */
const CERTIFICATE_LIMIT = 100;

/** Reads a run, and pairs each call with the tool message after it: an id may occur twice in one run. */
function readRun(line) {
  const { task, trial, messages } = JSON.parse(line);
  const calls = messages.flatMap((message, index) =>
    (message.tool_calls ?? []).map((call, place) => {
      const answer = messages[index + 1 + place];
      return {
        id: call.id,
        name: call.function.name,
        arguments: call.function.arguments,
        result: (answer?.role === "tool" && answer.content) || "",
      };
    }),
  );
  return { task, trial, calls };
}

/** Reads a file of recorded input. */
function readData(name) {
  return readFileSync(join(TESTS, "data", name), "utf8");
}

/** Splits a text into its lines. */
function linesOf(text) {
  return text.trimEnd().split("\n");
}

/** Numbers of things, by kind; a kind that never came has 0. */
class Counts {
  #counts = new Map();

  add(kind) {
    this.#counts.set(kind, this.of(kind) + 1);
  }

  of(kind) {
    return this.#counts.get(kind) ?? 0;
  }

  total() {
    return [...this.#counts.values()].reduce((total, count) => total + count, 0);
  }

  /** Gives kinds and counts in the order of the kinds. */
  sorted() {
    return [...this.#counts].sort(([one], [other]) => (one < other ? -1 : 1));
  }
}

/** Counts the calls that reached a tool, by tool and outcome. */
class Audit {
  counts = new Counts();

  async run(call, next) {
    let outcome = "failed";
    try {
      const result = await next(call);
      outcome = "succeeded";
      return result;
    } finally {
      this.counts.add(`${call.name} ${outcome}`);
    }
  }
}

/** Makes the fourteen tools; each answers with the recorded result that the call's context carries. */
function makeTools(audit) {
  const made = JSON.parse(readData("airline_tools.json")).map(({ read_only: readOnly, ...spec }) =>
    tool({ ...spec, readOnly }, (_, context) => context.metadata),
  );
  return new ToolRegistry().register(...made).use(audit);
}

/** Rejects certificates that are worth too much. */
function certificateLimit(name, { amount }) {
  if (name !== "send_certificate") return undefined;
  if (typeof amount === "number" && amount <= CERTIFICATE_LIMIT) return undefined;
  return `a certificate over ${CERTIFICATE_LIMIT} dollars needs a person`;
}

/** Reads JSON text; undefined where it is none. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value) {
  return typeof value === "object" && value !== null;
}

/** Masks e-mail addresses and dates of birth, also inside text that holds JSON. */
function masked(value) {
  if (typeof value === "string") {
    const inner = parsed(value);
    return isObject(inner) ? JSON.stringify(masked(inner)) : value.replaceAll(EMAIL, NO_EMAIL);
  }
  if (Array.isArray(value)) return value.map(masked);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, key === "dob" ? NO_DATE : masked(item)]);
  return Object.fromEntries(entries);
}

/** Masks the copy of a payload that observers see. */
function sanitize(_, copy) {
  return masked(copy);
}

/** Makes every recorded call again, and tells what became of the calls as their callers saw it. */
async function replay(runs, registry) {
  const tally = { outcomes: new Counts(), unchanged: 0 };
  for (const { task, trial, calls } of runs) {
    await scope.scope("airline support", { type: "agent", input: { task, trial } }, async (handle) => {
      for (const call of calls) await one(call, registry, tally);
      handle.setOutput({ calls: calls.length });
    });
  }
  return tally;
}

/** Makes one recorded call. */
async function one(call, registry, tally) {
  const context = new ToolContext({ callerId: "airline-agent", metadata: call.result });
  try {
    const result = await registry.dispatch(call.name, call.arguments, context, { toolCallId: call.id });
    tally.outcomes.add("succeeded");
    tally.unchanged += result === call.result ? 1 : 0;
  } catch (error) {
    tally.outcomes.add(error instanceof CallRejected ? "rejected" : "failed");
  }
}

/** Lists the calls of all runs. */
function everyCall(runs) {
  return runs.flatMap((run) => run.calls);
}

/** Lists the private values in what was recorded for the calls, each as often as it occurs. */
function privateValues(runs) {
  const texts = everyCall(runs).flatMap((call) => [call.arguments, call.result]);
  return {
    emails: texts.flatMap((text) => text.match(EMAIL) ?? []),
    // Not every result is JSON.
    dates: texts.flatMap((text) => datesIn(parsed(text))),
  };
}

function datesIn(value) {
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const own = key === "dob" && typeof item === "string" ? [item] : [];
    return [...own, ...datesIn(item)];
  });
}

/** Checks that the event file holds nothing private. */
function checkPrivacy(checks, text, { emails, dates }) {
  checks.equal("the event file holds no e-mail address", null, text.match(EMAIL));
  const leaked = [...emails, ...dates].find((value) => text.includes(value));
  checks.equal("the event file holds no private value of the recording", undefined, leaked);
  const counts = [emails.length, dates.length];
  const masks = [NO_EMAIL, NO_DATE].map((mask) => text.split(mask).length - 1);
  checks.equal("all of them are masked", counts, masks);
  checks.check("there was something to mask", emails.length > 0 && dates.length > 0);
}

/** What the event file says: events by kind, scopes that do not pair up, events that lie in no run. */
class Summary {
  counts = new Counts();
  unpaired = 0;
  astray = 0;
  #open = new Map();
  #runs = new Set();

  constructor(lines) {
    for (const line of lines) this.#add(JSON.parse(line));
    this.unpaired += [...this.#open.values()].filter((count) => count !== 0).length;
  }

  #add({ scope_category: phase, category, uuid, parent_uuid: parent, metadata }) {
    if (phase === "start") {
      this.counts.add(`${category} start`);
      this.#open.set(uuid, (this.#open.get(uuid) ?? 0) + 1);
    } else if (phase === "end") {
      this.counts.add(`${category} ${metadata["callweir.outcome"]}`);
      // An end before its start never becomes right again.
      if (this.#open.get(uuid) === 1) this.#open.set(uuid, 0);
      else this.unpaired += 1;
    } else {
      this.counts.add(`mark ${metadata?.["callweir.mark"]}`);
    }
    if (category === "agent") this.#runs.add(uuid);
    else this.astray += this.#runs.has(parent) ? 0 : 1;
  }
}

/** Checks that callers, audit log and event file agree about what happened. */
function checkCounts(checks, text, runs, tally, audit) {
  const lines = linesOf(text);
  const summary = new Summary(lines);
  const asked = everyCall(runs).length;
  const [succeeded, rejected] = ["succeeded", "rejected"].map((outcome) => tally.outcomes.of(outcome));
  checks.equal("starts and ends pair up", 0, summary.unpaired);
  checks.equal("everything lies in the scope of its run", 0, summary.astray);
  checks.equal("every call was dispatched", asked, tally.outcomes.total());
  checks.equal("every call succeeded or was rejected", asked, succeeded + rejected);
  checks.equal("callers got the recorded results unchanged", succeeded, tally.unchanged);
  checks.equal("the file has the calls that started", succeeded, summary.counts.of("tool start"));
  checks.equal("the file has the calls that succeeded", succeeded, summary.counts.of("tool succeeded"));
  checks.equal("the file has the rejections", rejected, summary.counts.of("mark rejection"));
  checks.equal("the audit log has the calls that ran", succeeded, audit.counts.total());
  const big = everyCall(runs).filter(isBigCertificate).length;
  checks.equal("the guardrail rejected the big certificates", big, rejected);
  checks.check("there was something to reject", big > 0);
  checks.equal("the guardrail was asked about every call", asked, summary.counts.of("guardrail start"));
  checks.equal("every run has its scope", runs.length, summary.counts.of("agent succeeded"));
  const expected = 2 * (asked + succeeded + runs.length) + rejected;
  checks.equal("nothing else is in the file", expected, lines.length);
}

/** Says whether a recorded call sent a certificate over the limit. */
function isBigCertificate(call) {
  return call.name === "send_certificate" && JSON.parse(call.arguments).amount > CERTIFICATE_LIMIT;
}

/** Prints what happened. */
function report(runs, tally, audit, milliseconds, path) {
  for (const [kind, count] of audit.counts.sorted()) {
    const [name, outcome] = kind.split(" ");
    console.log(`[audit] ${String(count).padStart(4)} ${outcome}: ${name}`);
  }
  const calls = tally.outcomes.total();
  const outcomes = tally.outcomes.sorted().map(([outcome, count]) => `'${outcome}': ${count}`);
  console.log(`${calls} calls of ${runs.length} runs: {${outcomes.join(", ")}}`);
  console.log(`${((calls * 1000) / milliseconds).toFixed()} calls per second`);
  console.log(`events: target/demo/${basename(path)}`);
}

/** Replays the recording and checks what became of it. */
async function main() {
  const runs = linesOf(readData("airline.jsonl")).map(readRun);
  const path = output("airline-node.jsonl");
  const audit = new Audit();
  exporters.jsonl(path);
  guardrails.registerToolConditionalExecution("certificate_limit", 0, certificateLimit);
  guardrails.registerToolSanitizeRequest("privacy", 0, sanitize);
  guardrails.registerToolSanitizeResponse("privacy", 0, sanitize);

  const started = performance.now();
  const tally = await replay(runs, makeTools(audit));
  const took = performance.now() - started;
  const pending = await shutdown(10_000);
  report(runs, tally, audit, took, path);

  const checks = new Checks();
  const text = readFileSync(path, "utf8");
  checks.equal("every event was delivered", 0, pending);
  checkPrivacy(checks, text, privateValues(runs));
  checkCounts(checks, text, runs, tally, audit);
  return checks.exitCode;
}

process.exitCode = await main();
