/** Uses the package as modules of the older kind do. */

import callweir = require("callweir");

export const runtime: callweir.Runtime = callweir.Runtime.default();
export const registry = new callweir.ToolRegistry({ runtime });
