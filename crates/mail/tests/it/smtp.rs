//! Tests of SMTP from the client's side: the table of smuggling attempts, and mailboxes.

use crate::smuggling::{self, Answer};
use crate::support::Running;
use landau_mail::sink::mailbox::Mailboxes;
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use std::path::Path;

/// Returns the files of a recipient's mailbox, in the order of delivery.
fn delivered(root: &Path, recipient: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(root.join(recipient).join("new")) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn stored(root: &Path) -> Running {
    let smtp = Smtp::new("sink.example", Profiles::default(), 1);
    Running::smtp(smtp.with_mailboxes(Mailboxes::create(root).unwrap()))
}

/// The sink behaves as in the table, however the bytes are split. The attacker's message arrives only if the table
/// counts it as a separate message.
#[test]
fn no_message_is_smuggled() {
    let attempts = smuggling::attempts();
    assert!(attempts.len() >= 40);
    for attempt in &attempts {
        for size in [1, 7, usize::MAX] {
            let room = tempfile::tempdir().unwrap();
            let sink = stored(&room.path().join("mail"));
            let mut client = sink.connect();
            let (codes, closes) = client.attempt(attempt, size);
            let messages = sink.remote.total("messages") as usize;
            assert_eq!(Answer { codes, closes, messages }, attempt.answer, "{} by {size}", attempt.name);
            let smuggled = delivered(&room.path().join("mail"), "v@y").len();
            assert_eq!(smuggled, messages.saturating_sub(1), "{} by {size}", attempt.name);
        }
    }
}

#[test]
fn mailboxes_hold_the_bytes_that_were_sent() {
    let room = tempfile::tempdir().unwrap();
    let root = room.path().join("mail");
    let sink = stored(&root);
    let mut client = sink.connect();
    client.send(
        b"EHLO c.example\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<One@Y.example>\r\nRCPT TO:<two@y.example>\r\nDATA\r\n",
    );
    assert_eq!([(); 6].map(|()| client.reply()), [220, 250, 250, 250, 250, 354]);
    client.send(b"Subject: x\r\n\r\n..\r\n\x80\r\n.\r\n");
    assert_eq!(client.reply(), 250);
    client.send(b"MAIL FROM:<>\r\nRCPT TO:<two@y.example>\r\nBDAT 4\r\n.\r\n.BDAT 5 LAST\r\n\r\na\r\n");
    assert_eq!([(); 4].map(|()| client.reply()), [250; 4]);
    assert_eq!(client.command("QUIT"), 221);
    assert_eq!(client.reply(), 0);
    let first = b"Subject: x\r\n\r\n.\r\n\x80\r\n".to_vec();
    assert_eq!(delivered(&root, "One@y.example"), std::slice::from_ref(&first));
    assert_eq!(delivered(&root, "two@y.example"), [first, b".\r\n.\r\na\r\n".to_vec()]);
    assert_eq!((sink.remote.total("messages"), sink.remote.total("recipients")), (2, 3));
}

/// A message that cannot be stored is not accepted.
#[test]
fn a_mailbox_that_cannot_be_written_defers_the_message() {
    let room = tempfile::tempdir().unwrap();
    let root = room.path().join("mail");
    let sink = stored(&root);
    // A file occupies the name of the mailbox.
    std::fs::write(root.join("a@y.example"), "").unwrap();
    let mut client = sink.connect();
    client.send(b"HELO c.example\r\nMAIL FROM:<>\r\nRCPT TO:<a@y.example>\r\nDATA\r\nx\r\n.\r\n");
    assert_eq!([(); 6].map(|()| client.reply()), [220, 250, 250, 250, 354, 451]);
    assert_eq!((sink.remote.total("messages"), sink.remote.total("mailbox_errors")), (0, 1));
}
