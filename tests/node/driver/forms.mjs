/** How results, errors, contexts and call records appear in a trace. */

import { CallweirError, Cancelled, forModel } from "callweir";

import { HostCancelled } from "./world.mjs";

/** The fields of errors that have some, by kind: the name in a trace, and the property where that differs. */
const FIELDS = {
  ToolCallDenied: [["tool"], ["reason"]],
  CallRejected: [["name", "targetName"], ["reason"], ["by"]],
  ToolNotFound: [["tool"]],
  ToolNotPermitted: [["tool"]],
  ToolCallFailed: [["tool"], ["type"]],
  AlreadyExists: [["name", "targetName"]],
  NotFound: [["name", "targetName"]],
  NotJson: [["path"]],
  InvalidArgument: [["path"]],
  InvalidReturn: [["family"], ["entry"]],
  InvalidConfig: [["path"]],
  Codec: [["path"]],
  Plugin: [["component"]],
};

/** Shows a result; a value that JSON cannot hold is shown by its path. */
export function shown(value) {
  const path = oddPath(value, "$");
  if (path !== undefined) return { not_json: path };
  return value === undefined ? null : value;
}

function oddPath(value, path) {
  if (typeof value === "number" && !Number.isFinite(value)) return path;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const odd = oddPath(item, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`);
    if (odd !== undefined) return odd;
  }
  return undefined;
}

/** Shows an error the same way in every language: no message of Callweir's own, no type of the host's. */
export function errorForm(world, error) {
  if (error instanceof HostCancelled) return { kind: "HostCancelled" };
  const model = JSON.parse(forModel(error));
  if (!(error instanceof CallweirError)) {
    // The very object that was raised, not one that looks like it.
    const kind = world.raised.includes(error) ? "HostError" : `unexpected ${error?.constructor?.name}`;
    return { kind, message: String(error?.message ?? error), for_model: model };
  }
  const fields = {};
  for (const [name, property = name] of FIELDS[error.kind] ?? []) fields[name] = error[property];
  const form = { kind: error.kind, code: error.code, fields, for_model: model };
  if (error instanceof Cancelled && error.cause !== undefined) form.cause = errorForm(world, error.cause);
  return form;
}

/** Shows a context; the time until the deadline is rounded to a minute, so that it is the same every time. */
export function contextForm(context) {
  const left = context.deadline;
  return {
    caller_id: context.callerId ?? null,
    metadata: context.metadata ?? null,
    deadline_min: left === undefined ? null : Math.round(Math.max(left, 0) / 60_000),
  };
}

/** Shows a typed record of a registry call. */
export function callRecord(record) {
  const { event, uuid, tool, callerId } = record;
  const form = { event, uuid, tool, caller_id: callerId };
  if (event === "started") return form;
  const { outcome, errorType, shortCircuited } = record;
  return { ...form, outcome, error_type: errorType, short_circuited: shortCircuited };
}

/** Shows a line of `explain` or `registrations`. */
export function line({ stage, name, level, owner, priority }) {
  return { stage, name, level, owner, priority };
}
