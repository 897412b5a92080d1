//! Tests of the receiver's sessions.

use super::hostile::talk;

/// A client sends the commands of a message at once (RFC 2920). Those after a MAIL with reply 452 once got 503, which
/// counted as errors, so that the session ended after seven messages. A client that takes 5yz literally gave up the
/// recipients.
#[test]
fn commands_behind_a_mail_without_room_get_its_reply_and_are_not_counted() {
    let message = "MAIL FROM:<a@b> SIZE=5000\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n";
    let chunked = "MAIL FROM:<a@b> SIZE=5000\r\nRCPT TO:<c@d>\r\nBDAT 3\r\nabcBDAT 3 LAST\r\ndef";
    let script = format!("EHLO c\r\n{}RSET\r\nDATA\r\nMAIL FROM:<a@b>\r\n", [message, chunked].concat().repeat(20));
    // The queue has 5,000 bytes.
    let (codes, counts) = talk(0b1000, script.as_bytes());
    let counted = |name: &str| counts.iter().find(|(counter, _)| *counter == name).map(|(_, value)| *value);
    assert_eq!(codes[..2], [220, 250]);
    let (refused, rest) = codes[2..].split_at(40 * 4);
    assert!(refused.iter().all(|code| *code == 452), "{refused:?}");
    assert_eq!(rest, [250, 503, 250], "what is not behind such a MAIL is an error");
    assert_eq!((counted("queue_full"), counted("errors")), (Some(40), Some(41)));
    // A client that does not stop is not a sender of mail.
    let endless = ["EHLO c\r\nMAIL FROM:<a@b> SIZE=5000\r\n", &"RCPT TO:<c@d>\r\n".repeat(1100)].concat();
    let (codes, _) = talk(0b1000, endless.as_bytes());
    assert_eq!((codes.len(), codes.last()), (3 + 1000 + 20 + 1, Some(&421)));
}
