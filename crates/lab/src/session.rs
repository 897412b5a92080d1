//! One kernel measured: a machine is made for it, its record is written down while it runs, and what ended it is told.

use crate::error::{Error, io};
use crate::job::{Job, Message};
use crate::machine::{Bounds, Ended, Ending, attend};
use crate::pack;
use crate::qemu::{Accelerator, Machine};
use landau_record::schema::{End, Header, Line, Note};
use landau_record::{SCHEMA_VERSION, Writer};
use std::path::Path;

/// What is measured and how.
#[derive(Debug)]
pub struct Order<'a> {
    /// The kernel's image.
    pub kernel: &'a Path,
    /// How the machine runs.
    pub accelerator: Accelerator,
    /// What the guest does.
    pub job: &'a Job,
    /// The program that becomes the guest's init: this one.
    pub program: &'a Path,
    /// A folder for the initramfs.
    pub folder: &'a Path,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Further words for the kernel.
    pub append: &'a str,
    /// What bounds it.
    pub bounds: Bounds,
    /// What the record's header says instead of the guest's own words: when it began, and the command line.
    pub started: &'a str,
    /// The command line.
    pub words: &'a [String],
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// How the machine ended.
    pub ended: Ended,
    /// The record's last line, where the guest measured everything.
    pub end: Option<End>,
    /// The kernel's symbols, where they were asked for.
    pub symbols: Option<String>,
    /// Why the guest could not measure.
    pub failed: Option<String>,
}

/// Boots a kernel and writes what its guest measures to a record, up to where it ended.
pub fn measure(
    order: &Order,
    writer: &mut Writer,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(&Line),
) -> Result<Measured, Error> {
    let initramfs = order.folder.join("initramfs.cpio");
    std::fs::write(&initramfs, pack::initramfs(order.program, order.job)?)
        .map_err(|source| io("write", &initramfs, source))?;
    let machine = Machine {
        accelerator: order.accelerator,
        kernel: order.kernel,
        initramfs: &initramfs,
        memory_mib: order.memory_mib,
        append: order.append,
    };
    let (mut end, mut symbols, mut failed) = (None, None, None);
    let mut take = |message: Message| -> Result<(), Error> {
        match message {
            Message::Up => {}
            Message::Lines(lines) => {
                for text in &lines {
                    let line = line_of(text, order)?;
                    writer.append(&line)?;
                    watch(&line);
                }
                writer.flush()?;
            }
            Message::Symbols(text) => symbols = Some(text),
            Message::Done { outcome, elapsed_ms } => end = Some(End { outcome, line_count: 0, elapsed_ms }),
            Message::Failed(reason) => failed = Some(reason),
        }
        Ok(())
    };
    let ended = attend(machine.command(), &order.bounds, interrupted, &mut take)?;
    for what in &ended.broken {
        writer.append(&Line::Note(Note { text: format!("the serial line broke a message: {what}") }))?;
    }
    writer.flush()?;
    if ended.how != Ending::Done {
        end = None;
    }
    Ok(Measured { ended, end, symbols, failed })
}

/// A line of the guest; its header says when and by which words the run was started on the host.
fn line_of(text: &str, order: &Order) -> Result<Line, Error> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| Error::Guest(format!("the guest wrote what is no line of a record: {error}")))?;
    Ok(match line {
        Line::Header(header) => {
            let (started, command) = (order.started.to_owned(), order.words.to_vec());
            Line::Header(Header { schema: SCHEMA_VERSION, started, command, ..header })
        }
        other => other,
    })
}
