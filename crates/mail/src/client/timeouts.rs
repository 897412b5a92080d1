//! The timeouts of a client (RFC 5321 section 4.5.3.2).

use super::Stage;
use std::time::Duration;

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// The upper bound of every limit.
    longest: Duration,
}

/// Limit for establishing the connection. The RFC specifies none; this is the value of Postfix.
const CONNECT: Duration = Duration::from_secs(30);
/// Limit between two calls that send a part of the content (RFC 5321 section 4.5.3.2.5).
const BLOCK: Duration = Duration::from_secs(180);
/// Limit for the answers to RSET and QUIT. The RFC specifies none; only the reuse of the connection depends on these
/// answers.
const COURTESY: Duration = Duration::from_secs(20);

impl Timeouts {
    /// Returns the limits of the RFC, none longer than `longest`.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest }
    }

    /// Returns the limit for the connection to be established.
    pub(crate) fn connect(self) -> Duration {
        CONNECT.min(self.longest)
    }

    /// Returns the limit for the kernel to accept more of the data being sent.
    pub(crate) fn block(self) -> Duration {
        BLOCK.min(self.longest)
    }

    /// Returns the limit for the reply to a command.
    pub(crate) fn reply(self, stage: Stage) -> Duration {
        let limit = match stage {
            Stage::Greeting | Stage::Ehlo | Stage::Helo | Stage::StartTls | Stage::Mail | Stage::Rcpt => {
                Duration::from_secs(300)
            }
            Stage::Data => Duration::from_secs(120),
            Stage::Content | Stage::Chunk => Duration::from_secs(600),
            Stage::Reset | Stage::Clear | Stage::Quit => COURTESY,
        };
        limit.min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5321 sections 4.5.3.2.1 to 4.5.3.2.6.
    #[test]
    fn the_times_are_those_of_the_rfc_and_can_be_shortened() {
        let (all, short) = (Timeouts::new(Duration::MAX), Timeouts::new(Duration::from_secs(60)));
        for (stage, minutes) in [
            (Stage::Greeting, 5),
            (Stage::Mail, 5),
            (Stage::Rcpt, 5),
            (Stage::Data, 2),
            (Stage::Content, 10),
            (Stage::Chunk, 10),
        ] {
            assert_eq!(all.reply(stage), Duration::from_secs(60 * minutes), "{stage:?}");
            assert_eq!(short.reply(stage), Duration::from_secs(60), "{stage:?}");
        }
        assert_eq!(all.block(), Duration::from_secs(180));
        assert_eq!((all.connect(), short.block()), (CONNECT, Duration::from_secs(60)));
    }
}
