//! Settings and times as Python gives them.

use std::time::{Duration, Instant, SystemTime};

use callweir::{Limits, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::call::FAR;

/// Reads a time: a `datetime`, or seconds since 1970.
pub(crate) fn timestamp(given: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let seconds = match given.extract::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => given.call_method0("timestamp")?.extract::<f64>()?,
    };
    let since =
        Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(SystemTime::UNIX_EPOCH + since)
}

/// Reads a deadline in seconds from now.
pub(crate) fn deadline_of(seconds: f64) -> PyResult<Instant> {
    let now = Instant::now();
    if seconds.is_nan() {
        return Err(PyValueError::new_err(
            "a deadline is a number of seconds from now",
        ));
    }
    if seconds <= 0.0 {
        return Ok(now.checked_sub(Duration::from_nanos(1)).unwrap_or(now));
    }
    Ok(now + Duration::try_from_secs_f64(seconds).unwrap_or(FAR).min(FAR))
}

pub(super) fn timeout_of(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let bad = |_| PyValueError::new_err("a timeout is a number of seconds, 0 or more");
    seconds
        .map(|seconds| {
            // `min` would take the other number for NaN, and wait as good as for ever.
            let bounded = if seconds > FAR.as_secs_f64() {
                FAR.as_secs_f64()
            } else {
                seconds
            };
            Duration::try_from_secs_f64(bounded).map_err(bad)
        })
        .transpose()
}

/// The settings that were given; what was not given stays as it is.
#[derive(Default, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    queue_events: Option<usize>,
    queue_bytes: Option<usize>,
    sanitizer_timeout: Option<f64>,
    credential_headers: Option<Vec<String>>,
    error_text: Option<bool>,
}

impl Settings {
    pub(super) fn over(self, old: &Options) -> PyResult<Options> {
        let callback_time = timeout_of(self.sanitizer_timeout)?.unwrap_or(old.limits.callback_time);
        let limits = Limits {
            events: self.queue_events.unwrap_or(old.limits.events),
            bytes: self.queue_bytes.unwrap_or(old.limits.bytes),
            callback_time,
        };
        Ok(Options {
            limits,
            credential_headers: self
                .credential_headers
                .unwrap_or_else(|| old.credential_headers.clone()),
            error_text: self.error_text.unwrap_or(old.error_text),
        })
    }
}
