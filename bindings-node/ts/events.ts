/** Events as subscribers get them. */

import type { Outcome, ScopeType } from "./generated/names";
import { parse, plain } from "./value";

/** An event in the wire format. */
export interface AtofRecord {
  kind: "scope" | "mark";
  scope_category?: "start" | "end";
  atof_version: string;
  uuid: string;
  parent_uuid: string | null;
  timestamp: string;
  name: string;
  category?: ScopeType;
  attributes?: string[];
  data: any;
  data_schema: any;
  metadata: any;
  category_profile?: any;
}

/**
 * One event. Its fields have their names in the wire format (ATOF 0.1); `toJSON` gives that format, and so does
 * `JSON.stringify`. Payloads are this subscriber's own copies, read when first looked at.
 */
export class AtofEvent {
  readonly #text: string;
  #record: AtofRecord | undefined;

  private constructor(text: string) {
    this.#text = text;
  }

  /** @internal */
  static of(text: string): AtofEvent {
    return new AtofEvent(text);
  }

  get #read(): AtofRecord {
    this.#record ??= parse(this.#text) as AtofRecord;
    return this.#record;
  }

  /** `scope` or `mark`. */
  get kind(): "scope" | "mark" {
    return this.#read.kind;
  }

  /** `start` or `end`; undefined for a mark. */
  get scope_category(): "start" | "end" | undefined {
    return this.#read.scope_category;
  }

  /** The version of the format. */
  get atof_version(): string {
    return this.#read.atof_version;
  }

  /** The id; start and end share it. */
  get uuid(): string {
    return this.#read.uuid;
  }

  /** The id of the scope around it. */
  get parent_uuid(): string | null {
    return this.#read.parent_uuid;
  }

  /** When it happened, RFC 3339. */
  get timestamp(): string {
    return this.#read.timestamp;
  }

  /** The name of the call, scope or mark. */
  get name(): string {
    return this.#read.name;
  }

  /** The type of the scope; undefined for a mark. */
  get category(): ScopeType | undefined {
    return this.#read.category;
  }

  /** Flags of the scope. */
  get attributes(): string[] {
    return this.#read.attributes ?? [];
  }

  /** The payload. */
  get data(): any {
    return this.#read.data;
  }

  /** The schema of the payload. */
  get data_schema(): any {
    return this.#read.data_schema;
  }

  /** Free metadata and Callweir's own. */
  get metadata(): any {
    return this.#read.metadata;
  }

  /** Facts that belong to the category. */
  get category_profile(): any {
    return this.#read.category_profile;
  }

  /** How it ended; undefined for starts and marks. */
  get outcome(): Outcome | undefined {
    const metadata = this.#read.metadata as Record<string, unknown> | null;
    return metadata?.["callweir.outcome"] as Outcome | undefined;
  }

  /** Returns the event in the wire format, as a copy of its own. */
  toJSON(): AtofRecord {
    return parse(this.#text) as AtofRecord;
  }

  /** Returns the event as one line of JSON, with integers of any size as they are. */
  toString(): string {
    return plain(this.#text);
  }
}

/** Says that a registry call started. Times are in milliseconds. */
export interface ToolCallStarted {
  event: "started";
  uuid: string;
  tool: string;
  callerId: string | null;
  /** When it started, in milliseconds since 1970. */
  timestamp: number;
}

/** Says how a registry call ended. Times are in milliseconds. */
export interface ToolCallCompleted {
  event: "completed";
  uuid: string;
  tool: string;
  callerId: string | null;
  /** When it ended, in milliseconds since 1970. */
  timestamp: number;
  outcome: Outcome;
  errorType: string | null;
  /** How long it took, middleware included. */
  duration: number;
  shortCircuited: boolean;
}

/** A typed record of a registry call, which never carries arguments or results. */
export type CallRecord = ToolCallStarted | ToolCallCompleted;
