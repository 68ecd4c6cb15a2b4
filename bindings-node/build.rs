//! Tells the linker that Node's own symbols come with the process.

fn main() {
    napi_build::setup();
}
