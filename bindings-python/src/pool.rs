//! Synchronous tools off the event loop: a pool of threads that grows, with the caller's context.

use std::sync::Arc;

use callweir::{Error, Payload, Result, Step};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::sync::oneshot;

use crate::drive::{Host, active};
use crate::error::{from_exception, from_py};
use crate::foreign::Callback;
use crate::statics::statics;
use crate::value::attached;

/// Says whether a blocking function must not run here, since an event loop would stand still.
pub(crate) fn is_wanted(py: Python<'_>) -> bool {
    active(|active| match active {
        Some(active) => active.host == Host::EventLoop,
        None => statics(py)
            .and_then(|known| known.running_loop.bind(py).call0())
            .is_ok_and(|running| !running.is_none()),
    })
}

/// Runs a function on a thread of the pool.
///
/// Whoever waits may go away: the function then ends in the background, is counted as abandoned, and its result is
/// dropped.
pub(crate) fn run(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    keywords: &Bound<'_, PyDict>,
    callback: &Arc<Callback>,
) -> Result<Step<Payload>> {
    let (sender, receiver) = oneshot::channel();
    let submitted = statics(py).and_then(|known| {
        let context = known.copy_context.bind(py).call0()?;
        let done = Bound::new(py, PoolDone(Mutex::new(Some(sender))))?;
        known
            .support
            .bind(py)
            .call_method1("run_pooled", (context, function, keywords, done))
    });
    submitted.map_err(|error| from_py(py, error))?;
    let callback = callback.clone();
    Ok(Step::later(async move {
        let ended = receiver.await.map_err(|_| {
            let text = "the thread of a synchronous tool ended without a result";
            Error::internal(text)
        })?;
        attached(|py| callback.pooled(py, ended))?.settle().await
    }))
}

/// Takes the end of a pooled function; tells the pool whether anybody still waited.
#[pyclass(module = "callweir._native", frozen)]
struct PoolDone(Mutex<Option<oneshot::Sender<Result<Py<PyAny>>>>>);

#[pymethods]
impl PoolDone {
    #[pyo3(signature = (value, error))]
    fn __call__(&self, value: Py<PyAny>, error: Option<Bound<'_, PyAny>>) -> bool {
        let result = match error {
            Some(error) => Err(from_exception(&error)),
            None => Ok(value),
        };
        self.0
            .lock()
            .take()
            .is_some_and(|sender| sender.send(result).is_ok())
    }

    /// Says whether nobody waits any more.
    fn is_abandoned(&self) -> bool {
        self.0.lock().as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}
