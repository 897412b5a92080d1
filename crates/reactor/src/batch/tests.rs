//! Batches: the number of calls, the order of bytes, and errors.

use super::send::IOV_MAX;
use super::*;
use landau_sys::stream;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static CORKS: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// Called before each system call that sends bytes.
pub(super) fn count_call() {
    CALLS.set(CALLS.get() + 1);
}

/// Called when a socket is corked or uncorked.
pub(super) fn note_cork(is_corked: bool) {
    CORKS.with_borrow_mut(|corks| corks.push(is_corked));
}

/// Returns the result of a closure, and the number of calls it made that send bytes.
fn calls<T>(what: impl FnOnce() -> T) -> (T, u32) {
    let before = CALLS.get();
    let result = what();
    (result, CALLS.get() - before)
}

fn file_of(bytes: &[u8]) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.into()
}

/// Bytes whose ranges differ from one another.
fn pattern(begin: usize, count: usize) -> Vec<u8> {
    (begin..begin + count).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

fn read_some(from: &mut impl Read, got: &mut Vec<u8>, room: usize) {
    let mut buffer = vec![0; room];
    if let Ok(count) = from.read(&mut buffer) {
        got.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn consecutive_buffers_are_one_call() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let borrowed = pattern(0, 10);
    let (mut batch, mut rest) = (Queue::new(), Queue::new());
    batch.push(Bytes::Borrowed(&borrowed));
    rest.push(Bytes::Owned(pattern(10, 10).into()));
    rest.push(Bytes::Owned(Box::default()));
    rest.push_from(Bytes::Shared(pattern(0, 30).into()), 20);
    batch.append(&mut rest);
    assert!(rest.is_empty());
    assert_eq!(batch.bytes_left(), 30);
    let (progress, count) = calls(|| batch.send(&here).unwrap());
    assert_eq!((progress, count, batch.is_empty()), (Progress::Done, 1, true));
    let mut got = [0; 30];
    there.read_exact(&mut got).unwrap();
    assert_eq!(got[..], pattern(0, 30));
}

#[test]
fn a_header_and_a_file_are_two_calls() {
    let (here, mut there) = tcp_pair();
    let file = Arc::new(file_of(&pattern(0, 5000)));
    for round in 0..3 {
        let mut batch = Batch::new();
        batch.push(Bytes::Borrowed(b"head"));
        batch.push_file(file.clone(), round, 4000);
        let (progress, count) = calls(|| batch.send(&here).unwrap());
        assert_eq!((progress, count), (Progress::Done, 2));
        let mut got = Vec::new();
        while got.len() < 4004 {
            read_some(&mut there, &mut got, 8000);
        }
        assert!(got[..4] == *b"head" && got[4..] == pattern(0, 5000)[round as usize..][..4000]);
    }
}

#[test]
fn one_call_sends_at_most_iov_max_buffers() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let mut batch = Batch::new();
    for index in 0..=IOV_MAX * 2 {
        batch.push(Bytes::Owned(pattern(index * 3, 3).into()));
    }
    let (progress, count) = calls(|| batch.send(&here).unwrap());
    assert_eq!((progress, count), (Progress::Done, 3));
    let mut got = vec![0; (IOV_MAX * 2 + 1) * 3];
    there.read_exact(&mut got).unwrap();
    assert_eq!(got, pattern(0, got.len()));
}

#[test]
fn a_full_socket_is_not_tried_again() {
    let (here, _there) = tcp_pair();
    let mut batch = Batch::new();
    batch.push(Bytes::Owned(vec![0; 64 << 20].into()));
    let (progress, count) = calls(|| batch.send(&here).unwrap());
    assert!(matches!(progress, Progress::Blocked(sent) if sent > 0) && count == 1, "{progress:?} {count}");
}

/// Sends `headbody` and returns whether the kernel holds it back, so that the end of the stream leaves with it.
#[cfg(target_os = "linux")]
fn is_held_back(send: impl Fn(&mut Batch, &TcpStream) -> Progress) -> bool {
    let (mut there, here) = tcp_pair();
    let mut batch = Batch::new();
    batch.push(Bytes::Borrowed(b"head"));
    batch.push(Bytes::Borrowed(b"body"));
    assert_eq!(send(&mut batch, &here), Progress::Done);
    // Loopback delivers within the call that sends.
    let is_held_back = there.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    here.shutdown(std::net::Shutdown::Write).unwrap();
    there.set_nonblocking(false).unwrap();
    let mut rest = Vec::new();
    there.read_to_end(&mut rest).unwrap();
    assert!(b"headbody".ends_with(&rest) && rest.len() >= 7, "{rest:?}");
    is_held_back
}

/// The kernel holds bytes back for 200 ms. A thread that is not scheduled for longer between sending and reading sees
/// them arrive. If a busy kernel delivers late, a thread does not see data that was sent at once. Hence the attempts.
#[test]
#[cfg(target_os = "linux")]
fn bytes_sent_before_a_shutdown_leave_with_it() {
    assert!((0..50).any(|_| is_held_back(|batch, to| batch.send_before_shutdown(to).unwrap())));
    assert!((0..50).any(|_| !is_held_back(|batch, to| batch.send(to).unwrap())));
}

#[test]
fn a_large_file_takes_turns() {
    let all = 3 * TURN_BYTES;
    let mut batch = Batch::new();
    batch.push_file(file_of(&vec![1; all]), 0, all as u64);
    let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let mut yields = 0;
    loop {
        match batch.write(&null).unwrap() {
            Progress::Done => break,
            Progress::Yielded(count) => yields += usize::from(count >= TURN_BYTES),
            Progress::Blocked(_) => panic!("nothing blocks here"),
        }
    }
    assert_eq!(yields, 2);
}

/// Otherwise the kernel would hold the last, partial segment back for 200 ms.
#[test]
#[cfg(target_os = "linux")]
fn a_socket_is_uncorked_at_the_end_of_a_large_file() {
    let file = Arc::new(file_of(&pattern(0, 2 * TURN_BYTES + 1000)));
    let corks_of = |count: usize| {
        let (mut there, here) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        let mut batch = Batch::new();
        batch.push_file(file.clone(), 0, count as u64);
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; count];
            there.read_exact(&mut all).unwrap();
            assert!(all == pattern(0, count), "{count} bytes arrive as they are");
        });
        CORKS.take();
        while batch.send(&here).unwrap() != Progress::Done {}
        reader.join().unwrap();
        CORKS.take()
    };
    assert_eq!(corks_of(2 * TURN_BYTES + 1000), [true, false]);
    assert!(corks_of(TURN_BYTES).is_empty());
}

