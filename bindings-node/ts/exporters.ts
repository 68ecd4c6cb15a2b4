/** Exporters: subscribers that send events somewhere. */

import { defaultRuntime } from "./runtime";

/**
 * Appends every event to a file, one ATOF event a line.
 *
 * It runs as the subscriber `name`, `jsonl` by default; `subscribers.deregister` ends it. A file that cannot be
 * opened is `InvalidArgument`.
 */
export function jsonl(path: string, options?: { name?: string | undefined }): void {
  defaultRuntime().exportJsonl(path, options);
}
