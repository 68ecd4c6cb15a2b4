/** Makes traces comparable: no times, and ids numbered in order of first appearance. */

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What events call a cancellation. Rust, which drops its future, has nothing to name. */
const CANCELLATION = "cancelled";

/** Builds the trace; lists that most scenarios do not need are left out where they are empty. */
export function scrub({ trace, isHostCancelled }) {
  const ids = new Map();
  const numbered = (entries) => entries.map((entry) => number(entry, ids));
  // Events come first: they hold the ids in the order in which these were made.
  const events = numbered(trace.events.map((event) => cleaned(event, isHostCancelled)));
  const calls = numbered(trace.calls);
  const scrubbed = { steps: numbered(trace.steps) };
  for (const [key, entries] of Object.entries({ log: trace.log, queued: trace.queued, calls })) {
    if (entries.length > 0) scrubbed[key] = entries;
  }
  return { ...scrubbed, events };
}

/** Returns an event without its time, and without the type of the language's own cancellation. */
function cleaned({ timestamp: _, ...event }, isHostCancelled) {
  if (!isHostCancelled || event.metadata?.["error.type"] !== CANCELLATION) return event;
  const { "error.type": _type, ...metadata } = event.metadata;
  return { ...event, metadata };
}

function number(value, ids) {
  if (typeof value === "string" && UUID.test(value)) {
    if (!ids.has(value)) ids.set(value, `#${ids.size + 1}`);
    return ids.get(value);
  }
  if (Array.isArray(value)) return value.map((item) => number(item, ids));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, number(item, ids)]));
}
