//! The bare loop: one thread, one `epoll`, and for whatever comes the same prepared answer. It parses nothing, checks
//! nothing and bounds nothing: what a server costs beyond it is what the server does.
//!
//! `cargo run --release -p landau-reactor --example bare -- PORT BODY_BYTES HEAD_BYTES`

use landau_sys::epoll::{Epoll, Events, READ};
use landau_sys::socket::{Address, Family, bind};
use landau_sys::stream;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [port, body_bytes, head_bytes] = words[..] else { return Err("bare PORT BODY_BYTES HEAD_BYTES".into()) };
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\nX: ");
    // As long as the head of the server that it is compared with.
    let padding = head_bytes.saturating_sub(answer.len() + 4);
    answer.extend(std::iter::repeat_n('x', padding));
    answer.push_str("\r\n\r\n");
    answer.extend(std::iter::repeat_n('b', body_bytes));

    let listener = stream::stream(Family::V4)?;
    stream::set_reuse_address(&listener)?;
    bind(&listener, &Address::from(SocketAddr::from(([127, 0, 0, 1], port as u16))))?;
    stream::listen(&listener, 4096)?;
    stream::set_no_delay(&listener)?;
    let door = listener.as_raw_fd() as u64;
    let (set, mut events, mut buffer) = (Epoll::new()?, Events::with_capacity(256), vec![0; 64 << 10]);
    set.add(listener.as_raw_fd(), door, READ)?;
    let mut table: Vec<Option<OwnedFd>> = Vec::new();
    let mut gone: Vec<u64> = Vec::new();
    loop {
        set.wait(&mut events, -1)?;
        for (key, _) in events.iter() {
            if key == door {
                while let Ok(fd) = stream::accept(&listener) {
                    let index = fd.as_raw_fd() as usize;
                    set.add(fd.as_raw_fd(), index as u64, READ)?;
                    table.resize_with(table.len().max(index + 1), || None);
                    table[index] = Some(fd);
                }
            } else if let Some(Some(fd)) = table.get(key as usize) {
                match stream::receive(fd, &mut buffer) {
                    Ok(1..) => {
                        stream::send(fd, answer.as_bytes(), false)?;
                    }
                    _ => gone.push(key),
                }
            }
        }
        for key in gone.drain(..) {
            table[key as usize] = None;
        }
    }
}
