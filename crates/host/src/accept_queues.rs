//! The accept queues of listening TCP sockets, which the kernel's `sock_diag(7)` shows to any user. If `tcp_diag` is a
//! module, the kernel loads it, as it does for `ss`.

use std::collections::BTreeMap;

/// The accept queue of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptQueue {
    /// The argument of `listen()`, limited to `net.core.somaxconn`.
    pub(crate) backlog: u64,
    /// Handshake packets that the socket has dropped, for a full queue or another reason; `None` if the kernel does not
    /// report it.
    pub(crate) drops: Option<u64>,
}

/// Returns the accept queues of this thread's network namespace, keyed by socket inode.
///
/// # Errors
///
/// Fails if the kernel has no `tcp_diag`.
#[cfg(target_os = "linux")]
pub(crate) fn read() -> std::io::Result<BTreeMap<u64, AcceptQueue>> {
    use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
    use netlink_packet_sock_diag::inet::SocketId;
    use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut queues = BTreeMap::new();
    for (family, any) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        dump(&socket, family, any, &mut queues)?;
    }
    Ok(queues)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read() -> std::io::Result<BTreeMap<u64, AcceptQueue>> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Requests the listening sockets of a family, and reads all responses.
#[cfg(target_os = "linux")]
fn dump(
    socket: &netlink_sys::Socket,
    family: u8,
    any: netlink_packet_sock_diag::inet::SocketId,
    queues: &mut BTreeMap<u64, AcceptQueue>,
) -> std::io::Result<()> {
    use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::constants::IPPROTO_TCP;
    use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, StateFlags};
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::SKMEMINFO,
        states: StateFlags::LISTEN,
        socket_id: any,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let unreadable = |error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    loop {
        let (answers, _) = socket.recv_from_full()?;
        let mut rest = &answers[..];
        while !rest.is_empty() {
            let answer = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(unreadable)?;
            match answer.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                    queues.insert(u64::from(found.header.inode), queue(&found));
                }
                // An error of the dump, such as a missing module.
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(std::io::Error::from_raw_os_error(-done.code));
                }
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            // Each message begins at a multiple of four bytes.
            let length = (answer.header.length as usize).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// Returns the accept queue of a listening socket, whose `Send-Q` is the backlog.
#[cfg(target_os = "linux")]
fn queue(found: &netlink_packet_sock_diag::inet::InetResponse) -> AcceptQueue {
    use netlink_packet_sock_diag::inet::nlas::Nla;
    let drops = found.nlas.iter().find_map(|attribute| match attribute {
        Nla::MemInfo(memory) => Some(u64::from(memory.drops)),
        _ => None,
    });
    AcceptQueue { backlog: u64::from(found.header.send_queue), drops }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    /// Guards against the numbers of another socket: each socket has a different backlog.
    #[test]
    fn a_listening_socket_has_its_own_backlog() {
        let listeners = ["127.0.0.1:0", "127.0.0.1:0", "[::1]:0"].map(TcpListener::bind);
        let mut seen = Vec::new();
        for (listener, backlog) in listeners.into_iter().flatten().zip([7, 11, 13]) {
            // A second listen() changes the backlog.
            landau_sys::stream::listen(&listener, backlog).unwrap();
            let link = std::fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
            let inode = crate::links::socket(link.to_str().unwrap()).unwrap();
            let expected = AcceptQueue { backlog: u64::from(backlog), drops: Some(0) };
            assert_eq!(read().unwrap()[&inode], expected);
            seen.push(listener);
        }
    }
}
