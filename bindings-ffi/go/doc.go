// Package callweir decides about, changes, wraps and records the tool calls of a program.
//
// It stands on Callweir's C library, which pkg-config finds under the name callweir. In a checkout `cargo verify` installs
// it under target/callweir-ffi: name its lib/pkgconfig in PKG_CONFIG_PATH, and its lib in LD_LIBRARY_PATH where the system
// does not look there by itself.
//
// A context carries the runtime, the current scope, who calls, cancellation and deadline. Callbacks are functions over a
// context that run on the caller's goroutine, or on one of their own where the context can end; a callback may block. The
// error of a callback reaches the caller as it was; a panic becomes a PanicError; runtime.Goexit ends the caller's
// goroutine, too. Values go by reference: what a callback gets is what the one before returned, and guardrails and
// intercepts work on a copy of the maps and slices that the caller gave.
package callweir