/// A turn reads only the file that `next_file` returned before it, whatever buffers are around it.
#[test]
fn a_turn_reads_one_file() {
    let (here, mut there) = tcp_pair();
    let file = Arc::new(file_of(&pattern(0, 5000)));
    let mut batch = Batch::new();
    for (head, offset) in [(&b"one"[..], 100), (b"two", 3000)] {
        batch.push(Bytes::Borrowed(head));
        batch.push_file(file.clone(), offset, 1000);
    }
    batch.push(Bytes::Borrowed(b"end"));
    let next = |batch: &Batch| batch.next_file().map(|(_, offset, len)| (offset, len));
    assert_eq!(next(&batch), Some((100, 1000)));
    assert_eq!(batch.send(&here).unwrap(), Progress::Yielded(1006), "a head and a file, and the next one's head");
    assert_eq!(next(&batch), Some((3000, 1000)));
    let mut plain = Vec::new();
    batch.push_file(file.clone(), 0, 10);
    assert_eq!(batch.read(&mut plain, 9000).unwrap(), 1003);
    assert_eq!((next(&batch), batch.read(&mut plain, 9000).unwrap()), (Some((0, 10)), 10));
    assert_eq!((next(&batch), batch.is_empty()), (None, true));
    batch.push_file(file.clone(), 7, 20);
    let taken = batch.pop_cached(10).unwrap().unwrap();
    assert_eq!((taken.0.bytes(), taken.1, next(&batch)), (&pattern(0, 5000)[7..17], 0, Some((17, 10))));
    let mut got = Vec::new();
    while got.len() < 1006 {
        read_some(&mut there, &mut got, 2000);
    }
    got.extend(plain);
    let all = pattern(0, 5000);
    assert!(got == [b"one", &all[100..1100], b"two", &all[3000..4000], b"end", &all[..10]].concat());
}

#[test]
fn a_truncated_file_is_an_error() {
    let (here, _there) = UnixStream::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1000).unwrap();
    let shared = Arc::new(OwnedFd::from(file.try_clone().unwrap()));
    let mut batch = Batch::new();
    batch.push_file(shared, 100, 900);
    file.set_len(400).unwrap();
    let error = batch.send(&here).unwrap_err();
    assert!(matches!(error, Error::Truncated { offset: 400, missing: 600 }), "{error}");
    assert!(error.to_string().contains("600 bytes missing at offset 400"));
    assert_eq!(batch.bytes_left(), 600);
    batch.clear();
    assert!(batch.is_empty());
}

/// Guards against a call that moves nothing, and only reports that the socket is full.
#[test]
#[cfg(target_os = "linux")]
fn a_short_send_of_a_file_is_not_repeated() {
    const LEN: usize = 32 << 20;
    let (mut client, server) = tcp_pair();
    let mut batch = Batch::new();
    batch.push_file(file_of(&pattern(0, LEN)), 0, LEN as u64);
    let (mut got, mut full_count) = (Vec::new(), 0);
    while got.len() < LEN {
        let (progress, count) = calls(|| batch.send(&server).unwrap());
        if let Progress::Blocked(sent) = progress {
            // The socket may have got room before it was asked.
            full_count += u32::from(count == 1 && sent > 0);
        }
        read_some(&mut client, &mut got, 64 << 10);
    }
    assert!(full_count > 0 && got == pattern(0, LEN));
}

