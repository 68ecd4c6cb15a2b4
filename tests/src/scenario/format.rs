//! Scenario files as Rust types.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What is shown, in one sentence.
    pub about: String,
    /// The cases and rules that it is about.
    pub proves: Vec<String>,
    /// What a door must offer to replay it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether events are observed from the start.
    #[serde(default = "yes")]
    pub trace: bool,
    /// Whether typed call records are observed from the start.
    #[serde(default)]
    pub calls: bool,
    /// Settings of the runtime.
    #[serde(default)]
    pub options: OptionsSpec,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

fn yes() -> bool {
    true
}

/// Settings of the runtime.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionsSpec {
    #[serde(default)]
    pub(super) error_text: bool,
}

/// One step, and where its result goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Step {
    pub(super) label: Option<String>,
    pub(super) inside: Option<String>,
    pub(super) action: Box<Action>,
}

impl TryFrom<Map<String, Value>> for Step {
    type Error = String;

    fn try_from(mut map: Map<String, Value>) -> Result<Self, String> {
        let mut text = |key: &str| match map.shift_remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{key}: {other} is no text")),
        };
        let (label, inside) = (text("label")?, text("in")?);
        let shown = Value::Object(map);
        let action = serde_json::from_value(shown.clone()).map_err(|error| format!("{error} in {shown}"))?;
        Ok(Self {
            label,
            inside,
            action,
        })
    }
}

pub(super) type Run = Vec<Op>;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Action {
    Register(Registered),
    Deregister {
        family: String,
        name: String,
        scope: Option<String>,
    },
    RemoveComponent {
        name: String,
    },
    Subscribe {
        name: String,
        scope: Option<String>,
        run: Run,
    },
    Unsubscribe {
        name: String,
        scope: Option<String>,
    },
    Registry {
        r#as: String,
        #[serde(default)]
        tools: Vec<ToolSpec>,
        #[serde(default)]
        registries: Vec<String>,
        #[serde(default)]
        middleware: Vec<MiddlewareSpec>,
    },
    Add {
        registry: String,
        #[serde(default)]
        tools: Vec<ToolSpec>,
        #[serde(default)]
        registries: Vec<String>,
    },
    Use {
        registry: String,
        middleware: Vec<MiddlewareSpec>,
    },
    Subset {
        r#as: String,
        registry: String,
        names: Vec<String>,
    },
    Manifest {
        registry: String,
        provider: Option<String>,
    },
    Middleware {
        registry: String,
    },
    Explain {
        kind: Option<String>,
        registry: Option<String>,
        tool: Option<String>,
    },
    Registrations {},
    Open(Opened),
    Close {
        scope: String,
        output: Option<Value>,
        metadata: Option<Value>,
        outcome: Option<String>,
    },
    Mark {
        name: String,
        data: Option<Value>,
        metadata: Option<Value>,
    },
    Execute(Executed),
    Dispatch(Dispatched),
    Direct {
        registry: String,
        tool: String,
        arguments: Value,
    },
    Alone {
        name: String,
        arguments: Value,
        middleware: MiddlewareSpec,
        next: Run,
    },
    Guardrails {
        name: String,
        arguments: Value,
    },
    Requests {
        name: String,
        arguments: Value,
    },
    Call(Manual),
    End {
        call: String,
        result: Option<Value>,
        fail: Option<String>,
        outcome: Option<String>,
    },
    Fire {
        token: String,
    },
    UseNext {
        slot: String,
        arguments: Value,
    },
    Propagate {
        scope: String,
        r#as: String,
    },
    Attach {
        r#as: String,
        from: Option<String>,
        value: Option<Value>,
    },
    Flush {},
    Shutdown {},
    Counts {},
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registered {
    pub(super) family: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) priority: i32,
    pub(super) scope: Option<String>,
    #[serde(default)]
    pub(super) break_chain: bool,
    pub(super) component: Option<String>,
    pub(super) run: Run,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default = "any_object")]
    pub(super) parameters: Value,
    #[serde(default)]
    pub(super) read_only: bool,
    #[serde(default)]
    pub(super) idempotent: bool,
    #[serde(default)]
    pub(super) run: Run,
}

fn any_object() -> Value {
    serde_json::json!({ "type": "object" })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MiddlewareSpec {
    pub(super) name: String,
    pub(super) run: Run,
    #[serde(default)]
    pub(super) on_refused: Run,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opened {
    pub(super) r#as: String,
    pub(super) name: String,
    pub(super) r#type: String,
    pub(super) input: Option<Value>,
    pub(super) metadata: Option<Value>,
    #[serde(default)]
    pub(super) attributes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Executed {
    pub(super) name: String,
    pub(super) arguments: Value,
    #[serde(default)]
    pub(super) run: Run,
    pub(super) metadata: Option<Value>,
    pub(super) tool_call_id: Option<String>,
    pub(super) token: Option<String>,
    pub(super) cancel_on: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dispatched {
    pub(super) registry: String,
    pub(super) tool: String,
    pub(super) arguments: Option<Value>,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) context: ContextSpec,
    #[serde(default)]
    pub(super) as_text: bool,
    pub(super) cancel_on: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextSpec {
    pub(super) caller_id: Option<String>,
    pub(super) metadata: Option<Value>,
    pub(super) deadline_ms: Option<u64>,
    pub(super) token: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manual {
    pub(super) r#as: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) metadata: Option<Value>,
    pub(super) tool_call_id: Option<String>,
}

/// One operation of a behaviour.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Op {
    Record,
    RecordContext,
    Note,
    Set(String, Value),
    Append(String, Value),
    Remove(String),
    Replace(Value),
    Unjson,
    Next,
    Swallow,
    KeepNext(String),
    Context(ContextSpec),
    Reject(String),
    Nothing,
    Wrong,
    Fail(String),
    Deny(String),
    ReturnDenial(String),
    Sleep(u64),
    Fire(String),
    Step(Step),
}

/// Things that steps name, by kind.
pub(super) type Named<T> = HashMap<String, T>;
