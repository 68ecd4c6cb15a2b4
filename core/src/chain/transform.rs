//! Transforms: each entry receives what the one before returned.

use std::any::Any;
use std::sync::Arc;

use super::{Entry, Handler, Home, Step, Transformed, catch, wrong_shape};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::value::Payload;

/// What a transform is given beside the payload.
pub enum Subject<'a> {
    /// The name of the call.
    Call(&'a Arc<str>),
    /// The event whose three free fields are the payload.
    Event(&'a Arc<Event>),
}

/// The context that the host captured when an event was emitted.
pub type Context = Option<Arc<dyn Any + Send + Sync>>;

/// Changes a payload.
pub trait Transform: Send + Sync + 'static {
    /// Returns the payload for the next stage, or nothing.
    ///
    /// From a request intercept nothing is a failure; from a sanitizer it omits the payload. `context` is what
    /// the host captured at emission, for entries that run on the publication path.
    fn apply(&self, subject: &Subject<'_>, payload: Payload, context: &Context) -> Step<Transformed>;

    /// Says whether the callback belongs to the host language.
    fn is_host(&self) -> bool {
        false
    }

    /// Says where the callback has to run when it runs on the publication path.
    fn home(&self) -> Home {
        Home::Core
    }
}

/// Runs one entry.
pub(crate) async fn apply(
    entry: &Entry,
    subject: &Subject<'_>,
    payload: Payload,
    context: &Context,
) -> Result<Transformed> {
    let Handler::Transform(transform) = &entry.handler else {
        return Err(wrong_shape(entry));
    };
    catch(|| Ok(transform.apply(subject, payload, context)))?
        .settle()
        .await
}

/// Folds request intercepts: nothing from an entry is a failure, and `break_chain` ends the fold.
///
/// `may_go_on` is asked before each entry.
pub(crate) async fn fold(
    entries: &[Arc<Entry>],
    name: &Arc<str>,
    mut payload: Payload,
    may_go_on: impl Fn() -> Result<()>,
) -> Result<Payload> {
    for entry in entries {
        may_go_on()?;
        let returned = apply(entry, &Subject::Call(name), payload, &None).await?;
        payload = returned.ok_or_else(|| {
            Error::invalid_return(
                entry.stage(),
                &entry.name,
                "returned nothing where the request is expected",
            )
        })?;
        if entry.break_chain {
            break;
        }
    }
    Ok(payload)
}
