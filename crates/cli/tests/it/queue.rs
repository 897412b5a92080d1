//! `landau queue`: an operator's commands on the queue of a relay, while the relay is running and when it is not.

use crate::relay::{Client, Running, mailbox};
use crate::support::{Room, eventually};
use std::process::Command;

/// Returns the messages that `landau queue` lists.
fn list(room: &Room) -> Vec<serde_json::Value> {
    let ran = room.landau(&["queue", "queue", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs `landau queue` on messages. Returns its last line.
fn change(room: &Room, words: &[&str]) -> String {
    let ran = room.landau(&[&["queue", "queue"], words].concat());
    assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
    ran.out.trim_end().to_owned()
}

fn connect(relay: &Running) -> Client {
    let mut client = Client::connect(relay.address).unwrap();
    client.reply().unwrap();
    client.command("EHLO c").unwrap();
    client
}

#[test]
fn messages_are_listed_held_deleted_and_released() {
    let room = Room::new();
    assert!(room.landau(&["queue", "queue"]).err.contains("not the queue of a relay"));
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let mut relay = Running::relay(&room, nowhere, &["--ledger", "ledger"]);
    let mut client = connect(&relay);
    for number in 0..3 {
        let from = format!("s{number}@x");
        client.deliver(&from, &["a@d", "b@d"], &format!("Subject: {number}\r\n\r\nx")).unwrap();
    }
    assert!(eventually(|| list(&room).iter().all(|message| message["reason"].is_string())));
    let messages = list(&room);
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!((&messages[1]["from"], &messages[1]["to"]), (&"s1@x".into(), &serde_json::json!(["a@d", "b@d"])));
    assert_eq!(room.landau(&["queue", "queue", "hold"]).status, Some(2), "it must name messages");
    assert_eq!(room.landau(&["queue", "queue", "hold", "1"]).status, Some(1), "there is no such message");
    assert_eq!(change(&room, &["hold", ids[0]]), "1 message held");
    assert_eq!(change(&room, &["delete", ids[1]]), "1 message deleted");
    // An attempt in progress ends first.
    let is_listed = |text: &str| text.contains("from <s0@x>  held\n") && text.ends_with("2 messages in the queue");
    assert!(eventually(|| is_listed(&change(&room, &[]))), "{}", change(&room, &[]));
    assert!(eventually(|| relay.totals()["recipients_deleted"] == 2));
    assert_eq!(relay.totals()["recipients_failed"], 0);
    let deleted = std::fs::read_to_string(room.file("ledger")).unwrap();
    assert_eq!(deleted.matches("\"state\":\"deleted\"").count(), 2, "{deleted}");
    relay.end();
    // Without a running relay, the command changes the files.
    let left: Vec<String> = list(&room).iter().map(|message| message["condition"].to_string()).collect();
    assert_eq!(left, ["\"held\"", "\"new\""]);
    assert_eq!(change(&room, &["delete", ids[2]]), "1 message deleted");
    let sink = Running::sink(&room, &[]);
    let mut relay = Running::relay(&room, sink.address, &[]);
    connect(&relay).deliver("s3@x", &["a@d"], "Subject: 3\r\n\r\nx").unwrap();
    assert!(eventually(|| relay.totals()["recipients_sent"] == 1));
    assert_eq!(relay.totals()["messages_held"], 1);
    assert_eq!(change(&room, &["release", "--all"]), "1 message released");
    let totals = relay.drain();
    assert_eq!((&totals["recipients_sent"], &totals["messages_held"]), (&3.into(), &0.into()), "{totals}");
    relay.end();
    sink.end();
    let mut subjects: Vec<bool> =
        mailbox(&room, "a@d").iter().map(|text| text.contains("\r\nSubject: 0\r\n")).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, [false, true]);
}

/// An unreadable message must not hide the others.
#[test]
fn a_message_that_cannot_be_read_is_listed() {
    let room = Room::new();
    let mut relay = Running::relay(&room, "127.0.0.1:1".parse().unwrap(), &["--retry-at-most", "1h"]);
    let mut client = connect(&relay);
    for number in 0..2 {
        client.deliver("s@x", &["a@d"], &format!("Subject: {number}\r\n\r\nx")).unwrap();
    }
    assert!(eventually(|| relay.totals()["recipients_deferred"] == 2));
    let mail = room.file("queue/00000001.mail");
    let mut bytes = std::fs::read(&mail).unwrap();
    // The first byte of the first envelope.
    bytes[16] ^= 0x55;
    std::fs::write(&mail, bytes).unwrap();
    let messages = list(&room);
    assert!(messages.len() == 2 && messages[0]["reason"].as_str().unwrap().contains("cannot be read"), "{messages:?}");
    assert_eq!(messages[1]["from"], "s@x");
    relay.end();
}

/// The address of a Unix socket is limited to 108 bytes; the name of a directory may be longer.
#[test]
fn a_queue_may_have_a_long_name() {
    let room = Room::new();
    let sink = Running::sink(&room, &[]);
    let (long, via) = (format!("queue/{}", "x".repeat(200)), sink.address.to_string());
    let words = ["mail", "--relay", "--queue", &long, "--via", &via, "--listen", "127.0.0.1:0", "--json"];
    let relay = Running::start(&mut room.command(&words));
    let ran = room.landau(&["queue", &long]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "0 messages in the queue\n"), "{ran:?}");
    relay.end();
    assert!(!room.file(&long).join("control").exists());
    sink.end();
}

#[test]
fn a_renamed_ledger_is_begun_again_at_sighup() {
    let room = Room::new();
    let sink = Running::sink(&room, &[]);
    let mut relay = Running::relay(&room, sink.address, &["--ledger", "ledger"]);
    let mut client = connect(&relay);
    client.deliver("s@x", &["a@d"], "Subject: 1\r\n\r\nx").unwrap();
    relay.drain();
    std::fs::rename(room.file("ledger"), room.file("ledger.1")).unwrap();
    relay.signal("-HUP");
    assert!(eventually(|| room.file("ledger").exists()));
    client.deliver("s@x", &["b@d"], "Subject: 2\r\n\r\nx").unwrap();
    relay.drain();
    relay.end();
    sink.end();
    let [old, new] = ["ledger.1", "ledger"].map(|name| std::fs::read_to_string(room.file(name)).unwrap());
    assert!(old.contains("a@d") && !old.contains("b@d") && new.contains("b@d"), "{old}{new}");
}

/// By default SIGXFSZ would end the relay at the first write beyond the limit.
#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    let room = Room::new();
    let sink = Running::sink(&room, &[]);
    let via = sink.address.to_string();
    let words = ["mail", "--relay", "--queue", "queue", "--via", &via, "--listen", "127.0.0.1:0", "--json"];
    let landau = room.command(&words);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 64; exec \"$@\"", "sh"]).arg(landau.get_program()).args(landau.get_args());
    let mut relay = Running::start(limited.current_dir(room.path()));
    let mut client = connect(&relay);
    let content = format!("Subject: a\r\n\r\n{}", ("x".repeat(78) + "\r\n").repeat(200));
    let replies: Vec<String> = (0..10).map(|_| client.deliver("s@x", &["a@d"], &content).unwrap()).collect();
    let accepted = replies.iter().filter(|reply| reply.starts_with("250 ")).count();
    assert!(replies.iter().all(|reply| reply.starts_with("250 ") || reply.starts_with("452 ")), "{replies:?}");
    assert!((1..10).contains(&accepted), "{replies:?}");
    relay.drain();
    relay.end();
    sink.end();
    assert_eq!(mailbox(&room, "a@d").len(), accepted);
}
