//! Errors: one type for Callweir's own failures and for whatever a host callback raised.

mod table;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A result whose error is Callweir's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! error_kinds {
    ($(($kind:ident, $code:literal, $parent:ident, [$($field:literal),*], $doc:literal)),* $(,)?) => {
        /// The kind of one of Callweir's own errors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $doc] $kind),*
        }

        impl ErrorKind {
            /// Every kind, parents before children.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$kind),*];

            /// Returns the name that classes of this kind have in every language.
            pub fn name(self) -> &'static str {
                match self { $(ErrorKind::$kind => stringify!($kind)),* }
            }

            /// Returns the stable code.
            pub fn code(self) -> &'static str {
                match self { $(ErrorKind::$kind => $code),* }
            }

            /// Returns the name of the kind that this one is a special case of; `Error` is the root.
            pub fn parent(self) -> &'static str {
                match self { $(ErrorKind::$kind => stringify!($parent)),* }
            }

            /// Returns the names of the text values that an error of this kind carries.
            pub fn fields(self) -> &'static [&'static str] {
                match self { $(ErrorKind::$kind => &[$($field),*]),* }
            }

            /// Returns the one-sentence description.
            pub fn doc(self) -> &'static str {
                match self { $(ErrorKind::$kind => $doc),* }
            }
        }
    };
}
crate::for_each_error!(error_kinds);

impl ErrorKind {
    /// Returns the text of an error with these fields; every door shows the same.
    pub fn describe(self, fields: &[(&'static str, String)]) -> String {
        let of = |name: &str| {
            fields
                .iter()
                .find(|(field, _)| *field == name)
                .map_or("", |(_, value)| value.as_str())
        };
        match self {
            Self::ToolCallDenied => format!("{} was denied: {}", of("tool"), of("reason")),
            Self::CallRejected => format!(
                "{} was rejected by guardrail '{}': {}",
                of("name"),
                of("by"),
                of("reason")
            ),
            Self::ToolNotFound => format!("Tool '{}' was not found.", of("tool")),
            Self::ToolNotPermitted => format!("Tool '{}' is not permitted here.", of("tool")),
            Self::Denied => of("reason").to_owned(),
            other => other.doc().to_owned(),
        }
    }
}

/// A failure that belongs to the host language: a Python exception, a thrown JavaScript value, a Rust error.
///
/// It travels through the chain by reference, so that the caller gets the very object that was raised.
pub trait HostFailure: Send + Sync + 'static {
    /// Returns the class or type name as the language shows it; nothing for a failure without a type.
    fn type_name(&self) -> Option<String>;
    /// Returns the failure's text, for people.
    fn message(&self) -> String;
    /// Says whether this is control flow (a cancellation, a process exit) and not a failure of the work.
    fn is_control(&self) -> bool {
        false
    }
    /// Says whether the host made this itself to release a callback whose call has reached a limit.
    fn is_release(&self) -> bool {
        false
    }
    /// Returns the object for downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Returns the object as a Rust error where it is one.
    fn as_std(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None
    }
}

/// An error of Callweir's own, or the failure that a host callback raised.
///
/// Cloning is cheap and keeps identity: all clones carry the same host object. Any `std::error::Error` becomes
/// one with `?`, and comes back with [`Error::downcast_ref`]. Like other catch-all error types it does not
/// implement `std::error::Error` itself; convert it with `Box::<dyn std::error::Error + Send + Sync>::from`.
#[derive(Clone)]
pub struct Error(Arc<Repr>);

struct Repr {
    what: What,
    cause: Option<Error>,
}

enum What {
    Own(Own),
    Host(Arc<dyn HostFailure>),
}

#[derive(Clone)]
struct Own {
    kind: ErrorKind,
    code: Option<Cow<'static, str>>,
    message: String,
    fields: Vec<(&'static str, String)>,
    /// The host's object for this error, once there is one: it keeps its identity from then on.
    host: OnceLock<Arc<dyn HostFailure>>,
}

impl Error {
    /// Makes an error of Callweir's own.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::own(kind, message.into(), Vec::new())
    }

    /// Wraps a failure of the host language.
    pub fn host(failure: Arc<dyn HostFailure>) -> Self {
        Self(Arc::new(Repr {
            what: What::Host(failure),
            cause: None,
        }))
    }

    /// Refuses a tool call, for a reason that the model may read.
    pub fn denied(tool: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::described(
            ErrorKind::ToolCallDenied,
            vec![("tool", tool.into()), ("reason", reason.into())],
        )
    }

    /// Says that an argument is wrong, and where.
    pub fn invalid_argument(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::at(ErrorKind::InvalidArgument, path.into(), &message.into())
    }

    /// Says that a value cannot be written as JSON, and where.
    pub fn not_json(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::at(ErrorKind::NotJson, path.into(), &message.into())
    }

