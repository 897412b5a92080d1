//! An input that receives recipients while the engine runs, and hands out returned ones again, like a queue.

use super::network::Virtual;
use super::{SECOND, Scenario, Silent, World};
use crate::engine::Engine;
use crate::envelope::Mode;
use crate::error::Result;
use crate::input::{Input, IsCrowded, Letter, Next, Offer};
use crate::ledger::{Report, State};
use crate::list::Record;
use crate::message::Message;
use crate::schedule::Schedule;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const LETTERS: u32 = 3;

/// The time between two arrivals of recipients.
const INTERVAL_NS: u64 = SECOND / 50;

#[derive(Debug)]
struct Feed {
    letters: Vec<Rc<Letter>>,
    /// Waiting recipients, each with the time from which it may be handed out.
    waiting: VecDeque<(u32, u64)>,
    states: Vec<Option<State>>,
    is_held: Vec<bool>,
    was_handed_out: Vec<bool>,
    /// The number of times that the feed had no recipient ready.
    later: u32,
}

impl Feed {
    fn new(scenario: &Scenario) -> Self {
        let letter = |number| {
            let text = format!("Letter: {number}\n\n..b{}\n", "x".repeat(300 * number));
            let mut envelope = scenario.envelope.clone();
            envelope.from = format!("s{number}@example.org");
            Rc::new(Letter::new(envelope, Message::parse(text.as_bytes(), &[], None).unwrap()))
        };
        let count = scenario.recipients;
        Self {
            letters: (0..LETTERS as usize).map(letter).collect(),
            waiting: (0..count as u32).map(|number| (number, u64::from(number) * INTERVAL_NS)).collect(),
            states: vec![None; count],
            is_held: vec![false; count],
            was_handed_out: vec![false; count],
            later: 0,
        }
    }
}

impl Input for Rc<RefCell<Feed>> {
    const RETRIES: bool = true;

    fn next(&mut self, record: &mut Record, now_ns: u64, _: IsCrowded<'_>) -> Result<Next> {
        let mut feed = self.borrow_mut();
        let Some(&(number, at_ns)) = feed.waiting.front() else {
            return Ok(if feed.is_held.contains(&true) { Next::Later(u64::MAX) } else { Next::End });
        };
        if at_ns > now_ns {
            feed.later += 1;
            return Ok(Next::Later(at_ns));
        }
        feed.waiting.pop_front();
        let index = number as usize;
        assert!(!std::mem::replace(&mut feed.is_held[index], true), "{number} is handed out twice");
        record.set_address(&format!("r{number}@d.test"));
        let letter = Rc::clone(&feed.letters[(number % LETTERS) as usize]);
        let is_again = std::mem::replace(&mut feed.was_handed_out[index], true);
        Ok(Next::Recipient(Offer { number: u64::from(number), letter, state: feed.states[index], is_again }))
    }

    fn record(&mut self, report: &Report<'_>, _: impl FnOnce() -> u64) {
        let mut feed = self.borrow_mut();
        let index = report.number as usize;
        assert!(feed.is_held[index], "{} is not the engine's", report.address);
        feed.states[index] = Some(report.state);
    }

    fn release(&mut self, number: u64, now_ns: u64) {
        let mut feed = self.borrow_mut();
        let index = number as usize;
        assert!(std::mem::replace(&mut feed.is_held[index], false), "{number} is released twice");
        if !matches!(feed.states[index], Some(State::Done | State::Failed)) {
            feed.waiting.push_back((number as u32, now_ns + 100 * SECOND));
        }
    }

    fn commit(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn recipients_that_come_while_the_engine_runs_get_their_own_letters() {
    let mut later = 0;
    for seed in 0..300 {
        let scenario = Scenario { mode: Mode::Data, ..Scenario::of_seed(seed) };
        let mut scenario = Scenario { recipients: scenario.recipients + 10, kill: 0.0, ..scenario };
        scenario.envelope.mode = Mode::Data;
        let world = Rc::new(RefCell::new(World {
            letters: (0..scenario.recipients as u32).map(|number| number % LETTERS).collect(),
            ..scenario.world()
        }));
        let feed = Rc::new(RefCell::new(Feed::new(&scenario)));
        let network = Virtual::new(Rc::clone(&world));
        let schedule = Schedule::new(scenario.limits()).with_suspension(scenario.limits().backoff);
        let mut engine = Engine::new(network, Rc::clone(&feed), scenario.routes(), scenario.plan(), schedule);
        engine.run(&mut Silent, &|| false).unwrap();
        let feed = feed.borrow();
        let read = feed.was_handed_out.iter().filter(|was| **was).count();
        assert_eq!(engine.stats.recipients.sum(), read as u64, "seed {seed}");
        assert!(feed.is_held.iter().all(|is_held| !is_held), "seed {seed}: the engine keeps recipients");
        for (number, state) in feed.states.iter().enumerate() {
            let is_final = matches!(state, Some(State::Done | State::Failed));
            assert!(is_final, "seed {seed}: {number} is {state:?}");
            assert!(*state != Some(State::Done) || world.borrow().accepted[number] > 0, "seed {seed}: {number}");
        }
        later += feed.later;
    }
    assert!(later > 0, "the input never ran dry");
}
