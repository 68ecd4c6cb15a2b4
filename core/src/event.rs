//! Events: what observers see of scopes, calls and marks, in the ATOF 0.1 wire format.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::value::Json;

/// The version of the Agent Trajectory Observability Format that events follow.
pub const ATOF_VERSION: &str = "0.1";

/// The attribute keys that no sanitizer can change or clear, beside everything under `callweir.`.
const OWN_KEYS: [&str; 2] = ["otel.status_code", "error.type"];

macro_rules! named {
    ($(#[$outer:meta])* $type:ident: $what:literal { $($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$doc])* $variant),* }

        impl $type {
            /// Every value, in the order of the specification.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// Returns the name on the wire.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }
        }

        impl FromStr for $type {
            type Err = Error;
            fn from_str(name: &str) -> Result<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    Error::invalid_argument("$", format!("no {} '{name}'; there are {}", $what, known.join(", ")))
                })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.name())
            }
        }
    };
}

named! {
    /// The type of a scope.
    ScopeType: "scope type" {
        /// An agent's run.
        Agent = "agent",
        /// A unit of work of the program.
        Function = "function",
        /// A tool call.
        Tool = "tool",
        /// A model call.
        Llm = "llm",
        /// A retrieval.
        Retriever = "retriever",
        /// An embedding.
        Embedder = "embedder",
        /// A reranking.
        Reranker = "reranker",
        /// The evaluation of one guardrail.
        Guardrail = "guardrail",
        /// An evaluation.
        Evaluator = "evaluator",
        /// Anything that the program defines.
        Custom = "custom",
        /// Not known.
        Unknown = "unknown",
    }
}

named! {
    /// How a call or scope ended.
    Outcome: "outcome" {
        /// It did its work.
        Succeeded = "succeeded",
        /// A middleware or intercept denied it.
        Refused = "refused",
        /// It failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// The consumer left a stream before its end.
        ClosedEarly = "closed_early",
        /// A stream ended without its terminal event.
        Incomplete = "incomplete",
        /// Nobody ended it.
        Abandoned = "abandoned",
    }
}

impl Outcome {
    /// Returns the OpenTelemetry status that goes with the outcome.
    pub fn status(self) -> &'static str {
        match self {
            Self::Succeeded => "OK",
            Self::ClosedEarly => "UNSET",
            Self::Refused | Self::Failed | Self::Cancelled | Self::Incomplete | Self::Abandoned => "ERROR",
        }
    }

    /// Returns the outcome of work that ended with `error`.
    pub fn of(error: &Error) -> Self {
        // A guardrail's rejection that comes out of a call is one of a call inside it: this one failed with it.
        if error.is_denial() && error.kind() != Some(ErrorKind::CallRejected) {
            Self::Refused
        } else if error.is_control() {
            Self::Cancelled
        } else {
            Self::Failed
        }
    }
}

/// What an event says about its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A scope or call started.
    Start,
    /// A scope or call ended.
    End,
    /// Something happened.
    Mark,
}

/// One event, as observers get it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Start, end or mark.
    pub kind: EventKind,
    /// The id; the start and the end of one scope share it.
    pub uuid: Uuid,
    /// The id of the scope around it.
    pub parent_uuid: Option<Uuid>,
    /// When it happened.
    pub timestamp: SystemTime,
    /// The name of the call, scope or mark.
    pub name: Arc<str>,
    /// The payload; null where there is none. It is shared, never changed in place.
    pub data: Json,
    /// The schema of the payload, as the program gave it; null where it gave none.
    pub data_schema: Value,
    /// Free metadata, and Callweir's own under `callweir.`, `otel.status_code` and `error.type`; null for none.
    pub metadata: Value,
    /// The type of the scope; nothing for marks.
    pub category: Option<ScopeType>,
    /// Flags that the program gave, and `streaming`.
    pub attributes: Arc<[Arc<str>]>,
    /// Facts that belong to the category; null for none.
    pub category_profile: Value,
}

