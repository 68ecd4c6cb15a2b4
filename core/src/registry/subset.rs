//! Subsets: some of a registry's tools, with the middleware that it has now.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::RwLock;

use super::{Inner, State, ToolRegistry};
use crate::error::{Error, Result};

impl ToolRegistry {
    /// Copies the named tools and the middleware as they are now.
    ///
    /// What is added to this registry later does not reach the subset. An unknown name is
    /// [`ToolNotFound`](crate::ErrorKind::ToolNotFound); one that this registry, itself a subset, left out is
    /// [`ToolNotPermitted`](crate::ErrorKind::ToolNotPermitted). No names give no tools.
    pub fn subset<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let state = self.0.state.read();
        let mut tools = IndexMap::new();
        for name in names {
            let (name, entry) = state.tools.get_key_value(name).ok_or_else(|| {
                if state.left_out.contains(name) {
                    Error::tool_not_permitted(name)
                } else {
                    Error::tool_not_found(name)
                }
            })?;
            tools.insert(name.clone(), entry.clone());
        }
        let left_out = state.tools.keys().filter(|name| !tools.contains_key(*name));
        let left_out = left_out.chain(&state.left_out).cloned().collect();
        let (middleware, entries, host) = (state.middleware.clone(), state.entries.clone(), state.host);
        let copy = State {
            tools,
            middleware,
            entries,
            host,
            left_out,
        };
        Ok(Self(Arc::new(Inner {
            runtime: self.0.runtime.clone(),
            state: RwLock::new(copy),
        })))
    }
}
