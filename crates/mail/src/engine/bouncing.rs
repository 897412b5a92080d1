//! Reports to the sender about recipients that failed.

use super::connection::Connection;
use super::{Engine, Input, Network, State};
use crate::bounce::{Action, Failure};
use landau_wire::smtp::Code;

impl<N: Network, I: Input> Engine<N, I> {
    /// Records that a recipient failed, and reports it to the sender if the sender wants that. `connection` is the one
    /// over which a server refused it, if any.
    pub(super) fn fail(&mut self, id: u32, connection: Option<&Connection>, code: Option<Code>, text: &[u8]) {
        let letter = self.schedule.recipients.letter(id);
        // The sender may have declined reports of failures (RFC 3461 section 4.1).
        let is_wanted = letter.envelope.notify.is_none_or(|notify| notify.failure) && !letter.envelope.from.is_empty();
        if let Some(bounces) = self.plan.bounces.as_ref().filter(|_| is_wanted) {
            let entry = self.schedule.recipients.get(id);
            let candidate = connection.and_then(|one| Some((one.site, one.candidates.last()?.host)));
            let failure = Failure {
                address: entry.record.address(),
                orcpt: None,
                action: Action::Failed,
                host: candidate.map(|(site, host)| self.routes.host_name(site, host)),
                code: code.map(Code::number),
                text,
            };
            match bounces.write(&letter, entry.number, &entry.record, &failure, self.network.unix_ms()) {
                Ok(()) => self.stats.bounces += 1,
                Err(error) => {
                    // The run ends, and the recipient keeps its state.
                    self.bounce_error = Some(error);
                    return;
                }
            }
        }
        self.settle(id, State::Failed, connection, code, text);
    }
}
