/** Loaded by other scripts, so that loading a module is nothing new. */

export {};