impl Event {
    pub(crate) fn new(kind: EventKind, uuid: Uuid, parent_uuid: Option<Uuid>, name: Arc<str>) -> Self {
        Self {
            kind,
            uuid,
            parent_uuid,
            timestamp: SystemTime::now(),
            name,
            data: null(),
            data_schema: Value::Null,
            metadata: Value::Null,
            category: None,
            attributes: Arc::from([]),
            category_profile: Value::Null,
        }
    }

    /// Returns the event in the wire format; numbers keep their text.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let put = |key: &str, part: Part<'_>| -> Result<(), Infallible> {
            let value = match part {
                Part::Text(text) => Value::from(text),
                Part::Made(value) => value,
                Part::Held(value) => value.clone(),
                Part::Data(data) => (**data).clone(),
            };
            out.insert(key.to_owned(), value);
            Ok(())
        };
        match self.each(put) {
            Ok(()) => Value::Object(out),
            Err(never) => match never {},
        }
    }

    /// Returns the event as one line of JSON text; a payload that came as text is not read for it.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(512);
        let put = |key: &str, part: Part<'_>| -> Result<(), Infallible> {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push('"');
            out.push_str(key);
            out.push_str("\":");
            // What was read as JSON can be written as JSON, and so can text.
            let written = match part {
                Part::Data(data) if data.text().is_some() => {
                    out.push_str(data.text().unwrap_or("null"));
                    return Ok(());
                }
                Part::Text(text) => serde_json::to_string(text),
                Part::Made(value) => serde_json::to_string(&value),
                Part::Held(value) => serde_json::to_string(value),
                Part::Data(data) => serde_json::to_string(data),
            };
            out.push_str(written.as_deref().unwrap_or("null"));
            Ok(())
        };
        match self.each(put) {
            Ok(()) => out.push('}'),
            Err(never) => match never {},
        }
        out
    }

    /// Visits the parts of the wire format in order.
    fn each<E>(&self, mut put: impl FnMut(&'static str, Part<'_>) -> Result<(), E>) -> Result<(), E> {
        let mark = self.kind == EventKind::Mark;
        put("kind", Part::Text(if mark { "mark" } else { "scope" }))?;
        put("atof_version", Part::Text(ATOF_VERSION))?;
        put(
            "uuid",
            Part::Text(self.uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
        )?;
        let mut buffer = Uuid::encode_buffer();
        let parent = self
            .parent_uuid
            .map(|id| &*id.hyphenated().encode_lower(&mut buffer));
        put("parent_uuid", parent.map_or(Part::Made(Value::Null), Part::Text))?;
        put("timestamp", Part::Text(&self.timestamp_text()))?;
        put("name", Part::Text(&self.name))?;
        if !mark {
            let start = self.kind == EventKind::Start;
            put("scope_category", Part::Text(if start { "start" } else { "end" }))?;
            let category = self.category.map(ScopeType::name);
            put("category", category.map_or(Part::Made(Value::Null), Part::Text))?;
            let flags = self.attributes.iter().map(|flag| Value::from(&**flag)).collect();
            put("attributes", Part::Made(flags))?;
        }
        put("data", Part::Data(&self.data))?;
        put("data_schema", Part::Held(&self.data_schema))?;
        if !mark || !self.category_profile.is_null() {
            put("category_profile", Part::Held(&self.category_profile))?;
        }
        put("metadata", Part::Held(&self.metadata))
    }

    /// Returns the time in RFC 3339, UTC, with microseconds.
    pub fn timestamp_text(&self) -> String {
        humantime::format_rfc3339_micros(self.timestamp).to_string()
    }

    /// Returns the three fields that event sanitizers may change.
    pub(crate) fn fields(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("data".to_owned(), (*self.data).clone());
        fields.insert("category_profile".to_owned(), self.category_profile.clone());
        fields.insert("metadata".to_owned(), self.metadata.clone());
        Value::Object(fields)
    }

    /// Replaces the three fields; what is not in `fields` is cleared.
    pub(crate) fn set_fields(&mut self, fields: Value) {
        let mut fields = if let Value::Object(fields) = fields {
            fields
        } else {
            Map::new()
        };
        let mut take = |key: &str| fields.shift_remove(key).unwrap_or(Value::Null);
        self.data = take("data").into();
        self.category_profile = take("category_profile");
        self.metadata = match take("metadata") {
            Value::Object(free) => {
                Value::Object(free.into_iter().filter(|(key, _)| !is_own_key(key)).collect())
            }
            Value::Null => Value::Null,
            // The wire format wants an object here; what is none is kept under a name of its own.
            other => serde_json::json!({ "value": other }),
        };
    }

    /// Sets Callweir's own metadata over what is there.
    pub(crate) fn set_own(&mut self, own: Map<String, Value>) {
        if own.is_empty() {
            return;
        }
        let mut metadata = match std::mem::take(&mut self.metadata) {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        metadata.extend(own);
        self.metadata = Value::Object(metadata);
    }

    /// Returns a text of Callweir's own metadata, such as `callweir.outcome`.
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.metadata.get(key)?.as_str()
    }
}

