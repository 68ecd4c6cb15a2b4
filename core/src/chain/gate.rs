//! Gates: each entry allows or rejects, and the first rejection ends the chain.

use std::sync::Arc;

use super::{Entry, Handler, Step, catch, wrong_shape};
use crate::call::ToolCall;
use crate::error::Result;

/// What a guardrail decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call may go on.
    Allow,
    /// The call is rejected, for this reason; an empty reason rejects too.
    Reject(Arc<str>),
}

impl Verdict {
    /// Rejects the call.
    pub fn reject(reason: impl Into<Arc<str>>) -> Self {
        Self::Reject(reason.into())
    }
}

/// Decides whether a call may go on.
pub trait Gate: Send + Sync + 'static {
    /// Judges the call as the caller gave it; a failure fails the call.
    fn check(&self, call: &ToolCall) -> Step<Verdict>;

    /// Says whether the callback belongs to the host language.
    fn is_host(&self) -> bool {
        false
    }
}

/// Asks one entry.
pub(crate) async fn ask(entry: &Entry, call: &ToolCall) -> Result<Verdict> {
    let Handler::Gate(gate) = &entry.handler else {
        return Err(wrong_shape(entry));
    };
    catch(|| Ok(gate.check(call)))?.settle().await
}
