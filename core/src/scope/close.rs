//! Closing: every scope ends exactly once, and the scopes inside it end first.

use serde_json::{Map, Value};

use super::{Children, CloseOptions, Role, Scope, ScopeInner};
use crate::dispatch::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventKind, Outcome, free_metadata};

impl ScopeInner {
    /// Takes the open scopes inside, and lets no more in.
    fn take_children(&self) -> Vec<Scope> {
        match std::mem::replace(&mut *self.children.lock(), Children::Closed) {
            Children::Open(children) => children.into_values().collect(),
            Children::Closed => Vec::new(),
        }
    }
}

impl Scope {
    /// Puts the scope among the children of the nearest open scope around it.
    pub(super) fn track(&self) {
        let mut place = self.parent();
        while let Some(around) = place {
            if around.0.role != Role::Attached
                && let Children::Open(children) = &mut *around.0.children.lock()
            {
                children.insert(self.order(), self.clone());
                if around.is_call() {
                    // Calls are left alone at shutdown; what is open inside them must not be forgotten then.
                    self.runtime().roots().lock().insert(self.order(), self.clone());
                }
                return;
            }
            place = around.parent();
        }
        self.runtime().roots().lock().insert(self.order(), self.clone());
    }

    fn untrack(&self) {
        let mut place = self.parent();
        while let Some(around) = place {
            if let Children::Open(children) = &mut *around.0.children.lock()
                && children.remove(&self.order()).is_some()
            {
                if around.is_call() {
                    self.runtime().roots().lock().remove(&self.order());
                }
                return;
            }
            place = around.parent();
        }
        self.runtime().roots().lock().remove(&self.order());
    }

    /// Closes the scope; the scopes that are open inside it end first, as abandoned.
    ///
    /// Closing a closed scope, an attached one, or any after shutdown does nothing. It may be called from
    /// anywhere and never waits.
    pub fn close(&self, options: CloseOptions) {
        if self.0.role != Role::Opened || self.runtime().is_shut() || !self.is_open() {
            return;
        }
        self.abandon_inside();
        // Those inside need no such search: they were taken from their places together.
        self.untrack();
        self.end_opened(options);
    }

    /// Ends the scope of a call that never started, without an event of its own.
    pub(crate) fn discard(&self) {
        self.abandon_inside();
        self.end();
        self.runtime().registrations().release(self);
    }

    /// Ends the scopes that are open inside this one, innermost first.
    pub(crate) fn abandon_inside(&self) {
        // Depth first without recursion: scopes may be nested more deeply than the stack is.
        let mut order = self.0.take_children();
        if self.is_call() && !order.is_empty() {
            let mut roots = self.runtime().roots().lock();
            for scope in &order {
                roots.remove(&scope.order());
            }
        }
        let mut index = 0;
        while let Some(scope) = order.get(index).cloned() {
            order.extend(scope.0.take_children());
            index += 1;
        }
        order.sort_by_key(|scope| std::cmp::Reverse(scope.order()));
        for scope in order {
            scope.end_opened(CloseOptions {
                outcome: Some(Outcome::Abandoned),
                ..CloseOptions::default()
            });
        }
    }

    fn end_opened(&self, options: CloseOptions) {
        if !self.end() {
            return;
        }
        let runtime = self.runtime().clone();
        let snapshot = runtime.registrations().snapshot(Some(self));
        if snapshot.is_observed() {
            let outcome = options.outcome.unwrap_or(if options.error_type.is_some() {
                Outcome::Failed
            } else {
                Outcome::Succeeded
            });
            let mut event = self.event(EventKind::End, options.timestamp);
            event.data = options.output.unwrap_or(Value::Null).into();
            event.metadata = free_metadata(options.metadata);
            let own = own_metadata(outcome, options.error_type, Map::new());
            runtime
                .dispatcher()
                .emit(snapshot, Draft::new(event).paired(self).own(own));
        }
        runtime.registrations().release(self);
    }
}

/// Returns the metadata that every end event carries; a failure without a type, as a thrown null, shows null.
pub(crate) fn own_metadata(
    outcome: Outcome,
    error: Option<Value>,
    mut own: Map<String, Value>,
) -> Map<String, Value> {
    own.insert("callweir.outcome".to_owned(), Value::from(outcome.name()));
    if let Some(error_type) = error.filter(|_| outcome != Outcome::Succeeded) {
        own.insert("error.type".to_owned(), error_type);
    }
    own.insert("otel.status_code".to_owned(), Value::from(outcome.status()));
    own
}

/// Closes its scope when it goes out of sight: succeeded, or failed while the thread panics.
///
/// The scope is current inside [`ScopeGuard::run`] and [`ScopeGuard::run_sync`], which close it by the result.
#[derive(Debug)]
pub struct ScopeGuard(Option<Scope>);

impl ScopeGuard {
    pub(crate) fn new(scope: Scope) -> Self {
        Self(Some(scope))
    }

    /// Closes the scope with an output or a failure.
    pub fn close(mut self, options: CloseOptions) {
        if let Some(scope) = self.0.take() {
            scope.close(options);
        }
    }

    /// Runs `future` with the scope as the current one, then closes it by the result, which is returned as it is.
    ///
    /// Dropping the returned future closes the scope as cancelled.
    pub fn run<T>(self, future: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
        // Made here, not when first polled: a future that nobody polls is dropped unfinished too.
        let mut unfinished = Unfinished(self);
        async move {
            let result = unfinished.0.within(future).await;
            unfinished.end(result.as_ref().err());
            result
        }
    }

    /// Runs `body` with the scope as the current one, then closes it by the result, which is returned as it is.
    pub fn run_sync<T>(self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = self.within_sync(body);
        Unfinished(self).end(result.as_ref().err());
        result
    }
}

/// A guard whose future has not come to its end.
struct Unfinished(ScopeGuard);

impl Unfinished {
    fn end(&mut self, error: Option<&Error>) {
        if let Some(scope) = self.0.0.take() {
            scope.close(CloseOptions {
                outcome: error.map(Outcome::of),
                error_type: error.map(Error::type_value),
                ..CloseOptions::default()
            });
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A panic is told by the guard itself.
        if !std::thread::panicking()
            && let Some(scope) = self.0.0.take()
        {
            scope.close(CloseOptions {
                outcome: Some(Outcome::Cancelled),
                ..CloseOptions::default()
            });
        }
    }
}

impl std::ops::Deref for ScopeGuard {
    type Target = Scope;

    #[allow(
        clippy::expect_used,
        reason = "the scope is only taken by `close`, which consumes the guard"
    )]
    fn deref(&self) -> &Scope {
        self.0.as_ref().expect("an open guard has a scope")
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        if let Some(scope) = self.0.take() {
            let panicking = std::thread::panicking();
            scope.close(CloseOptions {
                error_type: panicking.then(|| Value::from(ErrorKind::Internal.code())),
                ..CloseOptions::default()
            });
        }
    }
}
