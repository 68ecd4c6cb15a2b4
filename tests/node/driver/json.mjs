/** JSON with integers of any size: beyond the safe range they are `BigInt`. */

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** Marks the digits of a large integer while `JSON.parse` reads the text. */
const MARK = "⟦integer⟧";

/** Reads JSON text. */
export function parse(text) {
  const marked = text.replace(TOKEN, (token) => (isLarge(token) ? `"${MARK}${token}"` : token));
  return JSON.parse(marked, (_, value) => (isMarked(value) ? BigInt(value.slice(MARK.length)) : value));
}

function isLarge(token) {
  return /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
}

function isMarked(value) {
  return typeof value === "string" && value.startsWith(MARK);
}

/** Writes JSON text without spaces. What JSON has no form for is an error, `undefined` too. */
export function stringify(value) {
  switch (typeof value) {
    case "bigint":
    case "boolean":
      return String(value);
    case "string":
      return JSON.stringify(value);
    case "number":
      if (Number.isFinite(value)) return String(value);
      break;
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return `[${value.map(stringify).join(",")}]`;
      return `{${Object.entries(value).map(property).join(",")}}`;
  }
  throw new TypeError(`a trace cannot hold ${typeof value} ${String(value)}`);
}

function property([key, value]) {
  return `${JSON.stringify(key)}:${stringify(value)}`;
}
