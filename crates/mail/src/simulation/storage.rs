//! A ledger in memory. The seed determines which writes kill the engine.

use crate::ledger::Storage;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

#[derive(Debug)]
pub(super) struct Memory {
    bytes: Rc<RefCell<Vec<u8>>>,
    at: usize,
    kill: f64,
    /// Whether it cannot be synced.
    pub(super) is_unsynced: bool,
    rng: ChaCha8Rng,
}

impl Memory {
    pub(super) fn new(bytes: Rc<RefCell<Vec<u8>>>, kill: f64, seed: u64) -> Self {
        Self { bytes, at: 0, kill, is_unsynced: false, rng: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.borrow();
        let count = bytes.len().saturating_sub(self.at).min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Storage for Memory {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes.borrow_mut().truncate(bytes as usize);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.rng.random::<f64>() < self.kill {
            let written = self.rng.random_range(0..=bytes.len());
            self.bytes.borrow_mut().extend_from_slice(&bytes[..written]);
            return Err(io::Error::other("killed"));
        }
        self.bytes.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.is_unsynced { Err(io::Error::other("not synced")) } else { Ok(()) }
    }
}
