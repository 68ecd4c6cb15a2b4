//! The tool registry: tools by name, and the middleware that runs around every call to them.

mod dispatch;
pub mod manifest;
mod middleware;
mod subset;
mod tool;

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::RwLock;
use serde_json::Value;

use crate::chain::Entries;
use crate::error::{Error, Result};
use crate::registrations::Registration;
use crate::runtime::Runtime;
use crate::scope::Scope;

pub use crate::call::Descriptor;
pub(crate) use dispatch::result_text;
pub use dispatch::{Arguments, DispatchRequest};
pub use manifest::Provider;
pub use middleware::{AnyMiddleware, Middleware, middleware_fn};
pub use tool::{FunctionTool, Tool, ToolSpec};

use tool::ToolEntry;

/// Tools by name, with middleware around every call that is dispatched through it.
///
/// Handles are cheap to clone and share one registry.
#[derive(Clone)]
pub struct ToolRegistry(Arc<Inner>);

struct Inner {
    runtime: Runtime,
    state: RwLock<State>,
}

#[derive(Clone, Default)]
struct State {
    tools: IndexMap<Arc<str>, Arc<ToolEntry>>,
    middleware: Vec<Arc<dyn AnyMiddleware>>,
    /// The same middleware as entries of an around chain.
    entries: Entries,
    /// Whether any middleware is a host callback.
    host: bool,
    /// The tools that a subset left out, its parents' included.
    left_out: HashSet<Arc<str>>,
}

/// Something that can be registered: a tool, several tools, or a registry with its middleware.
pub enum Registrable {
    /// A tool.
    Tool(Arc<dyn Tool>),
    /// A registry; its tools keep their middleware, inside the outer registry's.
    Registry(ToolRegistry),
}

impl<T: Tool> From<T> for Registrable {
    fn from(tool: T) -> Self {
        Self::Tool(Arc::new(tool))
    }
}

impl From<Arc<dyn Tool>> for Registrable {
    fn from(tool: Arc<dyn Tool>) -> Self {
        Self::Tool(tool)
    }
}

impl From<ToolRegistry> for Registrable {
    fn from(registry: ToolRegistry) -> Self {
        Self::Registry(registry)
    }
}

impl ToolRegistry {
    /// Makes an empty registry on the default runtime.
    pub fn new() -> Self {
        Self::with_runtime(Runtime::default().clone())
    }

    /// Makes an empty registry on `runtime`.
    pub fn with_runtime(runtime: Runtime) -> Self {
        Self(Arc::new(Inner {
            runtime,
            state: RwLock::default(),
        }))
    }

    /// Registers one tool or registry.
    ///
    /// A taken name is [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and the first stays.
    pub fn register(&self, item: impl Into<Registrable>) -> Result<&Self> {
        self.register_all([item.into()])
    }

    /// Registers all of `items`, or none if one of them cannot be.
    ///
    /// A registry's tools are taken as they are now; its middleware is looked up at each call, so that what is
    /// added to it later holds for its tools here too.
    pub fn register_all(&self, items: impl IntoIterator<Item = Registrable>) -> Result<&Self> {
        let mut added: IndexMap<Arc<str>, Arc<ToolEntry>> = IndexMap::new();
        for item in items {
            for entry in entries_of(item)? {
                let name = entry.descriptor.name.clone();
                if added.contains_key(&name) {
                    return Err(Error::already_exists("tool", &name));
                }
                added.insert(name, entry);
            }
        }
        let mut state = self.0.state.write();
        if let Some(name) = added.keys().find(|name| state.tools.contains_key(*name)) {
            return Err(Error::already_exists("tool", name));
        }
        state.tools.extend(added);
        Ok(self)
    }

    /// Adds a middleware inside those that are there.
    pub fn use_middleware(&self, middleware: impl Middleware) -> &Self {
        self.use_any(middleware::erase(middleware))
    }

    /// Adds a middleware that is an object already.
    pub fn use_any(&self, middleware: Arc<dyn AnyMiddleware>) -> &Self {
        let mut state = self.0.state.write();
        state.host |= middleware.is_host();
        state.entries = state
            .entries
            .iter()
            .cloned()
            .chain([middleware::entry(&middleware)])
            .collect();
        state.middleware.push(middleware);
        self
    }

    /// Lists the middleware in the order in which it runs, outermost first.
    pub fn middleware(&self) -> Vec<Arc<dyn AnyMiddleware>> {
        self.0.state.read().middleware.clone()
    }

    /// Lists the tools' manifest entries in the order of registration.
    pub fn descriptors(&self) -> Vec<Arc<Descriptor>> {
        self.0
            .state
            .read()
            .tools
            .values()
            .map(|entry| entry.descriptor.clone())
            .collect()
    }

    /// Returns the tool of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.0
            .state
            .read()
            .tools
            .get(name)
            .map(|entry| entry.tool.clone())
    }

    /// Renders the tools for a provider, or neutrally.
    ///
    /// Two names that would become one there are an [`InvalidArgument`](crate::ErrorKind::InvalidArgument) that
    /// lists both.
    pub fn manifest(&self, provider: Option<Provider>) -> Result<Value> {
        let descriptors = self.descriptors();
        let borrowed: Vec<_> = descriptors.iter().map(|descriptor| &**descriptor).collect();
        manifest::render(&borrowed, provider)
    }

    /// Lists what runs for a call to `name` made inside `scope`: the runtime's entries, then the middleware.
    pub fn explain(&self, name: &str, scope: Option<&Scope>) -> Result<Vec<Registration>> {
        let entry = self.lookup(name)?;
        let mut all = self.0.runtime.explain("tool", scope)?;
        all.extend(
            self.middleware_for(&entry)
                .0
                .iter()
                .map(|entry| Registration::of_entry(entry)),
        );
        Ok(all)
    }

    /// Returns the runtime that calls run on.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    fn lookup(&self, name: &str) -> Result<Arc<ToolEntry>> {
        let state = self.0.state.read();
        match state.tools.get(name) {
            Some(entry) => Ok(entry.clone()),
            None if state.left_out.contains(name) => Err(Error::tool_not_permitted(name)),
            None => Err(Error::tool_not_found(name)),
        }
    }

    /// Returns the middleware for one tool, that of inner registries included, and whether any is a host callback.
    fn middleware_for(&self, entry: &ToolEntry) -> (Entries, bool) {
        let (entries, mut host) = {
            let state = self.0.state.read();
            (state.entries.clone(), state.host)
        };
        if entry.through.is_empty() {
            return (entries, host);
        }
        let mut all = entries.to_vec();
        for inner in &entry.through {
            let state = inner.0.state.read();
            host |= state.host;
            all.extend(state.entries.iter().cloned());
        }
        (all.into(), host)
    }
}

impl Default for ToolRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.state.read();
        write!(
            out,
            "ToolRegistry({} tools, {} middleware)",
            state.tools.len(),
            state.middleware.len()
        )
    }
}

fn entries_of(item: Registrable) -> Result<Vec<Arc<ToolEntry>>> {
    match item {
        Registrable::Tool(tool) => Ok(vec![Arc::new(ToolEntry::new(tool)?)]),
        Registrable::Registry(inner) => {
            let state = inner.0.state.read();
            Ok(state
                .tools
                .values()
                .map(|entry| Arc::new(entry.inside(&inner)))
                .collect())
        }
    }
}
