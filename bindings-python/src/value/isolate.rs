//! The copy that lets callbacks edit arguments in place without the caller seeing it.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// From this depth on, containers seen before are remembered: a value may contain itself.
const REMEMBER: usize = 16;

/// Copies dicts, lists and tuples; everything else goes by reference.
pub(super) fn copy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Copier { seen: HashMap::new() }.copy(value, 0)
}

struct Copier<'py> {
    seen: HashMap<usize, Bound<'py, PyAny>>,
}

impl<'py> Copier<'py> {
    fn copy(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let is_container = value.is_instance_of::<PyDict>()
            || value.is_instance_of::<PyList>()
            || value.is_instance_of::<PyTuple>();
        if !is_container || depth > callweir::MAX_DEPTH {
            return Ok(value.clone());
        }
        let address = value.as_ptr() as usize;
        if depth >= REMEMBER
            && let Some(copied) = self.seen.get(&address)
        {
            return Ok(copied.clone());
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            let made = shallow(value, || dict.copy().map(Bound::into_any))?;
            self.remember(address, depth, &made);
            for (key, item) in dict.iter() {
                let copied = self.copy(&item, depth + 1)?;
                if !copied.is(&item) {
                    made.set_item(key, copied)?;
                }
            }
            return Ok(made);
        }
        if let Ok(list) = value.cast::<PyList>() {
            let made = shallow(value, || Ok(list.get_slice(0, list.len()).into_any()))?;
            self.remember(address, depth, &made);
            for (index, item) in list.iter().enumerate() {
                let copied = self.copy(&item, depth + 1)?;
                if !copied.is(&item) {
                    made.set_item(index, copied)?;
                }
            }
            return Ok(made);
        }
        self.copy_tuple(value, depth)
    }

    /// Copies a tuple only if something in it was: a tuple itself cannot be edited.
    fn copy_tuple(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let tuple = value.cast::<PyTuple>()?;
        if !value.is_exact_instance_of::<PyTuple>() {
            // A named tuple has a constructor of its own; it goes by reference.
            return Ok(value.clone());
        }
        let items: Vec<_> = tuple
            .iter()
            .map(|item| self.copy(&item, depth + 1))
            .collect::<PyResult<_>>()?;
        let same = items
            .iter()
            .zip(tuple.iter())
            .all(|(copied, item)| copied.is(&item));
        if same {
            Ok(value.clone())
        } else {
            Ok(PyTuple::new(value.py(), items)?.into_any())
        }
    }

    fn remember(&mut self, address: usize, depth: usize, made: &Bound<'py, PyAny>) {
        if depth >= REMEMBER {
            self.seen.insert(address, made.clone());
        }
    }
}

/// Copies one container: a plain one directly, a subclass by its own copy protocol.
fn shallow<'py>(
    value: &Bound<'py, PyAny>,
    plain: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if value.is_exact_instance_of::<PyDict>() || value.is_exact_instance_of::<PyList>() {
        return plain();
    }
    value.py().import("copy")?.call_method1("copy", (value,))
}