    /// Says that a callback returned the wrong type.
    pub fn invalid_return(family: &str, entry: &str, message: impl fmt::Display) -> Self {
        let text = format!("{family} entry '{entry}': {message}");
        let fields = vec![("family", family.to_owned()), ("entry", entry.to_owned())];
        Self::own(ErrorKind::InvalidReturn, text, fields)
    }

    pub(crate) fn rejected(name: &str, reason: &str, by: &str) -> Self {
        let fields = vec![
            ("name", name.to_owned()),
            ("reason", reason.to_owned()),
            ("by", by.to_owned()),
        ];
        Self::described(ErrorKind::CallRejected, fields)
    }

    pub(crate) fn tool_not_found(tool: &str) -> Self {
        Self::described(ErrorKind::ToolNotFound, vec![("tool", tool.to_owned())])
    }

    pub(crate) fn tool_not_permitted(tool: &str) -> Self {
        Self::described(ErrorKind::ToolNotPermitted, vec![("tool", tool.to_owned())])
    }

    /// Makes an error whose text is the kind's own.
    fn described(kind: ErrorKind, fields: Vec<(&'static str, String)>) -> Self {
        Self::own(kind, kind.describe(&fields), fields)
    }

    pub(crate) fn already_exists(what: &str, name: &str) -> Self {
        let message = format!("{what} '{name}' is already there");
        Self::own(ErrorKind::AlreadyExists, message, vec![("name", name.to_owned())])
    }

    /// Says that the runtime has been shut down.
    pub fn shut_down() -> Self {
        Self::new(ErrorKind::ShutDown, "the runtime has been shut down")
    }

    /// Says that waiting here would wait for itself; the message names what to use instead.
    pub fn would_deadlock(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::WouldDeadlock, message)
    }

    /// Says that something broke that should not.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Says that the call was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "the call was cancelled")
    }

    /// Says that something that belongs to a callback was used after its end.
    pub fn expired() -> Self {
        let text = "`next` was used after the callback that it was given to, or its call, had ended";
        Self::new(ErrorKind::Expired, text)
    }

