//! The null backend: makes no system call and reports every descriptor as ready for all that is of interest.
//!
//! It measures the cost of the event loop and the program without a backend. It also exposes programs that treat
//! readiness as more than a hint: they fail with it. It never sleeps, so it is for short runs only.

use super::{Found, Key, Selector};
use crate::error::Result;
use crate::interest::{Interest, Ready};

#[derive(Debug, Default)]
pub(crate) struct Null {
    /// By descriptor number.
    watched: Vec<Option<(Key, Interest)>>,
}

impl Null {
    fn slot(&mut self, key: Key) -> &mut Option<(Key, Interest)> {
        let index = key.fd() as usize;
        if index >= self.watched.len() {
            self.watched.resize(index + 1, None);
        }
        &mut self.watched[index]
    }
}

impl Selector for Null {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        *self.slot(key) = Some((key, interest));
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.add(key, interest)
    }

    fn remove(&mut self, key: Key, _: bool) -> Result<()> {
        *self.slot(key) = None;
        Ok(())
    }

    fn wait(&mut self, found: &mut Vec<Found>, _: i32) -> Result<()> {
        let watched = self.watched.iter().flatten().filter(|(_, interest)| !interest.is_empty());
        found.extend(watched.map(|&(key, interest)| Found { key, ready: Ready::from(interest) }));
        Ok(())
    }
}