/// The lock of the file shows this: the kernel releases it when the last descriptor is closed.
#[test]
fn an_owned_file_is_closed_after_it_was_sent() {
    let (here, _there) = UnixStream::pair().unwrap();
    let mut named = tempfile::NamedTempFile::new().unwrap();
    named.write_all(b"abc").unwrap();
    let file = named.reopen().unwrap();
    file.lock().unwrap();
    let mut batch = Batch::new();
    batch.push_file(OwnedFd::from(file), 0, 3);
    assert!(named.as_file().try_lock().is_err());
    assert_eq!(batch.send(&here).unwrap(), Progress::Done);
    named.as_file().try_lock().unwrap();
}

#[test]
fn writing_to_a_file_opened_for_appending_copies() {
    let mut to = tempfile::NamedTempFile::new().unwrap();
    let appending = std::fs::File::options().append(true).open(to.path()).unwrap();
    let mut batch = Batch::new();
    batch.push(Bytes::Borrowed(b"head"));
    batch.push_file(file_of(&pattern(0, 40_000)), 7, 30_000);
    assert_eq!(batch.write(&appending).unwrap(), Progress::Done);
    let mut got = Vec::new();
    to.read_to_end(&mut got).unwrap();
    assert!(got[..4] == *b"head" && got[4..] == pattern(0, 40_000)[7..30_007]);
}

#[test]
fn a_closed_peer_is_an_error() {
    let (here, there) = UnixStream::pair().unwrap();
    drop(there);
    let mut batch = Batch::new();
    batch.push(Bytes::Borrowed(b"x"));
    assert!(matches!(batch.send(&here).unwrap_err(), Error::System(_)));
}

#[derive(Debug, Clone)]
enum Part {
    Borrowed(usize),
    Owned(usize),
    Shared(usize, usize),
    File(usize, usize),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let count = prop_oneof![0..40_usize, 0..6_000_usize];
    let part = prop_oneof![
        count.clone().prop_map(Part::Borrowed),
        count.clone().prop_map(Part::Owned),
        (count.clone(), 0..50_usize).prop_map(|(count, skip)| Part::Shared(count, skip)),
        (prop_oneof![1..40_usize, 1..50_000_usize], 0..9_000_usize).prop_map(|(count, at)| Part::File(count, at)),
    ];
    prop::collection::vec(part, 0..25)
}

/// Queues the parts and returns their bytes.
fn fill<'a>(batch: &mut Queue<'a>, parts: &[Part], lent: &'a [u8], file: &Arc<OwnedFd>) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let begin = index * 77;
        match *part {
            Part::Borrowed(count) => {
                batch.push(Bytes::Borrowed(&lent[begin..begin + count]));
                all.extend_from_slice(&lent[begin..begin + count]);
            }
            Part::Owned(count) => {
                batch.push(Bytes::Owned(pattern(begin, count).into()));
                all.extend(pattern(begin, count));
            }
            Part::Shared(count, skip) => {
                batch.push_from(Bytes::Shared(pattern(begin, count).into()), skip);
                all.extend(pattern(begin, count).into_iter().skip(skip));
            }
            Part::File(count, at) => {
                batch.push_file(file.clone(), at as u64, count as u64);
                all.extend_from_slice(&lent[at..at + count]);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// This holds however little fits at a time, and wherever a call stops.
    #[test]
    fn every_byte_arrives_in_order(
        parts in parts(),
        room in prop_oneof![1..50_usize, 500..20_000_usize],
        kind in 0..3_u8,
    ) {
        let lent = pattern(0, 60_000);
        let file = Arc::new(file_of(&lent));
        let mut batch = Queue::new();
        let given = fill(&mut batch, &parts, &lent, &file);
        prop_assert_eq!(batch.bytes_left(), given.len() as u64);
        let (mut from, to, is_socket): (Box<dyn Read>, OwnedFd, bool) = match kind {
            0 => {
                let (here, there) = UnixStream::pair().unwrap();
                stream::set_send_buffer(&here, 1).unwrap();
                there.set_nonblocking(true).unwrap();
                (Box::new(there), here.into(), true)
            }
            1 => {
                let (here, there) = tcp_pair();
                stream::set_send_buffer(&here, 1).unwrap();
                (Box::new(there), here.into(), true)
            }
            _ => {
                let (reading, writing) = std::io::pipe().unwrap();
                stream::set_blocking(&reading, false).unwrap();
                (Box::new(reading), writing.into(), false)
            }
        };
        stream::set_blocking(&to, false).unwrap();
        let mut got = Vec::new();
        loop {
            let before = batch.bytes_left();
            let progress = if is_socket { batch.send(&to) } else { batch.write(&to) }.unwrap();
            if let Progress::Blocked(count) | Progress::Yielded(count) = progress {
                prop_assert_eq!(before - batch.bytes_left(), count as u64);
            } else {
                prop_assert!(batch.is_empty());
            }
            read_some(&mut from, &mut got, room.max(given.len() / 200));
            if progress == Progress::Done && got.len() >= given.len() {
                break;
            }
        }
        prop_assert!(got == given, "{} bytes of {}", got.len(), given.len());
    }
}
