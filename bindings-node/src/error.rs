//! Errors in both directions; what a callback threw stays the same value.

use std::any::Any;
use std::sync::Arc;

use callweir::{Error, ErrorKind, HostFailure, Result};
use serde::Deserialize;

use crate::instance::{Instance, Lent, Local};
use crate::value::{NO_PLACE, Slot};

/// A thrown value as the core carries it.
struct Thrown {
    slot: Slot,
    type_name: Option<String>,
    message: String,
    is_release: bool,
}

impl Thrown {
    /// Wraps what stands for an error of Callweir's own, which says the rest.
    fn plain(slot: Slot) -> Arc<Self> {
        Arc::new(Self {
            slot,
            type_name: None,
            message: String::new(),
            is_release: false,
        })
    }
}

impl HostFailure for Thrown {
    fn type_name(&self) -> Option<String> {
        self.type_name.clone()
    }
    fn message(&self) -> String {
        self.message.clone()
    }
    fn is_release(&self) -> bool {
        self.is_release
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What JavaScript tells about a thrown value.
#[derive(Default, Deserialize)]
struct Explained {
    type_name: Option<String>,
    #[serde(default)]
    message: String,
    /// Whether it is the reason of a signal that fired at a deadline.
    #[serde(default)]
    release: bool,
    /// The kind, where it is one of Callweir's own errors.
    kind: Option<String>,
    #[serde(default)]
    code: String,
    #[serde(default)]
    fields: std::collections::HashMap<String, String>,
}

/// The error of a function of the package's own that could not run.
pub(crate) fn unable() -> Error {
    Error::internal("JavaScript could not run: its stack is full, or its environment is ending")
}

fn explained(local: &Local, slot: &Slot) -> Explained {
    let text = local.call_for_text(Lent::Explain, &[local.js.number(slot.place())]);
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// Says whether a value is an error of Callweir's own by which a call is refused.
pub(crate) fn is_denial(local: &Local, slot: &Slot) -> bool {
    own(&explained(local, slot)).is_some_and(|error| error.is_denial())
}

/// Takes a thrown value into the core; an error of Callweir's own keeps its kind and fields.
pub(crate) fn from_thrown(local: &Local, slot: Slot) -> Error {
    let told = explained(local, &slot);
    let own = own(&told);
    let thrown = Arc::new(Thrown {
        slot,
        type_name: told.type_name,
        message: told.message,
        is_release: told.release,
    });
    match own {
        Some(error) => error.with_host(thrown),
        None => Error::host(thrown),
    }
}

/// Takes the reason of a signal that has fired: the cancellation, as JavaScript knows it.
pub(crate) fn from_aborted(slot: Slot) -> Error {
    Error::cancelled().with_host(Thrown::plain(slot))
}

fn own(told: &Explained) -> Option<Error> {
    let name = told.kind.as_deref()?;
    let kind = ErrorKind::ALL.iter().find(|known| known.name() == name)?;
    let mut error = Error::new(*kind, told.message.clone());
    for field in kind.fields() {
        if let Some(value) = told.fields.get(*field) {
            error = error.with_field(field, value.clone());
        }
    }
    Some(if told.code == kind.code() || told.code.is_empty() {
        error
    } else {
        error.with_code(told.code.clone())
    })
}

fn thrown(error: &Error) -> Option<&Slot> {
    let failure = error.host_failure()?;
    failure
        .as_any()
        .downcast_ref::<Thrown>()
        .map(|thrown| &thrown.slot)
}

/// Returns the place of what is thrown for an error: the value that was thrown, or an error of the kind's class, which
/// is made once.
///
/// The place of one that is made here may be freed at once: JavaScript reads it before it fills it anew.
pub(crate) fn thrown_place(instance: &Arc<Instance>, local: &Local, error: &Error) -> Result<f64> {
    if let Some(slot) = thrown(error) {
        return Ok(slot.place());
    }
    let slot = built(instance, local, error)?;
    let place = slot.place();
    error.keep_host(Thrown::plain(slot));
    Ok(place)
}

/// Returns a place of its own for what is thrown for an error.
pub(crate) fn thrown_slot(instance: &Arc<Instance>, local: &Local, error: &Error) -> Result<Slot> {
    let place = thrown_place(instance, local, error)?;
    let again = local.call_with(Lent::Again, &[place]).ok_or_else(unable)?;
    Slot::take(instance, again).ok_or_else(unable)
}

/// Makes the JavaScript error of one of Callweir's own.
fn built(instance: &Arc<Instance>, local: &Local, error: &Error) -> Result<Slot> {
    let kind = error.shown_kind();
    let mut fields: serde_json::Map<_, _> = error
        .fields()
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    if let (None, Some(type_name)) = (error.kind(), error.type_name()) {
        fields.insert("type".to_owned(), type_name.into());
    }
    let told = serde_json::json!({
        "kind": kind.name(),
        "message": error.to_string(),
        "code": error.code().unwrap_or(kind.code()),
        "fields": fields,
    });
    let cause = error
        .cause()
        .map(|cause| thrown_place(instance, local, cause))
        .transpose()?;
    let arguments = [
        local.js.text(&told.to_string()),
        local.js.number(cause.unwrap_or(NO_PLACE)),
    ];
    let place = local.call_for_number(Lent::Build, &arguments)?;
    Slot::take(instance, place).ok_or_else(unable)
}

/// Returns the text of an error of Callweir's own, for errors that a program makes itself.
pub(crate) fn describe(kind: &str, fields: &str) -> String {
    let Some(kind) = ErrorKind::ALL.iter().find(|known| known.name() == kind) else {
        return kind.to_owned();
    };
    let fields: std::collections::HashMap<String, String> = serde_json::from_str(fields).unwrap_or_default();
    let known = kind
        .fields()
        .iter()
        .filter_map(|name| Some((*name, fields.get(*name)?.clone())));
    kind.describe(&known.collect::<Vec<_>>())
}
