//! Directory listings, made by another thread: a directory with many entries, or one that must be read from the device,
//! delays only the clients that ask for it.
//!
//! A listing that several clients ask for is made once. The thread is started when it is first needed, and ends with
//! its worker.

use super::listing::Listing;
use super::lookup::Folder;
use crate::fetch::Ticket;
use foldhash::fast::RandomState;
use landau_reactor::Waker;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A listing to be made.
#[derive(Debug)]
struct Order {
    /// Its key in the cache.
    key: Box<[u8]>,
    site: Option<Box<str>>,
    path: Box<[u8]>,
}

/// A listing, or why it could not be made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) key: Box<[u8]>,
    /// The served directory that it was made of.
    pub(super) root: Arc<OwnedFd>,
    pub(super) list: Result<Listing, landau_sys::Error>,
}

/// Requests listings from the thread.
#[derive(Debug)]
pub(super) struct Lister {
    folder: Arc<Folder>,
    waker: Waker,
    orders: Option<mpsc::Sender<Order>>,
    made: Arc<Mutex<Vec<Made>>>,
    /// The connections that wait for each listing.
    waiting: HashMap<Box<[u8]>, Vec<Ticket>, RandomState>,
    /// The listing that was requested last.
    asked: Box<[u8]>,
    serial: u32,
}

impl Lister {
    pub(super) fn new(folder: Arc<Folder>, waker: Waker) -> Self {
        let (made, waiting) = (Arc::default(), HashMap::default());
        Self { folder, waker, orders: None, made, waiting, asked: Box::default(), serial: 0 }
    }

    /// Returns whether that listing is being made; if so, [`Lister::wait`] waits for it.
    pub(super) fn is_making(&mut self, key: &[u8]) -> bool {
        let is_making = self.waiting.contains_key(key);
        if is_making {
            self.asked = key.into();
        }
        is_making
    }

    /// Requests a listing, for [`Lister::wait`] to wait for; returns false if the thread cannot be started.
    pub(super) fn order(&mut self, key: &[u8], site: Option<&str>, path: &[u8]) -> bool {
        if self.orders.is_none() {
            self.orders = self.start();
        }
        let order = Order { key: key.into(), site: site.map(Into::into), path: path.into() };
        let is_sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if is_sent {
            self.waiting.insert(key.into(), Vec::new());
            self.asked = key.into();
        }
        is_sent
    }

    /// Lets a connection wait for the listing that was requested last; returns the serial number of the wait.
    pub(super) fn wait(&mut self, number: u32) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        // It is still pending: only the worker, which calls this, takes finished listings.
        self.waiting.entry(self.asked.clone()).or_default().push(Ticket { number, serial });
        serial
    }

    /// Returns a finished listing, and the connections that wait for it.
    pub(super) fn take(&mut self) -> Option<(Made, Vec<Ticket>)> {
        if self.waiting.is_empty() {
            return None;
        }
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let waiting = self.waiting.remove(&made.key).unwrap_or_default();
        Some((made, waiting))
    }

    fn start(&self) -> Option<mpsc::Sender<Order>> {
        let (sender, orders) = mpsc::channel::<Order>();
        let (folder, made, waker) = (self.folder.clone(), self.made.clone(), self.waker.clone());
        let life = move || {
            for Order { key, site, path } in orders {
                let (root, list) = folder.list(site.as_deref(), &path);
                made.lock().unwrap_or_else(PoisonError::into_inner).push(Made { key, root, list });
                // Waking fails only if the worker has ended.
                let _ = waker.wake();
            }
        };
        std::thread::Builder::new().name("lister".to_owned()).spawn(life).ok().map(|_| sender)
    }
}
