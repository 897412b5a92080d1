//! Deadlines that cost O(1) each, however many there are: a hierarchical timing wheel.
//!
//! Six levels of 64 buckets hold deadlines by their distance: the lowest level one bucket a millisecond, each further
//! level 64 times as coarse. A deadline is a node of an intrusive list in a table indexed by the user's key, so that
//! setting one allocates nothing once the table is large enough. Moving a deadline *later*, which is what a server
//! does with each request of a connection, only writes the number down: the node is found where it was, is seen to be
//! early, and moves then. A node moves down at most once a level.
//!
//! Source of the idea: Varghese and Lauck, "Hashed and hierarchical timing wheels" (SOSP 1987).

/// No node.
const NONE: u32 = u32::MAX;
/// Of a node that is in no bucket.
const OUT: u16 = u16::MAX;
const LEVELS: usize = 6;
const BITS: u32 = 6;
const BUCKETS: usize = 1 << BITS;

/// The longest delay, twelve days: a longer one could not be told from one that has passed.
pub const LONGEST_MS: u32 = 1 << 30;

/// Whether `at` lies behind `now`, or is `now`: less than half of all numbers ago.
fn is_past(at: u32, now: u32) -> bool {
    now.wrapping_sub(at) <= u32::MAX / 2
}

#[derive(Debug, Clone, Copy)]
struct Node {
    next: u32,
    previous: u32,
    /// When it is due, in milliseconds, modulo 2³².
    due: u32,
    /// Level and bucket that it stands in, or `OUT`.
    place: u16,
    /// Whether it is set: a node that is not may still stand in a bucket until that is looked at.
    armed: bool,
}

const EMPTY: Node = Node { next: NONE, previous: NONE, due: 0, place: OUT, armed: false };

/// Deadlines by key. Times are milliseconds modulo 2³², so that a server may run for longer than 49 days.
#[derive(Debug)]
pub struct Timers {
    nodes: Vec<Node>,
    heads: [[u32; BUCKETS]; LEVELS],
    /// Which buckets hold something.
    occupied: [u64; LEVELS],
    /// All before it was looked at.
    now: u32,
    armed_count: usize,
}

impl Default for Timers {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Timers {
    /// No deadline, at that time.
    pub fn new(now_ms: u32) -> Self {
        let heads = [[NONE; BUCKETS]; LEVELS];
        Self { nodes: Vec::new(), heads, occupied: [0; LEVELS], now: now_ms, armed_count: 0 }
    }

    /// How many deadlines are set.
    pub fn len(&self) -> usize {
        self.armed_count
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.armed_count == 0
    }

