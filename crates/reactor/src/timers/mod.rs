//! Timers: a hierarchical timing wheel, in which each operation is O(1).
//!
//! Six levels of 64 buckets hold deadlines by their distance. A bucket of the lowest level is one millisecond wide, and
//! each further level is 64 times as coarse. A deadline is a node of an intrusive list, in a table indexed by the
//! caller's key: once the table is large enough, setting a deadline allocates nothing. Moving a deadline *later*, as a
//! server does with each request of a connection, only stores the new time: when the bucket of the node is due, the
//! node moves to the bucket of that time. A node moves down at most once per level.
//!
//! Source: Varghese and Lauck, "Hashed and hierarchical timing wheels" (SOSP 1987).

/// The index that stands for no node.
const NONE: u32 = u32::MAX;
/// The place of a node that is in no bucket.
const OUT: u16 = u16::MAX;
const LEVELS: usize = 6;
const BITS: u32 = 6;
const BUCKETS: usize = 1 << BITS;

/// The longest delay, 12 days: times are compared modulo 2³² ms, so a longer one would seem to have passed.
pub const LONGEST_MS: u32 = 1 << 30;

/// Returns whether `at` is `now` or earlier, by less than 2³¹ ms.
fn is_past(at: u32, now: u32) -> bool {
    now.wrapping_sub(at) <= u32::MAX / 2
}

/// The state of a key's deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no deadline. The node may stay in its bucket until the bucket is due.
    Clear,
    /// It is set.
    Set,
    /// It has passed and was reported.
    Passed,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    next: u32,
    previous: u32,
    /// The deadline in milliseconds, modulo 2³².
    due: u32,
    /// The level and bucket that it is in, or `OUT`.
    place: u16,
    state: State,
}

const EMPTY: Node = Node { next: NONE, previous: NONE, due: 0, place: OUT, state: State::Clear };

/// Deadlines by key. Times are milliseconds modulo 2³², so a program may run for longer than 49 days.
#[derive(Debug)]
pub struct Timers {
    nodes: Vec<Node>,
    heads: [[u32; BUCKETS]; LEVELS],
    /// A bit for each bucket that is not empty.
    occupied: [u64; LEVELS],
    /// The time up to which all deadlines were reported.
    now: u32,
    set_count: usize,
}

impl Default for Timers {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Timers {
    /// Creates timers without deadlines that start at `now_ms`.
    pub fn new(now_ms: u32) -> Self {
        let heads = [[NONE; BUCKETS]; LEVELS];
        Self { nodes: Vec::new(), heads, occupied: [0; LEVELS], now: now_ms, set_count: 0 }
    }

    /// Returns the number of deadlines that are set.
    pub fn len(&self) -> usize {
        self.set_count
    }

    /// Returns whether no deadline is set.
    pub fn is_empty(&self) -> bool {
        self.set_count == 0
    }

