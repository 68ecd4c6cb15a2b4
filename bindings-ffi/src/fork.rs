//! The ends of a process's life: forks, and its exit.

use std::sync::Once;
use std::time::Duration;

use callweir_core::Runtime;

/// How long what is queued may hold up the end of the process.
const EXIT_TIME: Duration = Duration::from_secs(5);

/// Arranges for forks and the exit; called when the first runtime is made.
pub(crate) fn prepare() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the functions given live as long as the process: the library is never unloaded while it is used.
        unsafe {
            libc::pthread_atfork(None, None, Some(after_fork));
        }
        // SAFETY: as above.
        unsafe {
            libc::atexit(at_exit);
        }
    });
}

#[cfg(unix)]
extern "C" fn after_fork() {
    crate::boundary::doing(|| {
        crate::executor::after_fork();
        Runtime::after_fork();
    });
}

extern "C" fn at_exit() {
    crate::boundary::doing(|| Runtime::shutdown_all(EXIT_TIME));
}
