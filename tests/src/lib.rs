//! What the tests, demos and benchmarks across the doors of Callweir share.

pub mod demo;
pub mod scan;
pub mod scenario;

/// The README, whose Rust examples run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
