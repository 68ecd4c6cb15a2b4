export function* apiChecks() {}
