//! What a host that steps its calls itself waits on: stepped callbacks to run outside a step, and wakes.

use std::collections::VecDeque;
use std::sync::Arc;

use callweir_core::{Error, Result};
use parking_lot::Mutex;

use crate::boundary::{check, end, fallible, reading};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::step::{Action, callweir_step};

/// A queue of what a host is to do, with a file descriptor that tells when there is something.
pub enum callweir_host {}
handle!(callweir_host, 7, "host", Arc<Host>);

/// The queue of a host.
pub(crate) struct Host {
    items: Mutex<VecDeque<Action>>,
    pipe: Pipe,
}

/// A pipe whose reading end is readable while items wait.
struct Pipe {
    read: libc::c_int,
    write: libc::c_int,
}

impl Pipe {
    fn open() -> Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the array has the two places that the call fills.
        let failed = unsafe { libc::pipe(ends.as_mut_ptr()) } != 0;
        if failed {
            return Err(std::io::Error::last_os_error().into());
        }
        let [read, write] = ends;
        for one in ends {
            // SAFETY: the descriptor was just opened and is ours.
            unsafe {
                libc::fcntl(one, libc::F_SETFL, libc::O_NONBLOCK);
                libc::fcntl(one, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        Ok(Self { read, write })
    }

    fn signal(&self) {
        // SAFETY: the descriptor is open as long as the pipe. A full pipe is readable already.
        unsafe {
            libc::write(self.write, [1_u8].as_ptr().cast(), 1);
        }
    }

    fn drain(&self) {
        let mut buffer = [0_u8; 64];
        // SAFETY: the descriptor is open as long as the pipe, and the buffer has the length given.
        while unsafe { libc::read(self.read, buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: the descriptors are ours, and nothing uses them any more.
        unsafe {
            libc::close(self.read);
            libc::close(self.write);
        }
    }
}

impl Host {
    pub(crate) fn push(&self, item: Action) {
        let mut items = self.items.lock();
        items.push_back(item);
        // The first item signals; whoever takes does so until there are none.
        if items.len() == 1 {
            self.pipe.signal();
        }
    }

    fn take(&self) -> Option<Action> {
        let mut items = self.items.lock();
        let item = items.pop_front();
        if items.is_empty() {
            self.pipe.drain();
        }
        item
    }
}

/// Makes a host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_host_new(out: *mut *mut callweir_host) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let host = Host {
            items: Mutex::new(VecDeque::new()),
            pipe: Pipe::open()?,
        };
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(Arc::new(host))) };
        Ok(())
    })
}

/// Returns a descriptor that is readable while items wait; it belongs to the host, and is only to be waited on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_host_fd(host: *const callweir_host) -> i32 {
    reading(|| handles::look(host, |host| host.pipe.read).unwrap_or(-1))
}

/// Takes the next item, `CALLWEIR_RUN` or `CALLWEIR_WAKE`; false if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_host_take(host: *const callweir_host, out: *mut callweir_step) -> bool {
    reading(|| {
        let item = handles::get(host)
            .ok()
            .filter(|_| !out.is_null())
            .and_then(|host| host.take());
        match item {
            Some(item) => {
                // SAFETY: the pointer was checked, and the program promises that it may be written.
                unsafe { out.write(item.into_step()) };
                true
            }
            None => false,
        }
    })
}

/// Frees a handle of a host; callbacks that use it keep it alive. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_host_free(host: *mut callweir_host) {
    end(host);
}

/// The failure of a stepped callback that nobody can run.
pub(crate) fn no_host(name: &str) -> Error {
    Error::invalid_argument(
        "$.callback.host",
        format!("'{name}' is to be stepped, but is asked outside a step and has no host"),
    )
}
