//! The minimal server: one thread, one `epoll` set, and the same prepared response to any data. It parses, checks and
//! limits nothing: any additional cost of a real server is the cost of what that server does.
//!
//! `cargo run --release -p landau-reactor --example bare -- PORT BODY_BYTES HEAD_BYTES`

use landau_sys::epoll::{Epoll, Events, READ};
use landau_sys::socket::{Address, Family, bind};
use landau_sys::stream;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|argument| argument.parse()).collect::<Result<_, _>>()?;
    let [port, body_bytes, head_bytes] = arguments[..] else {
        return Err("usage: bare PORT BODY_BYTES HEAD_BYTES".into());
    };
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\nX: ");
    // The head is as long as that of the server it is compared with.
    let padding = head_bytes.saturating_sub(response.len() + 4);
    response.extend(std::iter::repeat_n('x', padding));
    response.push_str("\r\n\r\n");
    response.extend(std::iter::repeat_n('b', body_bytes));

    let listener = stream::stream(Family::V4)?;
    stream::set_reuse_address(&listener)?;
    bind(&listener, &Address::from(SocketAddr::from(([127, 0, 0, 1], port as u16))))?;
    stream::listen(&listener, 4096)?;
    stream::set_no_delay(&listener)?;
    let listener_key = listener.as_raw_fd() as u64;
    let (set, mut events, mut buffer) = (Epoll::new()?, Events::with_capacity(256), vec![0; 64 << 10]);
    set.add(listener.as_raw_fd(), listener_key, READ)?;
    let mut table: Vec<Option<OwnedFd>> = Vec::new();
    let mut closed: Vec<u64> = Vec::new();
    loop {
        set.wait(&mut events, -1)?;
        for (key, _) in events.iter() {
            if key == listener_key {
                while let Ok(fd) = stream::accept(&listener) {
                    let index = fd.as_raw_fd() as usize;
                    set.add(fd.as_raw_fd(), index as u64, READ)?;
                    table.resize_with(table.len().max(index + 1), || None);
                    table[index] = Some(fd);
                }
            } else if let Some(Some(fd)) = table.get(key as usize) {
                match stream::receive(fd, &mut buffer) {
                    Ok(1..) => {
                        stream::send(fd, response.as_bytes(), false)?;
                    }
                    _ => closed.push(key),
                }
            }
        }
        for key in closed.drain(..) {
            table[key as usize] = None;
        }
    }
}
