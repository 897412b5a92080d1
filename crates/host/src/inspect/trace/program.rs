//! The programs that run in the kernel, as instructions generated for the running kernel's structures.
//!
//! `sys_enter` runs at each system call of the host and must be cheap: for calls of other programs it ends after one
//! lookup. For calls that name a descriptor, the program follows the task's descriptor table to the socket, as the
//! kernel does. It records the socket's inode number, which is unique and also visible in `/proc`.

use super::btf::Types;
use super::{BORN, IS_BORN, IS_ENDED, IS_EXECUTED, IS_THREAD};
use crate::inspect::calls::{About, Action, RING, ZERO_COPY};
use landau_sys::bpf::Jump::{self, Eq};
use landau_sys::bpf::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use landau_sys::bpf::Size::{self, Byte, Double, Half, Word};
use landau_sys::bpf::{Alu, Assembler, Helper, Instruction, Map};

/// Byte offsets in the kernel's structures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    task_pid: u32,
    task_process: u32,
    task_files: u32,
    files_table: u32,
    table_size: u32,
    table_slots: u32,
    file_inode: u32,
    file_private: u32,
    inode_mode: u32,
    inode_number: u32,
    socket_type: u32,
    socket_sock: u32,
    sock_port: u32,
    sock_family: u32,
    sock_state: u32,
    sock_network: u32,
    network_inode: u32,
    /// `None` on a kernel without `io_uring`.
    request_operation: Option<u32>,
}

impl Layout {
    /// Finds the members; the error is the name of the first missing one.
    pub(super) fn find(types: &Types) -> Result<Self, &'static str> {
        let of = |structure, path| types.offset(structure, path).ok_or(path);
        Ok(Self {
            task_pid: of("task_struct", "pid")?,
            task_process: of("task_struct", "tgid")?,
            task_files: of("task_struct", "files")?,
            files_table: of("files_struct", "fdt")?,
            table_size: of("fdtable", "max_fds")?,
            table_slots: of("fdtable", "fd")?,
            file_inode: of("file", "f_inode")?,
            file_private: of("file", "private_data")?,
            inode_mode: of("inode", "i_mode")?,
            inode_number: of("inode", "i_ino")?,
            socket_type: of("socket", "type")?,
            socket_sock: of("socket", "sk")?,
            sock_port: of("sock", "__sk_common.skc_num")?,
            sock_family: of("sock", "__sk_common.skc_family")?,
            sock_state: of("sock", "__sk_common.skc_state")?,
            sock_network: of("sock", "__sk_common.skc_net.net")?,
            network_inode: of("net", "ns.inum")?,
            request_operation: types.offset("io_kiocb", "opcode"),
        })
    }
}

/// The maps shared by the programs and this process.
#[derive(Debug)]
pub(super) struct Maps {
    /// Maps a thread identifier to its [`super::Task`].
    pub(super) tasks: Map,
    /// Maps the inode of a connection's socket to its last visit.
    pub(super) connections: Map,
    /// Maps the group, number and [`About`] of a call to its count.
    pub(super) calls: Map,
    /// Maps the number of a call to its encoded [`Action`].
    pub(super) actions: Map,
    /// The counters, by the numbers below.
    pub(super) counters: Map,
}

/// Numbers of the counters.
pub(super) const ESTABLISHED: u32 = 0;
pub(super) const REPLIES: u32 = 1;
pub(super) const LOST: u32 = 2;
pub(super) const FORKS: u32 = 3;
pub(super) const THREADS: u32 = 4;
pub(super) const EXECUTIONS: u32 = 5;
/// Not a counter, but the number of the time slice in which calls are counted.
pub(super) const SLICE: u32 = 6;
pub(super) const COUNTERS: u32 = 7;

/// Calls with this or a higher number are not examined.
pub(super) const CALLS: u32 = 512;

/// The size of a task in the map in bytes, and the offsets of its members.
pub(super) const TASK_BYTES: u32 = 80;
mod task {
    pub(super) const PROCESS: i16 = 0;
    pub(super) const GROUP: i16 = 4;
    pub(super) const PARENT: i16 = 8;
    pub(super) const FLAGS: i16 = 12;
    pub(super) const LAST: i16 = 16;
    pub(super) const CONNECTIONS: i16 = 24;
    pub(super) const RETURNS: i16 = 28;
    pub(super) const OVERLAPS: i16 = 32;
    pub(super) const MOVES: i16 = 36;
    pub(super) const HANDOVERS: i16 = 40;
    pub(super) const ACCEPTS: i16 = 44;
    pub(super) const WAITS: i16 = 48;
    pub(super) const RECEIVES: i16 = 52;
    pub(super) const SENDS: i16 = 56;
    pub(super) const ELSEWHERE: i16 = 60;
    pub(super) const BORN_NS: i16 = 64;
    pub(super) const ENDED_NS: i16 = 72;
}