    /// Sets or moves a key's deadline, `delay_ms` after `now_ms`; at most [`LONGEST_MS`] ahead.
    #[inline]
    pub fn set(&mut self, key: u32, now_ms: u32, delay_ms: u32) {
        let due = now_ms.wrapping_add(delay_ms.min(LONGEST_MS));
        let index = key as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, EMPTY);
        }
        let node = &mut self.nodes[index];
        if !node.armed {
            node.armed = true;
            self.armed_count += 1;
        }
        // Also a node that was cleared stands in a bucket no later than the time it was last set to.
        if node.place != OUT && due.wrapping_sub(node.due) <= LONGEST_MS {
            node.due = due;
            return;
        }
        self.take_out(key);
        self.nodes[index].due = due;
        self.put_in(key);
    }

    /// Forgets a key's deadline.
    #[inline]
    pub fn clear(&mut self, key: u32) {
        if let Some(node) = self.nodes.get_mut(key as usize)
            && node.armed
        {
            node.armed = false;
            self.armed_count -= 1;
        }
    }

    /// How long from `now_ms` until something may be due, in milliseconds; none if nothing is set. It may be too
    /// early, for a coarse bucket is looked at from its beginning, and never too late.
    pub fn next(&self, now_ms: u32) -> Option<u32> {
        if self.armed_count == 0 {
            return None;
        }
        let begin = (0..LEVELS).filter_map(|level| self.first(level)).min()?;
        // Counted from where the wheel stands: what lies behind the time is due at once.
        Some(begin.saturating_sub(now_ms.wrapping_sub(self.now)))
    }

    /// How far the first occupied bucket of a level begins behind `self.now`.
    fn first(&self, level: usize) -> Option<u32> {
        let shift = BITS * level as u32;
        let here = self.now >> shift;
        let turned = self.occupied[level].rotate_right(here % BUCKETS as u32);
        if turned == 0 {
            return None;
        }
        // The bucket in which the time stands: on the lowest level it is due now; above, what it holds was put there
        // a whole turn ahead.
        let mut steps = turned.trailing_zeros();
        if level > 0 && steps == 0 {
            let rest = turned & !1;
            steps = if rest == 0 { BUCKETS as u32 } else { rest.trailing_zeros() };
        }
        Some((here.wrapping_add(steps) << shift).wrapping_sub(self.now))
    }

    /// Advances to `now_ms` and tells each key whose deadline has passed, once. To be called whenever time has
    /// passed, also while nothing is set: what is set next is counted from here.
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
                    self.look(&mut due);
                }
                _ => {
                    self.now = now_ms;
                    return;
                }
            }
        }
    }

    /// Advances further than any deadline can be ahead: the clock does not go back, so that more than half of all
    /// numbers have passed since it was asked last. All that was set is due.
    #[cold]
    fn leap(&mut self, now_ms: u32, mut due: impl FnMut(u32)) {
        (self.heads, self.occupied, self.now) = ([[NONE; BUCKETS]; LEVELS], [0; LEVELS], now_ms);
        for (key, node) in self.nodes.iter_mut().enumerate() {
            if std::mem::replace(node, EMPTY).armed {
                self.armed_count -= 1;
                due(key as u32);
            }
        }
    }

    /// Empties the buckets that begin at `self.now`: what is due is told, what is not moves to where it belongs.
    fn look(&mut self, due: &mut impl FnMut(u32)) {
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
                if node.armed && is_due {
                    node.armed = false;
                    self.armed_count -= 1;
                    due(key);
                } else if node.armed {
                    self.put_in(key);
                }
                key = next;
            }
        }
    }

    /// Into the bucket that its distance from `self.now` demands.
    fn put_in(&mut self, key: u32) {
        let node_due = self.nodes[key as usize].due;
        // What has passed already is told at the next look, which the next millisecond brings.
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

    fn take_out(&mut self, key: u32) {
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn advance(timers: &mut Timers, now: u32) -> Vec<u32> {
        let mut told = Vec::new();
        timers.advance(now, |key| told.push(key));
        told.sort_unstable();
        told
    }

    #[test]
    fn a_deadline_is_told_once_and_not_before() {
        let mut timers = Timers::new(5);
        timers.set(3, 5, 100);
        assert_eq!((timers.len(), advance(&mut timers, 104)), (1, vec![]));
        assert_eq!((advance(&mut timers, 105), timers.len()), (vec![3], 0));
        assert_eq!((advance(&mut timers, 100_000), timers.next(100_000)), (vec![], None));
    }

    /// 49 days after the start the number of milliseconds begins anew.
    #[test]
    fn the_clock_may_turn_over() {
        let begin = u32::MAX - 50;
        let mut timers = Timers::new(begin);
        timers.set(0, begin, 100);
        timers.set(1, begin, LONGEST_MS);
        assert_eq!(advance(&mut timers, begin.wrapping_add(99)), vec![]);
        assert_eq!(advance(&mut timers, begin.wrapping_add(100)), vec![0]);
        assert_eq!(advance(&mut timers, begin.wrapping_add(LONGEST_MS - 1)), vec![]);
        assert_eq!(advance(&mut timers, begin.wrapping_add(LONGEST_MS)), vec![1]);
    }

    /// A server without a visitor for weeks sets no deadline all that time, and its loop wakes for nothing.
    #[test]
    fn weeks_without_a_deadline_change_nothing() {
        const DAY_MS: u32 = 24 * 60 * 60 * 1000;
        for days in [1, 12, 13, 24, 25, 30, 45, 49] {
            let mut timers = Timers::new(0);
            timers.set(7, 0, 20_000);
            timers.clear(7);
            let now = days * DAY_MS;
            assert_eq!(advance(&mut timers, now), vec![], "{days} days");
            timers.set(7, now, 10_000);
            timers.set(8, now, 30_000);
            assert!(timers.next(now).is_some_and(|next| next <= 10_000), "{days} days");
            assert_eq!(advance(&mut timers, now + 9_999), vec![], "{days} days");
            assert_eq!(advance(&mut timers, now + 10_000), vec![7], "{days} days");
            assert_eq!(advance(&mut timers, now + 30_000), vec![8], "{days} days");
            assert_eq!((timers.next(now + 30_000), timers.len()), (None, 0), "{days} days");
        }
    }

    /// A process that was stopped for a month finds everything due, once.
    #[test]
    fn what_was_set_before_a_leap_is_due() {
        let mut timers = Timers::new(0);
        timers.set(1, 0, 5);
        timers.set(2, 0, LONGEST_MS);
        let now = u32::MAX / 2 + 10;
        assert_eq!(advance(&mut timers, now), vec![1, 2]);
        timers.set(1, now, 5);
        assert_eq!((advance(&mut timers, now + 4), advance(&mut timers, now + 5)), (vec![], vec![1]));
    }

    /// The longest delay, by a clock that is ahead of the wheel: it was taken for one that had passed.
    #[test]
    fn the_longest_delay_is_no_deadline_of_the_past() {
        let mut timers = Timers::new(0);
        timers.set(0, 1_000, u32::MAX);
        assert_eq!(advance(&mut timers, 2_000), vec![]);
        assert_eq!(advance(&mut timers, 1_000 + LONGEST_MS), vec![0]);
    }

    /// A million deadlines that are moved with each request: the wheel's own structure must not grow.
    #[test]
    fn moving_a_deadline_later_moves_no_node() {
        let mut timers = Timers::new(0);
        timers.set(0, 0, 1000);
        let place = timers.nodes[0].place;
        for now in 1..500 {
            timers.set(0, now, 1000);
            assert_eq!(timers.nodes[0].place, place);
        }
        assert_eq!(advance(&mut timers, 1498), vec![]);
        assert_eq!(advance(&mut timers, 1499), vec![0]);
    }

    #[derive(Debug, Clone)]
    enum Act {
        Set(u32, u32),
        Clear(u32),
        Pass(u32),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let delay = prop_oneof![0..70_u32, 0..5_000_u32, 0..300_000_u32, 0..LONGEST_MS];
        let act = prop_oneof![
            4 => (0..20_u32, delay.clone()).prop_map(|(key, delay)| Act::Set(key, delay)),
            1 => (0..20_u32).prop_map(Act::Clear),
            3 => delay.prop_map(Act::Pass),
        ];
        proptest::collection::vec(act, 1..80)
    }

    proptest! {
        /// Against a sorted map: each deadline is told at its time and never before, and `next` is never too late.
        #[test]
        fn it_agrees_with_a_sorted_map(start in any::<u32>(), acts in acts()) {
            let mut timers = Timers::new(start);
            let (mut model, mut now) = (BTreeMap::<u32, u64>::new(), 0_u64);
            let clock = |now: u64| start.wrapping_add(now as u32);
            for act in acts {
                match act {
                    Act::Set(key, delay) => {
                        timers.set(key, clock(now), delay);
                        // What is due now is told at the next millisecond.
                        model.insert(key, now + u64::from(delay.max(1)));
                    }
                    Act::Clear(key) => {
                        timers.clear(key);
                        model.remove(&key);
                    }
                    Act::Pass(delay) => {
                        if let (Some(next), Some(first)) = (timers.next(clock(now)), model.values().min()) {
                            prop_assert!(u64::from(next) <= first - now, "{next} is later than {}", first - now);
                        }
                        now += u64::from(delay);
                        let due: Vec<u32> = model.iter().filter(|(_, at)| **at <= now).map(|(key, _)| *key).collect();
                        model.retain(|_, at| *at > now);
                        prop_assert_eq!(advance(&mut timers, clock(now)), due);
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
            }
        }
    }
}
