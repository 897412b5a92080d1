//! Lookups on a remote file system, directory listings, the verification of passwords and compression, by other
//! threads. A slow file server, a directory with many entries or a costly hash therefore delays only the clients that
//! request it.
//!
//! A result that several clients request is made once. The threads are started when they are first needed, and end with
//! their worker. They share its descriptor table.

use super::compress::Job;
use super::entry::Entry;
use super::listing::View;
use super::lookup::{self, Folder};
use super::root::Followed;
use crate::fetch::Ticket;
use crate::rules::{Auth, Login};
use foldhash::fast::RandomState;
use landau_reactor::Waker;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// The number of lookup threads of each worker, and so the number of concurrent requests to a file server.
const LOOKERS: usize = 4;

/// The maximum number of logins that wait to be verified, of each worker; further ones are refused.
const LOGINS: usize = 32;

/// The maximum number of listing pages in the order of a query that wait to be made, of each worker; further ones are
/// refused. Each may look at every entry of a large directory, and one directory has 60 of them.
const PAGES: usize = 16;

/// The maximum number of listing pages that wait, of each worker. Each directory has one in the default order.
const LISTINGS: usize = 64;

/// The maximum number of files that wait to be compressed, of each worker; further ones are sent uncompressed. Each may
/// hold a descriptor of those reserved for files.
const JOBS: usize = 16;

/// A task for a thread.
#[derive(Debug)]
struct Order {
    /// The key of the result in the cache. The key of a login begins with NUL, which no path contains.
    key: Box<[u8]>,
    task: Task,
}

#[derive(Debug)]
enum Task {
    /// A path, and whether the served directory must be followed first.
    LookUp(Place, bool),
    List(Place, View),
    Verify(Arc<Auth>, Login),
    Compress(Box<Job>),
}

/// A path and its site.
#[derive(Debug)]
pub(super) struct Place {
    site: Option<Box<str>>,
    path: Box<[u8]>,
    /// The time when the served directory was last followed, or of this order if it follows the directory. The result
    /// is as old as that.
    root_checked_ms: u32,
}

impl Place {
    pub(super) fn new(site: Option<&str>, path: &[u8], root_checked_ms: u32) -> Self {
        Self { site: site.map(Into::into), path: path.into(), root_checked_ms }
    }
}

/// A result.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) key: Box<[u8]>,
    pub(super) product: Product,
}

#[derive(Debug)]
pub(super) enum Product {
    /// The entry of a path.
    Entry(LookedUp),
    /// The entry of a page of a listing.
    Page(LookedUp),
    /// Whether a login is valid.
    Login(bool),
    /// The compressed form of a file; `None` if the file changed meanwhile.
    Compressed(Option<Entry>),
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) struct LookedUp {
    /// The view of the served directory that the lookup used.
    pub(super) view: lookup::View,
    pub(super) entry: Entry,
    /// The value of the place.
    pub(super) root_checked_ms: u32,
    /// Whether the entry may be cached: a missing file may be in a directory that does not exist yet.
    pub(super) is_certain: bool,
}

/// The state that the worker and the threads share.
#[derive(Debug)]
struct Shared {
    folder: Arc<Folder>,
    made: Mutex<Vec<Made>>,
    waker: Waker,
}

/// Both ends of a queue of orders.
type Queue = (mpsc::Sender<Order>, Arc<Mutex<mpsc::Receiver<Order>>>);

/// Threads that share a queue of orders.
#[derive(Debug, Default)]
struct Pool {
    queue: Option<Queue>,
    thread_count: usize,
}

/// Lets other threads look up paths and list directories.
#[derive(Debug)]
pub(super) struct Finder {
    shared: Arc<Shared>,
    lookers: Pool,
    /// One thread: long listings must not occupy all threads that look up.
    listers: Pool,
    page_count: usize,
    /// One thread: however many passwords are tried, they use at most one processor.
    verifiers: Pool,
    login_count: usize,
    /// One thread, for the same reason.
    compressors: Pool,
    job_count: usize,
    /// The connections that wait for each key.
    waiting: HashMap<Box<[u8]>, Vec<Ticket>, RandomState>,
    /// The key of the last order.
    asked: Box<[u8]>,
    serial: u32,
}

impl Finder {
    pub(super) fn new(folder: Arc<Folder>, waker: Waker) -> Self {
        let shared = Arc::new(Shared { folder, made: Mutex::default(), waker });
        let (lookers, listers, verifiers, compressors, waiting) = Default::default();
        let (page_count, login_count, job_count) = (0, 0, 0);
        Self {
            shared,
            lookers,
            listers,
            page_count,
            verifiers,
            login_count,
            compressors,
            job_count,
            waiting,
            asked: Box::default(),
            serial: 0,
        }
    }

    /// Returns whether the result for a key is being made; if so, [`Finder::wait`] waits for it.
    pub(super) fn is_making(&mut self, key: &[u8]) -> bool {
        let is_making = self.waiting.contains_key(key);
        if is_making {
            self.asked = key.into();
        }
        is_making
    }

