//! What the tests, demos and benchmarks across the doors of Callweir share.

pub mod demo;
pub mod scan;
pub mod scenario;
