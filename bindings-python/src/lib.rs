//! The Python door: conversion, driving, callbacks and idiom; all behaviour is the core's.

mod attach;
mod call;
mod drive;
mod error;
mod events;
mod foreign;
mod host;
mod parked;
mod pool;
mod registry;
mod runtime;
mod scope;
mod statics;
mod value;

use pyo3::prelude::*;

/// A call and its events are many small objects; the system's allocator was a third of their cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<drive::Drive>()?;
    module.add_class::<call::ToolCall>()?;
    module.add_class::<call::ToolContext>()?;
    module.add_class::<call::Cancellation>()?;
    module.add_class::<call::ManualCall>()?;
    module.add_class::<call::Next>()?;
    module.add_class::<events::Event>()?;
    module.add_class::<events::ToolCallStarted>()?;
    module.add_class::<events::ToolCallCompleted>()?;
    module.add_class::<registry::Descriptor>()?;
    module.add_class::<registry::NativeRegistry>()?;
    module.add_class::<registry::NativeTool>()?;
    module.add_class::<runtime::Runtime>()?;
    module.add_class::<scope::ScopeHandle>()?;
    module.add_function(wrap_pyfunction!(statics::setup, module)?)?;
    module.add_function(wrap_pyfunction!(error::argument_error, module)?)?;
    module.add_function(wrap_pyfunction!(error::describe, module)?)?;
    module.add_function(wrap_pyfunction!(error::for_model, module)?)?;
    module.add_function(wrap_pyfunction!(scope::get_handle, module)?)?;
    module.add_function(wrap_pyfunction!(call::current_call, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::default_runtime, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::exit::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::exit::at_exit, module)?)?;
    #[cfg(not(feature = "abi3"))]
    drive::slots::install(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
