//! The queue's files against an embedded database, redb: messages accepted and delivered per second. Each batch of
//! messages is accepted with one sync and settled with one sync.
//!
//! This is a measurement, so it is run manually:
//! `cargo test --release -p landau-mail --lib queue::database -- --ignored --nocapture`.
//!
//! The result can mislead: the database deletes delivered messages at once and its file keeps its size, but the queue
//! deletes whole segments. Neither reads messages; the relay does not either before it sends one.

use super::record::Meta;
use super::segments::Segments;
use super::{Commit, Writer, open};
use crate::ledger::Sync;
use redb::{Database, Durability, ReadableTableMetadata, TableDefinition};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The sizes of batches: the numbers of messages that arrive while the disk is busy.
const BATCHES: [usize; 3] = [1, 10, 100];

/// The number of batches in a run.
const COUNT: usize = 60;

/// The number of runs of each kind, which alternate.
const ROUNDS: usize = 5;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("messages");

/// The table in a write transaction.
type Messages<'a> = redb::Table<'a, u64, &'static [u8]>;

fn meta(id: u64) -> Meta<'static> {
    Meta::new(id, 1_795_365_548_700, "sender@client.test", vec!["recipient@domain.test".into()])
}

/// Returns the messages per second through the queue's files.
fn files(folder: &Path, batch: usize, content: &[u8]) -> f64 {
    let found = open(folder, 1 << 30, Sync::Never).unwrap();
    let mut writer = Writer::new(Arc::clone(&found.shared), Sync::Always);
    let mut segments = Segments::new(Arc::clone(&found.shared), Sync::Always, &BTreeMap::new(), BTreeSet::new());
    let began = Instant::now();
    for _ in 0..COUNT {
        for _ in 0..batch {
            writer.add(&meta(found.shared.next_id()), &[content]).unwrap();
        }
        let Commit { entries, closed } = writer.commit(0).unwrap();
        for entry in &entries {
            segments.add(entry, true);
        }
        for entry in &entries {
            segments.settle(entry, 0);
            segments.remove(entry);
        }
        for number in closed {
            segments.close(number);
        }
        segments.write_all(0).unwrap();
        segments.delete_done().unwrap();
    }
    let per_second = (COUNT * batch) as f64 / began.elapsed().as_secs_f64();
    drop(found);
    assert!(open(folder, 1 << 30, Sync::Never).unwrap().left.is_empty());
    per_second
}

/// Returns the messages per second through the database.
fn database(folder: &Path, batch: usize, content: &[u8]) -> f64 {
    let database = Database::create(folder.join("queue.redb")).unwrap();
    let change = |change: &mut dyn FnMut(&mut Messages<'_>)| {
        let mut transaction = database.begin_write().unwrap();
        transaction.set_durability(Durability::Immediate).unwrap();
        change(&mut transaction.open_table(TABLE).unwrap());
        transaction.commit().unwrap();
    };
    change(&mut |_| {});
    let (mut record, mut next) = (Vec::new(), 0);
    let began = Instant::now();
    for _ in 0..COUNT {
        let first = next;
        change(&mut |table| {
            for _ in 0..batch {
                record.clear();
                super::record::append(&mut record, &meta(next), &[content]).unwrap();
                table.insert(next, record.as_slice()).unwrap();
                next += 1;
            }
        });
        change(&mut |table| (first..next).for_each(|id| drop(table.remove(id).unwrap())));
    }
    let per_second = (COUNT * batch) as f64 / began.elapsed().as_secs_f64();
    change(&mut |table| assert_eq!(table.len().unwrap(), 0));
    per_second
}

#[test]
#[ignore = "a measurement, which the head of the file describes"]
fn files_against_a_database() {
    // Use the directory of the program, which is on a disk: a temporary directory may be in memory, where a sync costs
    // nothing.
    let program = std::env::current_exe().unwrap();
    let content = [&b"Subject: a\r\n\r\n"[..], &b"x".repeat(1_986)].concat();
    for batch in BATCHES {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
                let measure = if which == 0 { files } else { database };
                rates[which].push(measure(folder.path(), batch, &content));
            }
        }
        let [files, database] = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates
        });
        let middle = ROUNDS / 2;
        println!(
            "{batch} messages of 2,000 bytes a sync: files {:.0}/s ({:.0}-{:.0}), \
             redb {:.0}/s ({:.0}-{:.0}), ratio {:.2}",
            files[middle],
            files[0],
            files[ROUNDS - 1],
            database[middle],
            database[0],
            database[ROUNDS - 1],
            files[middle] / database[middle]
        );
    }
}
