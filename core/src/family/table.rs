//! The one table of middleware families; chains, docs and every door are made from it.

/// Calls `$callback!` with one row for each family.
///
/// A row is `Variant, wire name, module, shape, subject, doc`.
#[macro_export]
macro_rules! for_each_family {
    ($callback:ident) => {
        $callback! {
            (ToolConditionalExecution, "tool.conditional_execution", Guardrails, Gate, Tool,
                "Allows a tool call, or rejects it with a reason, before any work."),
            (ToolRequest, "tool.request", Intercepts, Transform, Tool,
                "Changes the arguments of a tool call."),
            (ToolExecution, "tool.execution", Intercepts, Around, Tool,
                "Wraps or replaces the work of a tool call."),
            (ToolSanitizeRequest, "tool.sanitize_request", Guardrails, Transform, Tool,
                "Changes the copy of the arguments that observers see."),
            (ToolSanitizeResponse, "tool.sanitize_response", Guardrails, Transform, Tool,
                "Changes the copy of the result that observers see."),
            (LlmConditionalExecution, "llm.conditional_execution", Guardrails, Gate, Llm,
                "Allows a model call, or rejects it with a reason, before any work."),
            (LlmRequest, "llm.request", Intercepts, Transform, Llm,
                "Changes the request of a model call."),
            (LlmExecution, "llm.execution", Intercepts, Around, Llm,
                "Wraps or replaces the work of a buffered model call."),
            (LlmStreamExecution, "llm.stream_execution", Intercepts, Stream, Llm,
                "Wraps or replaces the stream of a streaming model call."),
            (LlmSanitizeRequest, "llm.sanitize_request", Guardrails, Transform, LlmCopy,
                "Changes the copy of the request that observers see."),
            (LlmSanitizeResponse, "llm.sanitize_response", Guardrails, Transform, LlmCopy,
                "Changes the copy of the response that observers see."),
            (MarkSanitize, "mark.sanitize", Guardrails, Transform, Event,
                "Changes the three free fields of a mark before it is delivered."),
            (ScopeSanitizeStart, "scope.sanitize_start", Guardrails, Transform, Event,
                "Changes the three free fields of a start event before it is delivered."),
            (ScopeSanitizeEnd, "scope.sanitize_end", Guardrails, Transform, Event,
                "Changes the three free fields of an end event before it is delivered."),
        }
    };
}