    /// Orders the lookup of a path; [`Finder::wait`] waits for it. If `follows` is set, the served directory is
    /// followed first. Returns false if there is no thread and none can be started.
    pub(super) fn look_up(&mut self, key: &[u8], place: Place, follows: bool) -> bool {
        let order = Order { key: key.into(), task: Task::LookUp(place, follows) };
        let most = LOOKERS.min(self.waiting.len() + 1);
        let is_ordered = self.lookers.order(order, most, &self.shared);
        self.note(key, is_ordered)
    }

    /// Orders a page of a directory's listing, like `look_up`. Also returns false if too many pages wait; fewer may
    /// wait of those that are not the default.
    pub(super) fn list(&mut self, key: &[u8], place: Place, page: View) -> bool {
        let order = Order { key: key.into(), task: Task::List(place, page) };
        let most = if page == View::default() { LISTINGS } else { PAGES };
        let is_ordered = self.page_count < most && self.listers.order(order, 1, &self.shared);
        self.page_count += usize::from(is_ordered);
        self.note(key, is_ordered)
    }

    /// Orders the verification of a login, like `look_up`. Also returns false if too many wait.
    pub(super) fn verify(&mut self, key: &[u8], auth: Arc<Auth>, login: Login) -> bool {
        let order = Order { key: key.into(), task: Task::Verify(auth, login) };
        let is_ordered = self.login_count < LOGINS && self.verifiers.order(order, 1, &self.shared);
        self.login_count += usize::from(is_ordered);
        self.note(key, is_ordered)
    }

    /// Orders the compression of a file, like `look_up`. Also returns false if too many wait.
    pub(super) fn compress(&mut self, key: &[u8], job: Job) -> bool {
        let order = Order { key: key.into(), task: Task::Compress(Box::new(job)) };
        let is_ordered = self.job_count < JOBS && self.compressors.order(order, 1, &self.shared);
        self.job_count += usize::from(is_ordered);
        self.note(key, is_ordered)
    }

    fn note(&mut self, key: &[u8], is_ordered: bool) -> bool {
        if is_ordered {
            self.waiting.insert(key.into(), Vec::new());
            self.asked = key.into();
        }
        is_ordered
    }

    /// Lets a connection wait for the result of the last order; returns the serial number of the wait.
    pub(super) fn wait(&mut self, number: u32) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        // The order is still pending: only the worker, which calls this, takes results.
        self.waiting.entry(self.asked.clone()).or_default().push(Ticket { number, serial });
        serial
    }

    /// Returns a result, and the connections that wait for it.
    pub(super) fn take(&mut self) -> Option<(Made, Vec<Ticket>)> {
        if self.waiting.is_empty() {
            return None;
        }
        let made = self.shared.made.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        self.page_count -= usize::from(matches!(made.product, Product::Page(..)));
        self.login_count -= usize::from(matches!(made.product, Product::Login(_)));
        self.job_count -= usize::from(matches!(made.product, Product::Compressed(_)));
        let waiting = self.waiting.remove(&made.key).unwrap_or_default();
        Some((made, waiting))
    }
}

impl Pool {
    /// Adds an order, and a thread if there are fewer than `most`.
    fn order(&mut self, order: Order, most: usize, shared: &Arc<Shared>) -> bool {
        let (sender, orders) = self.queue.get_or_insert_with(|| {
            let (sender, orders) = mpsc::channel();
            (sender, Arc::new(Mutex::new(orders)))
        });
        if self.thread_count < most {
            let (shared, orders) = (shared.clone(), orders.clone());
            let life = move || {
                // One thread waits for the next order, and the others wait for the lock.
                let next = || orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(order) = next() {
                    let made = shared.make(order);
                    shared.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
                    // Waking fails only if the worker has ended.
                    let _ = shared.waker.wake();
                }
            };
            let is_started = std::thread::Builder::new().name("finder".to_owned()).spawn(life).is_ok();
            self.thread_count += usize::from(is_started);
        }
        self.thread_count > 0 && sender.send(order).is_ok()
    }
}

impl Shared {
    fn make(&self, Order { key, task }: Order) -> Made {
        let product = match task {
            Task::LookUp(place, follows) => {
                if follows {
                    self.folder.follow_root();
                }
                let found = self.folder.look_up_waiting(place.site.as_deref(), &place.path);
                Product::Entry(self.doubt(&place, found))
            }
            Task::List(place, page) => {
                let found = self.folder.list(place.site.as_deref(), &place.path, page);
                Product::Page(self.doubt(&place, found))
            }
            Task::Compress(job) => Product::Compressed(job.run()),
            Task::Verify(auth, login) => Product::Login(auth.users.verify(&login)),
        };
        Made { key, product }
    }

    /// Follows the root if an entry is missing, because it may be in a new directory. The worker then notices that the
    /// root has changed, and looks the entry up again.
    fn doubt(&self, place: &Place, (view, entry): (lookup::View, Entry)) -> LookedUp {
        let is_certain = !entry.is_failure() || self.folder.follow_root() != Followed::Failed;
        let unknown = if is_certain { None } else { self.folder.unknown(&place.path) };
        LookedUp { view, entry: unknown.unwrap_or(entry), root_checked_ms: place.root_checked_ms, is_certain }
    }
}