    /// Turns a caught panic into an error.
    pub fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::new(
            ErrorKind::Internal,
            format!("a callback panicked: {}", text.as_deref().unwrap_or("no message")),
        )
    }

    fn at(kind: ErrorKind, path: String, message: &str) -> Self {
        let text = format!("{path}: {message}");
        Self::own(kind, text, vec![("path", path)])
    }

    fn own(kind: ErrorKind, message: String, fields: Vec<(&'static str, String)>) -> Self {
        Self(Arc::new(Repr {
            what: What::Own(Own {
                kind,
                code: None,
                message,
                fields,
                host: OnceLock::new(),
            }),
            cause: None,
        }))
    }

    /// Returns the error with one more field; unknown names are kept for the door to show.
    #[must_use]
    pub fn with_field(self, name: &'static str, value: impl Into<String>) -> Self {
        self.edit(|own| own.fields.push((name, value.into())))
    }

    /// Returns the error with a refined code, as policies give one to a denial.
    #[must_use]
    pub fn with_code(self, refined: impl Into<Cow<'static, str>>) -> Self {
        self.edit(|own| own.code = Some(refined.into()))
    }

    /// Returns the error with the object by which the host language knows it.
    #[must_use]
    pub fn with_host(self, object: Arc<dyn HostFailure>) -> Self {
        self.edit(|own| own.host = OnceLock::from(object))
    }

    /// Keeps the object that the host language has made for this error, and shows all holders of it from now on.
    ///
    /// An error that has an object already keeps that.
    pub fn keep_host(&self, object: Arc<dyn HostFailure>) {
        if let What::Own(own) = &self.0.what {
            // Somebody else's object was first.
            let _ = own.host.set(object);
        }
    }

    /// Returns the error with what led to it.
    #[must_use]
    pub fn with_cause(self, cause: Error) -> Self {
        let what = match &self.0.what {
            What::Host(failure) => What::Host(failure.clone()),
            What::Own(own) => What::Own(own.clone()),
        };
        Self(Arc::new(Repr {
            what,
            cause: Some(cause),
        }))
    }

    fn edit(self, change: impl FnOnce(&mut Own)) -> Self {
        let What::Own(own) = &self.0.what else { return self };
        let mut own = own.clone();
        change(&mut own);
        Self(Arc::new(Repr {
            what: What::Own(own),
            cause: self.0.cause.clone(),
        }))
    }

    /// Returns the kind; nothing for a failure of the host language.
    pub fn kind(&self) -> Option<ErrorKind> {
        match &self.0.what {
            What::Own(own) => Some(own.kind),
            What::Host(_) => None,
        }
    }

    /// Returns the kind under which a door shows the error where it has no exception of its language.
    pub fn shown_kind(&self) -> ErrorKind {
        self.kind().unwrap_or(ErrorKind::ToolCallFailed)
    }

    /// Returns the stable code; nothing for a failure of the host language.
    pub fn code(&self) -> Option<&str> {
        match &self.0.what {
            What::Own(own) => Some(own.code.as_deref().unwrap_or(own.kind.code())),
            What::Host(_) => None,
        }
    }

    /// Returns a field that the kind's row lists.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields()
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all fields in order.
    pub fn fields(&self) -> &[(&'static str, String)] {
        match &self.0.what {
            What::Own(own) => &own.fields,
            What::Host(_) => &[],
        }
    }

    /// Returns the host's object for this error, if there is one.
    pub fn host_failure(&self) -> Option<&Arc<dyn HostFailure>> {
        match &self.0.what {
            What::Host(failure) => Some(failure),
            What::Own(own) => own.host.get(),
        }
    }

    /// Returns the Rust error of type `E` that a callback raised.
    pub fn downcast_ref<E: 'static>(&self) -> Option<&E> {
        self.host_failure()?.as_any().downcast_ref()
    }

    /// Returns what led to this error.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// Says whether the work was refused on purpose: a denial or a rejection.
    pub fn is_denial(&self) -> bool {
        matches!(
            self.kind(),
            Some(ErrorKind::Denied | ErrorKind::ToolCallDenied | ErrorKind::CallRejected)
        )
    }

    /// Says whether this is a cancellation or a process-control exception.
    pub fn is_control(&self) -> bool {
        match &self.0.what {
            What::Own(own) => own.kind == ErrorKind::Cancelled,
            What::Host(failure) => failure.is_control(),
        }
    }

    /// Says whether the host made this itself to release a callback whose call has reached a limit.
    pub(crate) fn is_release(&self) -> bool {
        matches!(&self.0.what, What::Host(failure) if failure.is_release())
    }

    /// Returns the name that events show as `error.type` as JSON; null for a failure without a type.
    pub fn type_value(&self) -> serde_json::Value {
        self.type_name()
            .map_or(serde_json::Value::Null, serde_json::Value::from)
    }

    /// Returns the name that events show as `error.type`: a host type, or a code of Callweir's own.
    pub fn type_name(&self) -> Option<String> {
        match &self.0.what {
            // A refined code stays out: what was refused is `denied` to whoever counts.
            What::Own(own) => Some(own.kind.code().to_owned()),
            What::Host(failure) => failure.type_name(),
        }
    }

    /// Returns the text that a model may read: the kind of refusal or failure, and nothing else of it.
    pub fn for_model(&self) -> String {
        let reason = || self.field("reason").unwrap_or_default().to_owned();
        let tool = || self.field("tool").unwrap_or_default().to_owned();
        let text = match self.kind() {
            Some(ErrorKind::Denied | ErrorKind::ToolCallDenied | ErrorKind::CallRejected) => {
                format!("denied: {}", reason())
            }
            Some(ErrorKind::ToolNotFound) => format!("not found: {}", tool()),
            Some(ErrorKind::ToolNotPermitted) => format!("not permitted: {}", tool()),
            Some(ErrorKind::ToolCallFailed) => {
                format!(
                    "failed: {}",
                    self.field("type").unwrap_or(ErrorKind::ToolCallFailed.code())
                )
            }
            _ => format!("failed: {}", self.type_name().as_deref().unwrap_or("null")),
        };
        serde_json::json!({ "error": text }).to_string()
    }

    /// Says whether two errors are the same object.
    pub fn same(&self, other: &Error) -> bool {
        match (&self.0.what, &other.0.what) {
            (What::Host(a), What::Host(b)) => Arc::ptr_eq(a, b),
            _ => Arc::ptr_eq(&self.0, &other.0),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Own(own) => out.write_str(&own.message),
            What::Host(failure) => out.write_str(&failure.message()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Own(own) => {
                write!(out, "{:?}: {}", own.kind, own.message)?;
                own.fields
                    .iter()
                    .try_for_each(|(name, value)| write!(out, " {name}={value:?}"))
            }
            What::Host(failure) => {
                write!(
                    out,
                    "{}: {}",
                    failure.type_name().as_deref().unwrap_or("null"),
                    failure.message()
                )
            }
        }?;
        self.cause()
            .map_or(Ok(()), |cause| write!(out, " (caused by {cause:?})"))
    }
}

/// A Rust error that a callback returned.
struct RustFailure<E>(E);

impl<E: std::error::Error + Send + Sync + 'static> HostFailure for RustFailure<E> {
    fn type_name(&self) -> Option<String> {
        let full = std::any::type_name::<E>();
        let plain = full.split('<').next().unwrap_or(full);
        Some(plain.rsplit("::").next().unwrap_or(plain).to_owned())
    }
    fn message(&self) -> String {
        self.0.to_string()
    }
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
    fn as_std(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::host(Arc::new(RustFailure(error)))
    }
}

/// [`Error`] as a standard error.
#[derive(Debug)]
struct Standard(Error);

impl fmt::Display for Standard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for Standard {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.host_failure()?.as_std()
    }
}

impl From<Error> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: Error) -> Self {
        Box::new(Standard(error))
    }
}
