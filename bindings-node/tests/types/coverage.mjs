export function* coverageChecks() {}