/// A part of the wire format.
enum Part<'a> {
    Text(&'a str),
    Made(Value),
    Held(&'a Value),
    Data(&'a Json),
}

/// The wire format, without a copy of what the event holds.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        self.each(|key, part| match part {
            Part::Text(text) => out.serialize_entry(key, text),
            Part::Made(value) => out.serialize_entry(key, &value),
            Part::Held(value) => out.serialize_entry(key, value),
            Part::Data(data) => out.serialize_entry(key, data),
        })?;
        out.end()
    }
}

/// Returns the shared null of events without a payload.
pub(crate) fn null() -> Json {
    static NULL: OnceLock<Json> = OnceLock::new();
    NULL.get_or_init(|| Value::Null.into()).clone()
}

/// Says whether a metadata key is Callweir's own.
pub(crate) fn is_own_key(key: &str) -> bool {
    key.starts_with("callweir.") || OWN_KEYS.contains(&key)
}

/// Takes a program's metadata, without the keys that are Callweir's own.
pub(crate) fn free_metadata(given: Option<Value>) -> Value {
    match given {
        Some(Value::Object(map)) => {
            Value::Object(map.into_iter().filter(|(key, _)| !is_own_key(key)).collect())
        }
        Some(Value::Null) | None => Value::Null,
        Some(other) => serde_json::json!({ "value": other }),
    }
}

/// A typed record of a registry call, which never carries arguments or results.
#[derive(Clone, Debug)]
pub enum CallEvent {
    /// A tool call started.
    Started(ToolCallStarted),
    /// A tool call ended, or was refused before it started.
    Completed(ToolCallCompleted),
}

/// Says that a registry call started.
#[derive(Clone, Debug)]
pub struct ToolCallStarted {
    /// The tool's name.
    pub tool: Arc<str>,
    /// The caller's id.
    pub caller_id: Option<Arc<str>>,
    /// The id of the call.
    pub uuid: Uuid,
    /// When it started.
    pub timestamp: SystemTime,
}

/// Says how a registry call ended.
#[derive(Clone, Debug)]
pub struct ToolCallCompleted {
    /// The tool's name.
    pub tool: Arc<str>,
    /// The caller's id.
    pub caller_id: Option<Arc<str>>,
    /// The id of the call.
    pub uuid: Uuid,
    /// When it ended.
    pub timestamp: SystemTime,
    /// How it ended.
    pub outcome: Outcome,
    /// The type of the failure.
    pub error_type: Option<String>,
    /// How long it took, middleware included.
    pub duration: std::time::Duration,
    /// Whether it was answered without running the tool.
    pub short_circuited: bool,
}
