//! Carrying a scope to another process.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{Role, Scope, ScopeOptions};
use crate::error::{Error, Result};
use crate::event::ScopeType;
use crate::runtime::Runtime;

/// A scope on its way to another process: a small JSON value, and the W3C trace context beside it.
///
/// The trace id is the id of the outermost scope, the parent id the last eight bytes of the scope's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagation {
    /// The scope's id.
    pub uuid: Uuid,
    /// The id of the outermost scope, which serves as the trace id.
    pub root: Uuid,
    /// The scope's name.
    pub name: Arc<str>,
    /// The scope's type.
    pub category: ScopeType,
}

impl Propagation {
    /// Returns the JSON form: `version`, `uuid`, `root`, `name`, `category`, `traceparent`.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "version": 1,
            "uuid": self.uuid.to_string(),
            "root": self.root.to_string(),
            "name": &*self.name,
            "category": self.category.name(),
            "traceparent": self.traceparent(),
        })
    }

    /// Returns the W3C `traceparent` header, version 00, sampled (<https://www.w3.org/TR/trace-context/>).
    pub fn traceparent(&self) -> String {
        let span = self.uuid.as_u128() & u128::from(u64::MAX);
        format!("00-{}-{span:016x}-01", self.root.simple())
    }

    /// Reads the JSON form; anything else is [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn from_json(value: &Value) -> Result<Self> {
        let text = |key: &str| {
            let found = value.get(key).and_then(Value::as_str);
            found.ok_or_else(|| Error::invalid_argument(format!("$.{key}"), "expected text"))
        };
        let id = |key: &str| {
            Uuid::parse_str(text(key)?)
                .map_err(|_| Error::invalid_argument(format!("$.{key}"), "expected a UUID"))
        };
        if value.get("version").and_then(Value::as_u64) != Some(1) {
            return Err(Error::invalid_argument("$.version", "expected 1"));
        }
        let category = text("category")?
            .parse()
            .map_err(|error: Error| Error::invalid_argument("$.category", error.to_string()))?;
        Ok(Self {
            uuid: id("uuid")?,
            root: id("root")?,
            name: text("name")?.into(),
            category,
        })
    }
}

impl Scope {
    /// Returns what another process needs to continue under this scope.
    pub fn propagation(&self) -> Propagation {
        let mut outermost = self.clone();
        while let Some(parent) = outermost.parent().cloned() {
            outermost = parent;
        }
        let root = outermost.0.remote_parent.unwrap_or_else(|| outermost.uuid());
        Propagation {
            uuid: self.uuid(),
            root,
            name: self.name().clone(),
            category: self.category(),
        }
    }

    /// Makes a scope that stands for one of another process, which alone ends it.
    pub(crate) fn attached(runtime: &Runtime, from: &Propagation) -> Self {
        let options = ScopeOptions::default();
        let mut scope = Self::build(
            runtime.clone(),
            from.name.clone(),
            from.category,
            Role::Attached,
            None,
            &options,
        );
        if let Some(inner) = Arc::get_mut(&mut scope.0) {
            inner.uuid = from.uuid.into();
            // A root of its own says what the trace is; it is not a parent inside this process.
            inner.remote_parent = (from.root != from.uuid).then_some(from.root);
        }
        scope
    }
}
