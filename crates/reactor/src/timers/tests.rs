//! Timers against known times and against a sorted map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn advance(timers: &mut Timers, now: u32) -> Vec<u32> {
    let mut due = Vec::new();
    timers.advance(now, |key| due.push(key));
    due.sort_unstable();
    due
}

#[test]
fn a_deadline_is_reported_once_and_not_early() {
    let mut timers = Timers::new(5);
    timers.set(3, 5, 100);
    assert_eq!((timers.len(), advance(&mut timers, 104)), (1, vec![]));
    assert_eq!((advance(&mut timers, 105), timers.len()), (vec![3], 0));
    assert_eq!((advance(&mut timers, 100_000), timers.next(100_000)), (vec![], None));
}

/// A caller reports a passed deadline later, and may have set or cleared it by then.
#[test]
fn a_deadline_has_passed_until_it_is_set_or_cleared() {
    let mut timers = Timers::new(0);
    assert!(!timers.take_passed(3), "there is no such key");
    (0..3).for_each(|key| timers.set(key, 0, 5));
    assert!(!timers.take_passed(0));
    assert_eq!(advance(&mut timers, 5), vec![0, 1, 2]);
    timers.set(1, 5, 5);
    timers.clear(2);
    assert_eq!([0, 1, 2, 0].map(|key| timers.take_passed(key)), [true, false, false, false]);
    assert_eq!((timers.len(), advance(&mut timers, 10)), (1, vec![1]));
    // A leap does not revoke a passed deadline.
    timers.set(0, 10, 5);
    assert_eq!(advance(&mut timers, u32::MAX / 2 + 20), vec![0]);
    assert_eq!([0, 1, 2].map(|key| timers.take_passed(key)), [true, true, false]);
}

/// After 49 days.
#[test]
fn the_clock_may_wrap_around() {
    let begin = u32::MAX - 50;
    let mut timers = Timers::new(begin);
    timers.set(0, begin, 100);
    timers.set(1, begin, LONGEST_MS);
    assert_eq!(advance(&mut timers, begin.wrapping_add(99)), vec![]);
    assert_eq!(advance(&mut timers, begin.wrapping_add(100)), vec![0]);
    assert_eq!(advance(&mut timers, begin.wrapping_add(LONGEST_MS - 1)), vec![]);
    assert_eq!(advance(&mut timers, begin.wrapping_add(LONGEST_MS)), vec![1]);
}

/// A server without a connection for weeks sets no deadline all that time, and its loop does not wake.
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

/// A process was stopped for a month.
#[test]
fn everything_is_due_after_a_leap() {
    let mut timers = Timers::new(0);
    timers.set(1, 0, 5);
    timers.set(2, 0, LONGEST_MS);
    let now = u32::MAX / 2 + 10;
    assert_eq!(advance(&mut timers, now), vec![1, 2]);
    timers.set(1, now, 5);
    assert_eq!((advance(&mut timers, now + 4), advance(&mut timers, now + 5)), (vec![], vec![1]));
}

/// With a clock ahead of the wheel, the longest delay was once mistaken for a deadline in the past.
#[test]
fn the_longest_delay_is_not_in_the_past() {
    let mut timers = Timers::new(0);
    timers.set(0, 1_000, u32::MAX);
    assert_eq!(advance(&mut timers, 2_000), vec![]);
    assert_eq!(advance(&mut timers, 1_000 + LONGEST_MS), vec![0]);
}

/// A server moves a deadline with each request.
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
    /// Each deadline is reported at its time and not before, and `next` is never too late.
    #[test]
    fn timers_agree_with_a_sorted_map(start in any::<u32>(), acts in acts()) {
        let mut timers = Timers::new(start);
        let (mut model, mut now) = (BTreeMap::<u32, u64>::new(), 0_u64);
        let clock = |now: u64| start.wrapping_add(now as u32);
        for act in acts {
            match act {
                Act::Set(key, delay) => {
                    timers.set(key, clock(now), delay);
                    // A deadline that is due now is reported in the next millisecond.
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
