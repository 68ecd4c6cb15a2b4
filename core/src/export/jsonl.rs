//! JSON lines: one ATOF event a line, appended to a file.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::chain::{Observe, Step};
use crate::dispatch::Origin;
use crate::error::{Error, Result};
use crate::event::Event;

/// Appends events to a file; whole lines only.
pub struct JsonLines {
    file: Mutex<BufWriter<File>>,
}

impl JsonLines {
    /// Opens the file for appending, making it if needed.
    ///
    /// A file that cannot be opened is [`InvalidArgument`](crate::ErrorKind::InvalidArgument) with the system's
    /// message.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>> {
        let path = path.as_ref();
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened
            .map_err(|error| Error::invalid_argument("$.path", format!("{}: {error}", path.display())))?;
        Ok(Arc::new(Self {
            file: Mutex::new(BufWriter::with_capacity(1 << 16, file)),
        }))
    }

    fn write(&self, event: &Event) -> std::io::Result<()> {
        let mut line = event.to_text().into_bytes();
        line.push(b'\n');
        let mut file = self.file.lock();
        // A line that does not fit the buffer's rest goes out with the next write, never in two parts.
        if file.buffer().len() + line.len() > file.capacity() {
            file.flush()?;
        }
        file.write_all(&line)
    }
}

impl Observe for JsonLines {
    fn observe(&self, event: &Arc<Event>, _: &Origin) -> Step<()> {
        Step::Ready(self.write(event).map_err(Error::from))
    }

    fn flush(&self) -> Result<()> {
        self.file.lock().flush().map_err(Error::from)
    }
}
