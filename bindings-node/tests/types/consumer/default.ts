/** Uses the package by the default export that modules of the older kind have. */

import callweir, { Runtime } from "callweir";

export const runtime: Runtime = callweir.Runtime.default();
