//! A tool call as middleware sees it, and the context that it carries.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::limit::{HostToken, Limits};
use crate::error::Result;
use crate::runtime::Runtime;
use crate::scope::Scope;
use crate::value::Payload;

/// What a registry tells about a tool.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The name, compared byte by byte.
    pub name: Arc<str>,
    /// What the tool does, for the model.
    pub description: String,
    /// The JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// Whether running it twice is as good as once.
    pub idempotent: bool,
}

/// Who makes a call and under which limits.
///
/// Contexts are cheap to clone. A deadline only shrinks on the way in: a later one is ignored.
#[derive(Clone, Debug, Default)]
pub struct ToolContext(Option<Arc<ContextParts>>);

#[derive(Clone, Debug, Default)]
struct ContextParts {
    caller_id: Option<Arc<str>>,
    metadata: Option<Payload>,
    limits: Limits,
}

impl ToolContext {
    /// Returns an empty context.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the context with the caller's id.
    #[must_use]
    pub fn with_caller_id(self, caller_id: impl Into<Arc<str>>) -> Self {
        self.edit(|parts| parts.caller_id = Some(caller_id.into()))
    }

    /// Returns the context with metadata of the run, such as a tenant.
    #[must_use]
    pub fn with_metadata(self, metadata: impl Into<Payload>) -> Self {
        self.edit(|parts| parts.metadata = Some(metadata.into()))
    }

    /// Returns the context with a token that cancels the call.
    #[must_use]
    pub fn with_cancellation(self, token: CancellationToken) -> Self {
        self.edit(|parts| (parts.limits.token, parts.limits.source) = (Some(token), None))
    }

    /// Returns the context with a token that stands for an object of the host language, such as an `AbortSignal`.
    #[must_use]
    pub fn with_cancellation_of(self, token: CancellationToken, source: Arc<HostToken>) -> Self {
        self.edit(|parts| (parts.limits.token, parts.limits.source) = (Some(token), Some(source)))
    }

    /// Returns the context with a deadline, unless it has an earlier one.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        self.edit(|parts| {
            parts.limits.deadline = Some(parts.limits.deadline.map_or(deadline, |old| old.min(deadline)));
        })
    }

    fn edit(mut self, change: impl FnOnce(&mut ContextParts)) -> Self {
        change(Arc::make_mut(self.0.get_or_insert_default()));
        self
    }

    /// Returns the caller's id.
    pub fn caller_id(&self) -> Option<&Arc<str>> {
        self.0.as_ref()?.caller_id.as_ref()
    }

    /// Returns the metadata of the run.
    pub fn metadata(&self) -> Option<&Payload> {
        self.0.as_ref()?.metadata.as_ref()
    }

    /// Returns the token that cancels the call.
    pub fn cancellation(&self) -> Option<&CancellationToken> {
        self.0.as_ref()?.limits.token.as_ref()
    }

    /// Returns the host's object for which the token stands.
    pub fn cancellation_source(&self) -> Option<&Arc<HostToken>> {
        self.0.as_ref()?.limits.source.as_ref()
    }

    /// Returns the deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.limits.deadline
    }

    /// Fails where the token has fired or the deadline has passed.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |parts| parts.limits.check())
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0
            .as_ref()
            .map(|parts| parts.limits.clone())
            .unwrap_or_default()
    }

    /// Returns this context's limits where they differ from `outer`, which is enforced already.
    pub(crate) fn narrowed_from(&self, outer: &Limits) -> Option<Limits> {
        let mine = &self.0.as_ref()?.limits;
        let token = mine
            .token
            .clone()
            .filter(|token| outer.token.as_ref() != Some(token));
        let deadline = mine.deadline.filter(|at| outer.deadline != Some(*at));
        let source = mine.source.clone().filter(|_| token.is_some());
        let limits = Limits {
            token,
            source,
            deadline,
        };
        (!limits.is_empty()).then_some(limits)
    }
}

/// One tool call on its way in: its name, arguments, context and, from a registry, its descriptor.
///
/// A middleware passes on the call or an edited copy of it; the name cannot be changed.
#[derive(Clone, Debug)]
pub struct ToolCall {
    parts: Arc<CallParts>,
    arguments: Payload,
}

#[derive(Clone, Debug)]
struct CallParts {
    name: Arc<str>,
    context: ToolContext,
    descriptor: Option<Arc<Descriptor>>,
    scope: Option<Scope>,
}

impl ToolCall {
    /// Makes a call by hand, to test a middleware alone.
    pub fn new(name: impl Into<Arc<str>>, arguments: impl Into<Payload>, context: ToolContext) -> Self {
        Self::build(name.into(), arguments.into(), context, None, None)
    }

    pub(crate) fn build(
        name: Arc<str>,
        arguments: Payload,
        context: ToolContext,
        descriptor: Option<Arc<Descriptor>>,
        scope: Option<Scope>,
    ) -> Self {
        Self {
            parts: Arc::new(CallParts {
                name,
                context,
                descriptor,
                scope,
            }),
            arguments,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.parts.name
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &Payload {
        &self.arguments
    }

    /// Returns the arguments, giving the call up.
    pub fn into_arguments(self) -> Payload {
        self.arguments
    }

    /// Returns the context.
    pub fn context(&self) -> &ToolContext {
        &self.parts.context
    }

    /// Returns the tool's manifest entry; nothing outside a registry.
    pub fn descriptor(&self) -> Option<&Arc<Descriptor>> {
        self.parts.descriptor.as_ref()
    }

    /// Returns the scope that the call opens; nothing for a call made by hand.
    pub fn scope(&self) -> Option<&Scope> {
        self.parts.scope.as_ref()
    }

    /// Returns the call with other arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl Into<Payload>) -> Self {
        self.arguments = arguments.into();
        self
    }

    /// Returns the call with another context; a deadline later than the present one is ignored.
    #[must_use]
    pub fn with_context(mut self, context: ToolContext) -> Self {
        let context = match self.context().deadline() {
            Some(deadline) => context.with_deadline(deadline),
            None => context,
        };
        Arc::make_mut(&mut self.parts).context = context;
        self
    }

    /// Returns the call with another token.
    #[must_use]
    pub fn with_cancellation(self, token: CancellationToken) -> Self {
        let context = self.context().clone().with_cancellation(token);
        self.with_context(context)
    }

    /// Returns the call with a descriptor, to test a middleware alone.
    #[must_use]
    pub fn with_descriptor(mut self, descriptor: impl Into<Arc<Descriptor>>) -> Self {
        Arc::make_mut(&mut self.parts).descriptor = Some(descriptor.into());
        self
    }

    pub(crate) fn runtime(&self) -> Option<Runtime> {
        self.scope().map(|scope| scope.runtime().clone())
    }
}