/// The size of a connection in the map in bytes, and the offsets of its members.
pub(super) const CONNECTION_BYTES: u32 = 24;
mod connection {
    pub(super) const TASK: i16 = 0;
    pub(super) const PROCESS: i16 = 4;
    pub(super) const DIRECTION: i16 = 8;
    pub(super) const CLOSED: i16 = 12;
    pub(super) const SLICE: i16 = 16;
}

/// The directions of the last visit.
const RECEIVED: i32 = 1;
const SENT: i32 = 2;

/// The size of a key in the map of calls in bytes: group, number, [`About`].
pub(super) const CALL_BYTES: u32 = 8;

/// Offsets in the stack frame.
mod frame {
    pub(super) const TASK: i16 = -8;
    pub(super) const CALL: i16 = -16;
    pub(super) const ONE: i16 = -24;
    pub(super) const ARGUMENT: i16 = -32;
    pub(super) const POINTER: i16 = -40;
    pub(super) const FILE: i16 = -48;
    pub(super) const INODE: i16 = -56;
    pub(super) const SMALL: i16 = -64;
    pub(super) const SLICE: i16 = -72;
    pub(super) const CONNECTION: i16 = -96;
    pub(super) const INDEX: i16 = -104;
    pub(super) const DIRECTION: i16 = -108;
    pub(super) const NEW_TASK: i16 = -192;
}

/// The kinds of actions, in the low byte of an encoded action.
const RECEIVE: i32 = 1;
const SEND: i32 = 2;
const ACCEPT: i32 = 3;
const WAIT: i32 = 4;
const POLL: i32 = 5;
const SELECT: i32 = 6;
const EPOLL_CONTROL: i32 = 7;
const CLOSE: i32 = 8;

/// Encodes an action: its kind, and the offsets of its arguments in the registers of the interrupted program.
pub(super) fn encode(action: Action, arguments: &[u16; 6]) -> u32 {
    let offset = |argument: u8| u32::from(arguments[usize::from(argument)]);
    let (kind, first, flags) = match action {
        Action::Receive(fd) => (RECEIVE, offset(fd), 0),
        Action::Send(fd) => (SEND, offset(fd), 0),
        Action::SendFlags(fd, flags) => (SEND, offset(fd), offset(flags)),
        Action::Accept(fd) => (ACCEPT, offset(fd), 0),
        Action::Wait => (WAIT, 0, 0),
        Action::Poll(count) => (POLL, offset(count), 0),
        Action::Select(count) => (SELECT, offset(count), 0),
        Action::EpollControl => (EPOLL_CONTROL, offset(2), 0),
        Action::Close(fd) => (CLOSE, offset(fd), 0),
    };
    kind as u32 | first << 8 | flags << 16
}

/// Generates the programs for a kernel and a server.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) layout: &'a Layout,
    pub(super) maps: &'a Maps,
    pub(super) arguments: [u16; 6],
    /// The server's TCP ports.
    pub(super) ports: &'a [u16],
    /// The inode of its network namespace.
    pub(super) network: u32,
}

/// The building blocks that several programs share.
trait Parts {
    fn begin(&mut self, maps: &Maps) -> &mut Self;
    fn end(&mut self) -> &mut Self;
    fn lookup(&mut self, map: &Map, key: i16) -> &mut Self;
    fn read(&mut self, to: i16, size: Size, offset: u32) -> &mut Self;
    fn follow(&mut self, to: i16, size: Size, from: i16, offset: u32) -> &mut Self;
    fn bump(&mut self, member: i16) -> &mut Self;
    fn count(&mut self, maps: &Maps, counter: u32, label: &str) -> &mut Self;
    fn about(&mut self, about: About) -> &mut Self;
    fn zero(&mut self, from: i16, bytes: u32) -> &mut Self;
}

const fn bytes_of(size: Size) -> i32 {
    match size {
        Byte => 1,
        Half => 2,
        Word => 4,
        Double => 8,
    }
}

