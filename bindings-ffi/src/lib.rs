//! The C ABI: opaque handles, error objects, callbacks that block, complete later, or are stepped by the host.
//!
//! `README.md` states the conventions once for all functions; the header is generated from this crate.
#![allow(non_camel_case_types, reason = "the names are those of the header")]
#![allow(
    unreachable_pub,
    reason = "what the header shows is public, in whichever module it is"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "what pointers may be is one rule for all functions, stated in the README and the header"
)]

mod boundary;
mod call;
mod callback;
mod context;
mod error;
mod executor;
mod fork;
pub mod generated;
mod handles;
mod host;
mod manual;
mod registration;
mod registry;
mod request;
mod runtime;
mod scope;
mod step;
mod task;
mod text;
mod value;

pub use text::{callweir_string, callweir_text};

/// The version of this ABI; a program gives the one that it was compiled with when it makes a runtime.
pub const CALLWEIR_ABI_VERSION: u32 = 1;

/// Returns the ABI version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn callweir_abi_version() -> u32 {
    boundary::reading(|| CALLWEIR_ABI_VERSION)
}

/// Returns the version of the library; the text lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn callweir_version() -> callweir_text {
    boundary::reading(|| callweir_text::of(env!("CARGO_PKG_VERSION")))
}

/// Returns how many handles the program holds, for tests that nothing is left.
#[unsafe(no_mangle)]
pub extern "C" fn callweir_open_handles() -> u64 {
    boundary::reading(handles::open)
}
