//! The directory's file system: inodes and space.

use crate::context::Context;
use crate::row::{Effect, Remedy, Row};
use crate::text::{bytes, grouped};

pub(super) fn rows(context: &Context) -> Vec<Row> {
    let Some(folder) = context.folder else { return Vec::new() };
    let row = |limit: &str, value: String, at_most: u64, evidence: &str, remedy: &str| Row {
        limit: format!("{limit} of {}", folder.path),
        value,
        in_use: None,
        is_bytes: false,
        owner: "the file system".to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| at_most.checked_div(needs.files)),
        evidence: evidence.to_owned(),
        counters: Vec::new(),
        remedy: Remedy { for_good: Some(remedy.to_owned()), ..Remedy::default() },
    };
    let space = row(
        "space",
        format!("{} free, blocks of {} bytes", bytes(folder.free_bytes), grouped(folder.block_bytes)),
        folder.free_bytes / folder.block_bytes.max(1),
        "write() fails with ENOSPC; a file takes at least one block",
        "another directory (--dir), or a larger file system",
    );
    let inodes = folder.free_inodes.map(|free| {
        row(
            "inodes",
            format!("{} free", grouped(free)),
            free,
            "open() with O_CREAT fails with ENOSPC",
            "another directory (--dir); ext4 fixes the number with mkfs -i, tmpfs with nr_inodes=",
        )
    });
    [Some(space), inodes].into_iter().flatten().collect()
}