impl Parts for Assembler {
    /// Sets R6 to the arguments of the tracepoint, R7 to process and thread, R8 to the task's entry. Ends the program
    /// for other tasks.
    fn begin(&mut self, maps: &Maps) -> &mut Self {
        self.copy(R6, R1).call(Helper::ThreadId).copy(R7, R0).store(Word, R10, frame::TASK, R7);
        self.lookup(&maps.tasks, frame::TASK).jump_imm(Eq, R0, 0, "out").copy(R8, R0)
    }

    fn end(&mut self) -> &mut Self {
        self.label("out").set(R0, 0).exit()
    }

    fn lookup(&mut self, map: &Map, key: i16) -> &mut Self {
        self.map(R1, map).frame(R2, key).call(Helper::MapLookup)
    }

    /// Reads kernel memory at R3 plus an offset. An unreadable address yields zeros.
    fn read(&mut self, to: i16, size: Size, offset: u32) -> &mut Self {
        self.alu_imm(Alu::Add, R3, offset.cast_signed()).frame(R1, to).set(R2, bytes_of(size)).call(Helper::ReadKernel)
    }

    /// Reads kernel memory at the address in the frame plus an offset.
    fn follow(&mut self, to: i16, size: Size, from: i16, offset: u32) -> &mut Self {
        self.load(Double, R3, R10, from).read(to, size, offset)
    }

    /// Adds 1 to a member of the task, which no other task changes.
    fn bump(&mut self, member: i16) -> &mut Self {
        self.load(Word, R1, R8, member).alu_imm(Alu::Add, R1, 1).store(Word, R8, member, R1)
    }

    /// Adds 1 to a counter.
    fn count(&mut self, maps: &Maps, counter: u32, label: &str) -> &mut Self {
        self.store_imm(Word, frame::INDEX, counter.cast_signed()).lookup(&maps.counters, frame::INDEX);
        self.jump_imm(Eq, R0, 0, label).set(R1, 1).add_to_memory(Double, R0, 0, R1).label(label)
    }

    /// Sets the subject of the call.
    fn about(&mut self, about: About) -> &mut Self {
        self.store_imm(Half, frame::CALL + 6, about as i32)
    }

    fn zero(&mut self, from: i16, bytes: u32) -> &mut Self {
        for at in (0..bytes as i16).step_by(8) {
            self.store_imm(Double, from + at, 0);
        }
        self
    }
}

