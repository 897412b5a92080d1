//! Compresses files that have no compressed form next to them.
//!
//! Another thread makes a compressed form when a client first requests it. The form is kept in the cache by the
//! identity of the file, so it is made once for as long as it stays there. The cache drops entries that are not
//! requested for 15 to 30 s. Everything is bounded: the size of a file, the number of files that wait, and the cache,
//! which includes the compressed forms.
//!
//! Only gzip is made. Every client accepts it, and its library is already part of the program. Encoders of brotli and
//! zstd pay off for files that are compressed once and sent often; such forms can be stored next to the plain files.

use super::entry::{Body, Content, Entry, Form};
use super::lookup::is_settled;
use crate::rules::Policy;
use landau_sys::path::{self, Status as FileStatus};
use landau_sys::stream;
use landau_wire::http::Status;
use landau_wire::http::encoding::{Coding, Codings};
use std::borrow::Cow;
use std::io::{Result as IoResult, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The coding of the compressed forms that the server makes.
pub(super) const MADE: Coding = Coding::Gzip;

/// The compression level, which is the default of `gzip`.
const LEVEL: u32 = 6;

/// Returns the cache key of a form's compressed form, which contains everything that the form depends on. No path
/// begins with NUL, and a login's key is shorter.
pub(super) fn key_of(form: &Form, policy: &Policy) -> Vec<u8> {
    let FileStatus {
        identity: (device, inode), size, modified_s, modified_ns, changed: (changed_s, changed_ns), ..
    } = form.status;
    let numbers = [device, inode, size, modified_s.cast_unsigned(), changed_s.cast_unsigned()].map(u64::to_le_bytes);
    // A form with a modification time in the future has another time in its field.
    let hidden = u8::from(policy.hidden.tag) | u8::from(policy.hidden.time) << 1 | u8::from(form.is_ahead) << 2;
    [
        &[0, hidden][..],
        numbers.as_flattened(),
        &modified_ns.to_le_bytes(),
        &changed_ns.to_le_bytes(),
        form.content_type.as_bytes(),
    ]
    .concat()
}

/// A file that is to be compressed.
#[derive(Debug)]
pub(super) struct Job {
    body: Body,
    status: FileStatus,
    content_type: String,
    policy: Arc<Policy>,
}

impl Job {
    pub(super) fn new(form: &Form, policy: &Arc<Policy>) -> Self {
        let (body, content_type) = (form.body.clone(), form.content_type.to_string());
        Self { body, status: form.status, content_type, policy: policy.clone() }
    }

    /// Makes the compressed form. If it would not be smaller, the result is an error, which is cached as well. Returns
    /// `None` if the file changes meanwhile, because the bytes read are then unreliable.
    pub(super) fn run(self) -> Option<Entry> {
        let plain = self.read()?;
        let mut made = Vec::new();
        made.try_reserve_exact(plain.len()).ok()?;
        let Some(made) = compressed(&plain, Bounded(made)).filter(|made| made.len() < plain.len()) else {
            return Some(Entry::Failure(Status::NOT_ACCEPTABLE));
        };
        // Only one of the two is in memory in addition to the copy that is kept.
        drop(plain);
        let status = FileStatus { size: made.len() as u64, ..self.status };
        let content = Content { body: Body::Memory(made.into()), status, is_settled: true };
        let mut forms = [None, None, None, None];
        forms[MADE as usize] = Some(Form::made(content, self.content_type, MADE, &self.policy));
        Some(Entry::File { forms: Box::new(forms), codings: Codings::NONE.with(MADE) })
    }

    /// Returns the bytes of the file; `None` if it changes, cannot be read or does not fit into memory.
    fn read(&self) -> Option<Cow<'_, [u8]>> {
        let file = match &self.body {
            Body::Memory(bytes) => return Some(Cow::Borrowed(bytes)),
            Body::File(file) => file,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut bytes, mut len) = (Vec::new(), 0);
        bytes.try_reserve_exact(self.status.size as usize).ok()?;
        bytes.resize(self.status.size as usize, 0);
        while len < bytes.len() {
            match stream::read_at(file, &mut bytes[len..], len as u64) {
                Ok(0) | Err(_) => return None,
                Ok(got) => len += got,
            }
        }
        let is_same = path::status(file).is_ok_and(|status| status == self.status);
        (is_same && is_settled(&self.status, now)).then_some(Cow::Owned(bytes))
    }
}

/// A writer that accepts only as many bytes as were reserved, and never allocates.
#[derive(Debug)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        let room = self.0.capacity() - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len().min(room))
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

/// Returns the compressed form, or `None` as soon as it does not fit.
fn compressed(plain: &[u8], made: Bounded) -> Option<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(made, flate2::Compression::new(LEVEL));
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(|made| made.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// The bytes read from a changing file may be a mixture of both versions.
    #[test]
    fn a_file_that_changes_is_not_compressed() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("f");
        std::fs::write(&path, "text ".repeat(1000)).unwrap();
        let file = Arc::new(OwnedFd::from(std::fs::File::open(&path).unwrap()));
        let status = path::status(&*file).unwrap();
        let run = |status| {
            let (body, policy) = (Body::File(file.clone()), Arc::default());
            Job { body, status, content_type: "text/plain".to_owned(), policy }.run()
        };
        // As if the file had been written a while ago; the time of the change is set by the kernel.
        let before = FileStatus { modified_s: status.modified_s - 1, ..status };
        assert!(run(before).is_none() && run(FileStatus { size: 6000, ..status }).is_none());
        let has_settled = || is_settled(&status, SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        while !has_settled() {
            // The file may settle between the check and the compression.
            assert!(run(status).is_none() || has_settled(), "it may change again without a trace");
            std::thread::yield_now();
        }
        assert!(matches!(run(status), Some(Entry::File { .. })));
        std::fs::write(&path, "other").unwrap();
        assert!(run(status).is_none());
    }
}
