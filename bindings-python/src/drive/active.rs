//! The drive that polls on this thread, as the callbacks inside find it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use callweir::Error;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Resume;
use super::leaf::Yielded;

/// Who drives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// An event loop, through a coroutine object.
    EventLoop,
    /// A plain thread that waits.
    Plain,
}

/// The state that a drive shares with the callbacks inside it, for the length of one poll.
pub(crate) struct Active {
    pub(crate) host: Host,
    resume: RefCell<Option<Resume>>,
    yielded: RefCell<Vec<Yielded>>,
}

thread_local! {
    static ACTIVE: Cell<*const Active> = const { Cell::new(std::ptr::null()) };
    static NAME: RefCell<Option<(Arc<str>, Py<PyString>)>> = const { RefCell::new(None) };
}

/// Restores the drive that was active before.
pub(crate) struct Entered(*const Active);

impl Drop for Entered {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}

/// Runs `body` with the active drive, if one polls on this thread.
pub(crate) fn active<T>(body: impl FnOnce(Option<&Active>) -> T) -> T {
    let pointer = ACTIVE.get();
    // SAFETY: the pointer is set by `enter` for the length of a poll, during which the drive, and its `Active`
    // with it, stays where it is; `Entered` resets it before the poll returns.
    body(unsafe { pointer.as_ref() })
}

/// Says whether a drive polls on this thread.
pub(crate) fn is_driving() -> bool {
    !ACTIVE.get().is_null()
}

/// Runs what follows outside any drive, until the guard is dropped: for work of others that a poll happens to do.
pub(crate) fn outside() -> Entered {
    Entered(ACTIVE.replace(std::ptr::null()))
}

/// Runs `body` without the interpreter; whatever it polls is not part of the drive around it.
pub(crate) fn released<T: Send>(py: Python<'_>, body: impl FnOnce() -> T + Send) -> T {
    let _outside = outside();
    py.detach(body)
}

/// Says whether the callback that is being called cannot be awaited, since no event loop drives it.
pub(crate) fn is_plain_thread() -> bool {
    active(|active| active.is_some_and(|active| active.host == Host::Plain))
}

impl Active {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            resume: RefCell::new(None),
            yielded: RefCell::new(Vec::new()),
        }
    }

    pub(super) fn enter(&self) -> Entered {
        Entered(ACTIVE.replace(self))
    }

    pub(super) fn resume(&self, resume: Resume) {
        *self.resume.borrow_mut() = Some(resume);
    }

    /// Takes what the host said, for the callback that it was said to.
    pub(super) fn take_resume(&self) -> Option<Resume> {
        self.resume.borrow_mut().take()
    }

    pub(super) fn has_throw(&self) -> bool {
        matches!(&*self.resume.borrow(), Some(Resume::Throw(_)))
    }

    /// Returns an exception that no callback has taken.
    pub(super) fn unheard(&self) -> Option<PyErr> {
        match self.take_resume() {
            Some(Resume::Throw(error)) => Some(error),
            Some(Resume::Send(_)) | None => None,
        }
    }

    pub(super) fn push(&self, yielded: Yielded) {
        self.yielded.borrow_mut().push(yielded);
    }

    pub(super) fn take_yielded(&self) -> Vec<Yielded> {
        std::mem::take(&mut *self.yielded.borrow_mut())
    }
}

/// Returns the Python text of a name; every stage of a call asks for the same one, so the last is remembered.
pub(crate) fn name_text<'py>(py: Python<'py>, name: &Arc<str>) -> Bound<'py, PyString> {
    NAME.with_borrow_mut(|last| {
        if let Some((known, text)) = last
            && Arc::ptr_eq(known, name)
        {
            return text.bind(py).clone();
        }
        let text = PyString::new(py, name);
        *last = Some((name.clone(), text.clone().unbind()));
        text
    })
}

/// The error of a callback that would have to be awaited where nothing can await it.
pub(crate) fn needs_loop(stage: &str, entry: &str) -> Error {
    let text = "returned an awaitable, but no event loop runs here; make the call from one and await it";
    Error::invalid_return(stage, entry, text)
}

// SAFETY: the cells are only touched by the thread that polls the drive, which holds it exclusively.
unsafe impl Sync for Active {}