impl Writer<'_> {
    /// `sys_enter(registers, number)`: counts the call, and examines the connection that it names.
    pub(super) fn calls(&self) -> Vec<Instruction> {
        let mut code = Assembler::new();
        code.begin(self.maps);
        code.load(Word, R1, R8, task::GROUP).store(Word, R10, frame::CALL, R1);
        code.load(Double, R9, R6, 8).jump_imm(Jump::Ge, R9, CALLS.cast_signed(), "out");
        code.store(Half, R10, frame::CALL + 4, R9).about(About::Nothing);
        code.store(Word, R10, frame::INDEX, R9).lookup(&self.maps.actions, frame::INDEX);
        code.jump_imm(Eq, R0, 0, "count").load(Word, R9, R0, 0).jump_imm(Eq, R9, 0, "count");
        // The first relevant argument.
        code.copy(R1, R9).alu_imm(Alu::And, R1, 0xff).jump_imm(Eq, R1, WAIT, "wait");
        Self::argument(&mut code, 8);
        code.copy(R1, R9).alu_imm(Alu::And, R1, 0xff).store(Word, R10, frame::SMALL, R1);
        code.jump_imm(Eq, R1, POLL, "poll").jump_imm(Eq, R1, SELECT, "select");
        self.descriptor(&mut code);
        self.connection(&mut code);
        code.label("poll").load(Double, R1, R10, frame::ARGUMENT).about(About::Several);
        code.jump_imm(Jump::Gt, R1, 1, "wait").about(About::One).jump("count");
        code.label("select").load(Double, R1, R10, frame::ARGUMENT).jump_imm(Eq, R1, 0, "count");
        code.label("wait").bump(task::WAITS);
        self.add_call(&mut code);
        code.end();
        code.finish()
    }

    /// Reads an argument of the call. R9 contains its offset, starting at this bit.
    fn argument(code: &mut Assembler, bit: i32) {
        code.load(Double, R3, R6, 0).copy(R1, R9).alu_imm(Alu::ShiftRight, R1, bit).alu_imm(Alu::And, R1, 0xff);
        code.alu(Alu::Add, R3, R1).read(frame::ARGUMENT, Double, 0);
    }

    /// Adds 1 to the count of the call.
    fn add_call(&self, code: &mut Assembler) {
        code.label("count").lookup(&self.maps.calls, frame::CALL).jump_imm(Eq, R0, 0, "first").set(R1, 1);
        code.add_to_memory(Double, R0, 0, R1).jump("out");
        code.label("first").store_imm(Double, frame::ONE, 1).map(R1, &self.maps.calls).frame(R2, frame::CALL);
        code.frame(R3, frame::ONE).set(R4, 0).call(Helper::MapUpdate).jump_imm(Eq, R0, 0, "out");
        code.count(self.maps, LOST, "lost call");
    }

    /// Resolves the descriptor in the argument. Continues only if it refers to a socket with a port of the server, with
    /// the inode number in the frame.
    fn descriptor(&self, code: &mut Assembler) {
        let at = self.layout;
        code.about(About::Closed).call(Helper::Task).copy(R3, R0).read(frame::POINTER, Double, at.task_files);
        code.follow(frame::POINTER, Double, frame::POINTER, at.files_table);
        code.store_imm(Double, frame::INODE, 0).follow(frame::INODE, Word, frame::POINTER, at.table_size);
        code.load(Word, R1, R10, frame::ARGUMENT).load(Word, R2, R10, frame::INODE).jump_if(Jump::Ge, R1, R2, "count");
        code.follow(frame::POINTER, Double, frame::POINTER, at.table_slots);
        code.load(Word, R1, R10, frame::ARGUMENT).alu_imm(Alu::ShiftLeft, R1, 3);
        code.load(Double, R3, R10, frame::POINTER).alu(Alu::Add, R3, R1).read(frame::FILE, Double, 0);
        code.load(Double, R1, R10, frame::FILE).jump_imm(Eq, R1, 0, "count").about(About::File);
        code.follow(frame::POINTER, Double, frame::FILE, at.file_inode);
        code.follow(frame::ONE, Half, frame::POINTER, at.inode_mode).load(Half, R1, R10, frame::ONE);
        // S_IFMT and S_IFSOCK.
        code.alu_imm(Alu::And, R1, 0o170_000).jump_imm(Jump::Ne, R1, 0o140_000, "elsewhere");
        code.follow(frame::INODE, Double, frame::POINTER, at.inode_number);
        code.follow(frame::FILE, Double, frame::FILE, at.file_private);
        code.follow(frame::POINTER, Double, frame::FILE, at.socket_sock).about(About::Unix);
        code.follow(frame::ONE, Half, frame::POINTER, at.sock_family).load(Half, R1, R10, frame::ONE);
        code.jump_imm(Eq, R1, 1, "elsewhere").about(About::Socket).jump_imm(Eq, R1, 2, "internet");
        code.jump_imm(Jump::Ne, R1, 10, "elsewhere").label("internet");
        code.follow(frame::ONE, Half, frame::POINTER, at.sock_port).load(Half, R1, R10, frame::ONE);
        for port in self.ports {
            code.jump_imm(Eq, R1, i32::from(*port), "own port");
        }
        code.label("elsewhere").load(Word, R2, R10, frame::SMALL).jump_imm(Jump::Ne, R2, SEND, "count");
        code.bump(task::ELSEWHERE).jump("count").label("own port").about(About::Datagram);
        code.follow(frame::ONE, Half, frame::FILE, at.socket_type).load(Half, R1, R10, frame::ONE);
        code.jump_imm(Jump::Ne, R1, 1, "count").about(About::Listener);
        code.follow(frame::ONE, Byte, frame::POINTER, at.sock_state).load(Byte, R1, R10, frame::ONE);
        code.load(Word, R2, R10, frame::SMALL).jump_imm(Jump::Ne, R1, 10, "connected");
        // TCP_LISTEN.
        code.jump_imm(Jump::Ne, R2, ACCEPT, "count").bump(task::ACCEPTS).jump("count");
        code.label("connected").about(About::Connection);
    }

    /// Handles a call on a connection; R2 contains the kind of action.
    fn connection(&self, code: &mut Assembler) {
        code.store_imm(Word, frame::DIRECTION, RECEIVED).jump_imm(Eq, R2, RECEIVE, "visit");
        code.store_imm(Word, frame::DIRECTION, SENT).jump_imm(Eq, R2, SEND, "send");
        code.jump_imm(Eq, R2, CLOSE, "close").jump_imm(Jump::Ne, R2, EPOLL_CONTROL, "count");
        self.epoll_control(code);
        code.label("close").lookup(&self.maps.connections, frame::INODE).jump_imm(Eq, R0, 0, "count");
        code.set(R1, 1).store(Word, R0, connection::CLOSED, R1).jump("count");
        // The flags may request a send without a copy.
        code.label("send").copy(R1, R9).alu_imm(Alu::ShiftRight, R1, 16).jump_imm(Eq, R1, 0, "visit");
        Self::argument(code, 16);
        code.load(Double, R1, R10, frame::ARGUMENT).alu_imm(Alu::And, R1, ZERO_COPY as i32);
        code.jump_imm(Eq, R1, 0, "visit").about(About::ZeroCopy);
        self.visit(code);
        code.label("visited").load(Double, R1, R10, frame::INODE).store(Double, R8, task::LAST, R1);
        code.load(Word, R1, R10, frame::DIRECTION).jump_imm(Eq, R1, SENT, "sent");
        code.bump(task::RECEIVES).jump("count").label("sent").bump(task::SENDS).jump("count");
    }

    /// `epoll_ctl(epoll, operation, descriptor, event)`: determines whether the connection is watched edge-triggered.
    fn epoll_control(&self, code: &mut Assembler) {
        let [_, operation, _, event, ..] = self.arguments;
        code.about(About::Nothing).load(Double, R3, R6, 0).read(frame::ARGUMENT, Double, u32::from(operation));
        // EPOLL_CTL_DEL.
        code.load(Word, R1, R10, frame::ARGUMENT).jump_imm(Eq, R1, 2, "count");
        code.load(Double, R3, R6, 0).read(frame::POINTER, Double, u32::from(event));
        code.load(Double, R3, R10, frame::POINTER).frame(R1, frame::ONE).set(R2, 4).call(Helper::ReadUser);
        code.jump_imm(Jump::Ne, R0, 0, "count").about(About::Level).load(Word, R1, R10, frame::ONE);
        // EPOLLET.
        code.alu_imm(Alu::ShiftRight, R1, 31).jump_imm(Eq, R1, 0, "count").about(About::Edge).jump("count");
    }

    /// Records a visit of a connection by the task.
    fn visit(&self, code: &mut Assembler) {
        let maps = self.maps;
        code.label("visit").store_imm(Double, frame::SLICE, 0).store_imm(Word, frame::INDEX, SLICE.cast_signed());
        code.lookup(&maps.counters, frame::INDEX).jump_imm(Eq, R0, 0, "out");
        code.load(Double, R1, R0, 0).store(Double, R10, frame::SLICE, R1);
        code.lookup(&maps.connections, frame::INODE).jump_imm(Jump::Ne, R0, 0, "known");
        self.overlap(code);
        code.zero(frame::CONNECTION, CONNECTION_BYTES).store(Word, R10, frame::CONNECTION + connection::TASK, R7);
        code.copy(R1, R7).alu_imm(Alu::ShiftRight, R1, 32);
        code.store(Word, R10, frame::CONNECTION + connection::PROCESS, R1);
        code.load(Word, R1, R10, frame::DIRECTION).store(Word, R10, frame::CONNECTION + connection::DIRECTION, R1);
        code.load(Double, R1, R10, frame::SLICE).store(Word, R10, frame::CONNECTION + connection::SLICE, R1);
        code.map(R1, &maps.connections).frame(R2, frame::INODE).frame(R3, frame::CONNECTION).set(R4, 0);
        code.call(Helper::MapUpdate).bump(task::CONNECTIONS).jump("visited");
        code.label("known").copy(R9, R0).load(Word, R1, R9, connection::TASK).load(Word, R2, R10, frame::TASK);
        code.jump_if(Eq, R1, R2, "same task").load(Word, R1, R9, connection::PROCESS);
        code.copy(R2, R7).alu_imm(Alu::ShiftRight, R2, 32).jump_if(Eq, R1, R2, "moves");
        code.bump(task::HANDOVERS).jump("other task").label("moves").bump(task::MOVES).label("other task");
        code.store(Word, R9, connection::TASK, R7).copy(R1, R7).alu_imm(Alu::ShiftRight, R1, 32);
        code.store(Word, R9, connection::PROCESS, R1).jump("turn");
        code.label("same task").load(Double, R1, R8, task::LAST).load(Double, R2, R10, frame::INODE);
        code.jump_if(Eq, R1, R2, "turn").bump(task::RETURNS);
        code.label("turn").load(Word, R1, R10, frame::DIRECTION).load(Word, R2, R9, connection::DIRECTION);
        code.store(Word, R9, connection::DIRECTION, R1).load(Double, R3, R10, frame::SLICE);
        code.store(Word, R9, connection::SLICE, R3).jump_imm(Jump::Ne, R1, SENT, "visited");
        code.jump_imm(Jump::Ne, R2, RECEIVED, "visited").count(maps, REPLIES, "replied");
    }

    /// Counts an overlap if the connection that the task visited before is still its own and open.
    fn overlap(&self, code: &mut Assembler) {
        code.load(Double, R1, R8, task::LAST).store(Double, R10, frame::POINTER, R1);
        code.lookup(&self.maps.connections, frame::POINTER).jump_imm(Eq, R0, 0, "fresh");
        code.load(Word, R1, R0, connection::CLOSED).jump_imm(Jump::Ne, R1, 0, "fresh");
        // A call that closed it in another time slice was not seen.
        code.load(Word, R1, R0, connection::SLICE).load(Double, R2, R10, frame::SLICE);
        code.jump_if(Jump::Ne, R1, R2, "fresh").load(Word, R1, R0, connection::TASK).load(Word, R2, R10, frame::TASK);
        code.jump_if(Jump::Ne, R1, R2, "fresh").bump(task::OVERLAPS).label("fresh");
    }

    /// `sched_process_fork(parent, child)`: the child belongs to the server too.
    pub(super) fn fork(&self) -> Vec<Instruction> {
        let new = |member: i16| frame::NEW_TASK + member;
        let mut code = Assembler::new();
        code.begin(self.maps).load(Double, R9, R6, 8).zero(frame::NEW_TASK, TASK_BYTES);
        code.copy(R3, R9).read(frame::SMALL, Word, self.layout.task_pid);
        code.copy(R3, R9).read(new(task::PROCESS), Word, self.layout.task_process);
        code.load(Word, R1, R8, task::PROCESS).store(Word, R10, new(task::PARENT), R1);
        code.load(Word, R2, R8, task::GROUP).load(Word, R3, R10, new(task::PROCESS));
        code.jump_if(Eq, R1, R3, "thread").alu_imm(Alu::Or, R2, BORN.cast_signed());
        code.store(Word, R10, new(task::GROUP), R2).store_imm(Word, new(task::FLAGS), IS_BORN.cast_signed());
        code.count(self.maps, FORKS, "forked").jump("add");
        code.label("thread").store(Word, R10, new(task::GROUP), R2);
        code.store_imm(Word, new(task::FLAGS), (IS_BORN | IS_THREAD).cast_signed())
            .count(self.maps, THREADS, "created");
        code.label("add").call(Helper::Time).store(Double, R10, new(task::BORN_NS), R0);
        code.map(R1, &self.maps.tasks).frame(R2, frame::SMALL).frame(R3, frame::NEW_TASK).set(R4, 0);
        code.call(Helper::MapUpdate).jump_imm(Eq, R0, 0, "out").count(self.maps, LOST, "lost task");
        code.end();
        code.finish()
    }

    /// `sched_process_exec(task, old number, …)`. A thread other than the first one takes over the number of the first,
    /// which has ended; its own number no longer exists.
    pub(super) fn execution(&self) -> Vec<Instruction> {
        let mut code = Assembler::new();
        code.begin(self.maps).load(Word, R1, R8, task::FLAGS).alu_imm(Alu::And, R1, (!IS_ENDED).cast_signed());
        code.alu_imm(Alu::Or, R1, IS_EXECUTED.cast_signed()).store(Word, R8, task::FLAGS, R1);
        code.set(R1, 0).store(Double, R8, task::ENDED_NS, R1).count(self.maps, EXECUTIONS, "executed");
        code.load(Double, R1, R6, 8).store(Word, R10, frame::SMALL, R1).load(Word, R1, R10, frame::SMALL);
        code.load(Word, R2, R10, frame::TASK).jump_if(Eq, R1, R2, "out");
        code.lookup(&self.maps.tasks, frame::SMALL).jump_imm(Eq, R0, 0, "out").copy(R8, R0);
        Self::mark_ended(&mut code);
        code.end();
        code.finish()
    }

    /// Records that the task with the entry in R8 ended now.
    fn mark_ended(code: &mut Assembler) {
        code.load(Word, R1, R8, task::FLAGS).alu_imm(Alu::Or, R1, IS_ENDED.cast_signed());
        code.store(Word, R8, task::FLAGS, R1).call(Helper::Time).store(Double, R8, task::ENDED_NS, R0);
    }

    /// `sched_process_exit(task)`.
    pub(super) fn end(&self) -> Vec<Instruction> {
        let mut code = Assembler::new();
        code.begin(self.maps);
        Self::mark_ended(&mut code);
        code.end();
        code.finish()
    }

    /// `inet_sock_set_state(sock, old, new)`: a connection to a port of the server is established.
    pub(super) fn established(&self) -> Vec<Instruction> {
        let at = self.layout;
        let mut code = Assembler::new();
        // From TCP_SYN_RECV to TCP_ESTABLISHED.
        code.copy(R6, R1).load(Double, R1, R6, 16).jump_imm(Jump::Ne, R1, 1, "out");
        code.load(Double, R1, R6, 8).jump_imm(Jump::Ne, R1, 3, "out");
        code.load(Double, R3, R6, 0).read(frame::ONE, Half, at.sock_port).load(Half, R1, R10, frame::ONE);
        for port in self.ports {
            code.jump_imm(Eq, R1, i32::from(*port), "own port");
        }
        code.jump("out").label("own port");
        code.load(Double, R3, R6, 0).read(frame::POINTER, Double, at.sock_network);
        code.follow(frame::ONE, Word, frame::POINTER, at.network_inode).load(Word, R1, R10, frame::ONE);
        // The number of a namespace has its highest bit set, so it must not be sign-extended for the 64-bit comparison.
        code.set(R2, self.network.cast_signed()).alu_imm(Alu::ShiftLeft, R2, 32).alu_imm(Alu::ShiftRight, R2, 32);
        code.jump_if(Jump::Ne, R1, R2, "out").count(self.maps, ESTABLISHED, "established").end();
        code.finish()
    }

    /// `io_uring_submit_req(request)`; `None` on a kernel without `io_uring`.
    pub(super) fn operations(&self) -> Option<Vec<Instruction>> {
        let operation = self.layout.request_operation?;
        let mut code = Assembler::new();
        code.begin(self.maps).load(Word, R1, R8, task::GROUP).store(Word, R10, frame::CALL, R1);
        code.load(Double, R3, R6, 0).read(frame::ONE, Byte, operation).load(Byte, R1, R10, frame::ONE);
        code.alu_imm(Alu::Add, R1, i32::from(RING)).store(Half, R10, frame::CALL + 4, R1).about(About::Nothing);
        self.add_call(&mut code);
        code.end();
        Some(code.finish())
    }
}

