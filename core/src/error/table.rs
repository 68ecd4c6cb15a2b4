//! The one table of error kinds; every door makes its classes and codes from it.

/// Calls `$callback!` with one row for each error kind.
///
/// A row is `Kind, code, parent, fields, doc`. The parent is the kind's base class in languages that have
/// classes; `Error` is the root. Fields are the names of the text values that the error carries.
#[macro_export]
macro_rules! for_each_error {
    ($callback:ident) => {
        $callback! {
            (Denied, "denied", Error, ["reason"],
                "A call was refused on purpose; the base of the two refusals below."),
            (ToolCallDenied, "denied", Denied, ["tool", "reason"],
                "A middleware, intercept or policy refused this tool call."),
            (CallRejected, "rejected", Denied, ["name", "reason", "by"],
                "A guardrail rejected the call before any work was done."),
            (ToolNotFound, "tool_not_found", Error, ["tool"],
                "The registry has no tool of that name."),
            (ToolNotPermitted, "tool_not_permitted", ToolNotFound, ["tool"],
                "The tool exists, but the subset left it out."),
            (ToolCallFailed, "tool_call_failed", Error, ["tool", "type"],
                "A tool failed without an exception of the host language."),
            (Cancelled, "cancelled", Error, [],
                "A cancellation token fired before the work was done."),
            (TimedOut, "timed_out", ToolCallFailed, [],
                "A time limit or deadline passed before the work was done."),
            (Expired, "expired", Error, [],
                "A per-call object was used after its callback had ended."),
            (AlreadyExists, "already_exists", Error, ["name"],
                "The name is taken; the first registration stays."),
            (NotFound, "not_found", Error, ["name"],
                "Nothing of that name is there."),
            (AlreadyEnded, "already_ended", Error, [],
                "A manual call was ended twice."),
            (NotJson, "not_json", Error, ["path"],
                "A value cannot be written as JSON; `path` says where."),
            (InvalidArgument, "invalid_argument", Error, ["path"],
                "An argument is missing, unexpected or malformed; `path` says which."),
            (InvalidReturn, "invalid_return", Error, ["family", "entry"],
                "A callback returned something that its family does not allow."),
            (InvalidConfig, "invalid_config", Error, ["path"],
                "A configuration value is wrong; `path` says which."),
            (Codec, "codec", Error, ["path"],
                "A codec cannot read or write the payload."),
            (Plugin, "plugin", Error, ["component"],
                "A plugin could not be loaded or failed."),
            (ShutDown, "shut_down", Error, [],
                "The runtime has been shut down."),
            (WouldDeadlock, "would_deadlock", Error, [],
                "Waiting here would wait for itself; the message names what to use instead."),
            (Internal, "internal", Error, [],
                "A bug or a panic inside a callback; the process lives on."),
        }
    };
}