    /// Sets or moves the deadline of a key to `delay_ms` after `now_ms`, at most [`LONGEST_MS`].
    #[inline]
    pub fn set(&mut self, key: u32, now_ms: u32, delay_ms: u32) {
        let due = now_ms.wrapping_add(delay_ms.min(LONGEST_MS));
        let index = key as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, EMPTY);
        }
        let node = &mut self.nodes[index];
        if node.state != State::Set {
            node.state = State::Set;
            self.set_count += 1;
        }
        // Even a cleared node is in a bucket no later than the time it was last set to.
        if node.place != OUT && due.wrapping_sub(node.due) <= LONGEST_MS {
            node.due = due;
            return;
        }
        self.remove(key);
        self.nodes[index].due = due;
        self.insert(key);
    }

    /// Clears the deadline of a key.
    #[inline]
    pub fn clear(&mut self, key: u32) {
        if let Some(node) = self.nodes.get_mut(key as usize) {
            self.set_count -= usize::from(node.state == State::Set);
            node.state = State::Clear;
        }
    }

    /// Returns whether the deadline of a key was reported and neither set nor cleared since; true once for each
    /// report.
    #[inline]
    pub fn take_passed(&mut self, key: u32) -> bool {
        let node = self.nodes.get_mut(key as usize).filter(|node| node.state == State::Passed);
        let Some(node) = node else { return false };
        node.state = State::Clear;
        true
    }

    /// Returns the milliseconds from `now_ms` until a deadline may be due, or `None` if none is set. The result may be
    /// too early, because a coarse bucket counts from its start, but it is never too late.
    pub fn next(&self, now_ms: u32) -> Option<u32> {
        if self.set_count == 0 {
            return None;
        }
        let begin = (0..LEVELS).filter_map(|level| self.first(level)).min()?;
        // Counted from the wheel's own time: if that is earlier, deadlines in between are due at once.
        Some(begin.saturating_sub(now_ms.wrapping_sub(self.now)))
    }

    /// Returns the milliseconds from `self.now` to the start of the first occupied bucket of a level.
    fn first(&self, level: usize) -> Option<u32> {
        let shift = BITS * level as u32;
        let here = self.now >> shift;
        let turned = self.occupied[level].rotate_right(here % BUCKETS as u32);
        if turned == 0 {
            return None;
        }
        // The bucket of the current time: on the lowest level it is due now; on higher levels, its nodes are one full
        // turn ahead.
        let mut steps = turned.trailing_zeros();
        if level > 0 && steps == 0 {
            let rest = turned & !1;
            steps = if rest == 0 { BUCKETS as u32 } else { rest.trailing_zeros() };
        }
        Some((here.wrapping_add(steps) << shift).wrapping_sub(self.now))
    }

    /// Advances to `now_ms` and calls `due` once with each key whose deadline has passed. It must be called whenever
    /// time has passed, even while no deadline is set: the next deadline is counted from this time.
    pub fn advance(&mut self, now_ms: u32, mut due: impl FnMut(u32)) {
        if !is_past(self.now, now_ms) {
            return self.leap(now_ms, due);
        }
        loop {
            let step = (0..LEVELS).filter_map(|level| self.first(level)).min();
            let left = now_ms.wrapping_sub(self.now);
            match step {
                Some(step) if step <= left => {
                    self.now = self.now.wrapping_add(step);
                    self.empty_buckets(&mut due);
                }
                _ => {
                    self.now = now_ms;
                    return;
                }
            }
        }
    }

    /// Advances by more than 2³¹ ms. The clock never goes back, so a `now_ms` that seems earlier means such a leap; all
    /// deadlines are due.
    #[cold]
    fn leap(&mut self, now_ms: u32, mut due: impl FnMut(u32)) {
        (self.heads, self.occupied, self.now) = ([[NONE; BUCKETS]; LEVELS], [0; LEVELS], now_ms);
        for (key, node) in self.nodes.iter_mut().enumerate() {
            let before = std::mem::replace(node, EMPTY).state;
            if before != State::Clear {
                node.state = State::Passed;
            }
            if before == State::Set {
                self.set_count -= 1;
                due(key as u32);
            }
        }
    }

    /// Empties the buckets that start at `self.now`: nodes that are due are reported, and the others move down.
    fn empty_buckets(&mut self, due: &mut impl FnMut(u32)) {
        for level in (0..LEVELS).rev() {
            let shift = BITS * level as u32;
            if level > 0 && self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let bucket = (self.now >> shift) as usize % BUCKETS;
            let mut key = std::mem::replace(&mut self.heads[level][bucket], NONE);
            self.occupied[level] &= !(1 << bucket);
            while key != NONE {
                let node = &mut self.nodes[key as usize];
                let (next, is_due) = (node.next, is_past(node.due, self.now));
                (node.next, node.previous, node.place) = (NONE, NONE, OUT);
                if node.state == State::Set && is_due {
                    node.state = State::Passed;
                    self.set_count -= 1;
                    due(key);
                } else if node.state == State::Set {
                    self.insert(key);
                }
                key = next;
            }
        }
    }

    /// Inserts a node into the bucket for its distance from `self.now`.
    fn insert(&mut self, key: u32) {
        let node_due = self.nodes[key as usize].due;
        // A deadline that has passed already is reported in the next millisecond.
        let due = if is_past(node_due, self.now) { self.now.wrapping_add(1) } else { node_due };
        let ahead = due.wrapping_sub(self.now);
        let level = ((u32::BITS - 1 - ahead.leading_zeros()) / BITS) as usize;
        let bucket = (due >> (BITS * level as u32)) as usize % BUCKETS;
        let head = std::mem::replace(&mut self.heads[level][bucket], key);
        self.occupied[level] |= 1 << bucket;
        if head != NONE {
            self.nodes[head as usize].previous = key;
        }
        let node = &mut self.nodes[key as usize];
        (node.next, node.previous, node.place) = (head, NONE, (level * BUCKETS + bucket) as u16);
    }

    fn remove(&mut self, key: u32) {
        let node = self.nodes[key as usize];
        if node.place == OUT {
            return;
        }
        let (level, bucket) = (usize::from(node.place) / BUCKETS, usize::from(node.place) % BUCKETS);
        if node.previous == NONE {
            self.heads[level][bucket] = node.next;
            if node.next == NONE {
                self.occupied[level] &= !(1 << bucket);
            }
        } else {
            self.nodes[node.previous as usize].next = node.next;
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        self.nodes[key as usize].place = OUT;
    }
}

#[cfg(test)]
mod tests;