/// Parses an entry of the map of tasks.
pub(super) fn task_of(bytes: &[u8]) -> Option<super::Task> {
    let word = |at: i16| Some(u32::from_ne_bytes(bytes.get(at as usize..at as usize + 4)?.try_into().ok()?));
    let double = |at: i16| Some(u64::from_ne_bytes(bytes.get(at as usize..at as usize + 8)?.try_into().ok()?));
    Some(super::Task {
        process: word(task::PROCESS)?,
        group: word(task::GROUP)?,
        parent: word(task::PARENT)?,
        flags: word(task::FLAGS)?,
        connections: word(task::CONNECTIONS)?,
        returns: word(task::RETURNS)?,
        overlaps: word(task::OVERLAPS)?,
        moves: word(task::MOVES)?,
        handovers: word(task::HANDOVERS)?,
        accepts: word(task::ACCEPTS)?,
        waits: word(task::WAITS)?,
        receives: word(task::RECEIVES)?,
        sends: word(task::SENDS)?,
        elsewhere: word(task::ELSEWHERE)?,
        born_ns: double(task::BORN_NS)?,
        ended_ns: double(task::ENDED_NS)?,
    })
}

/// Returns the map entry of a task that existed when the window began.
pub(super) fn entry_of(process: u32, parent: u32) -> Vec<u8> {
    let mut bytes = vec![0; TASK_BYTES as usize];
    for (at, value) in [(task::PROCESS, process), (task::GROUP, process), (task::PARENT, parent)] {
        bytes[at as usize..at as usize + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}
