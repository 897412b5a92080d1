//! The envelope of a message: the sender, the mode, and the parameters of MAIL and RCPT.

use crate::domain::{address_to_ascii, to_ascii};
use crate::error::{Error, Result};
use landau_wire::smtp::parameter::{Notify, OriginalRecipient, Ret, Xtext};
use landau_wire::smtp::{Mailbox, Rcpt, Recipient};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How far a transaction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everything up to DATA, then RSET: the server is asked whether it accepts the recipient, and no message is sent.
    /// The study of 2001 measured this.
    Rset,
    /// The message is delivered.
    Data,
    /// A connection for each recipient: EHLO and QUIT.
    Quit,
}

impl Mode {
    /// Returns the word for a recipient that succeeded.
    pub const fn success(self) -> &'static str {
        match self {
            Self::Rset => "accepted",
            Self::Data => "sent",
            Self::Quit => "greeted",
        }
    }
}

/// The sender, mode and parameters of every message.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The sender, without angle brackets; empty for the null path.
    pub from: String,
    /// How far a transaction goes.
    pub mode: Mode,
    /// The name in EHLO.
    pub helo: String,
    /// Whether commands are pipelined where the server offers it.
    pub pipelining: bool,
    /// Whether messages are sent with BDAT where the server offers it.
    pub chunking: bool,
    /// `NOTIFY`, where the server offers DSN.
    pub notify: Option<Notify>,
    /// `RET`, where the server offers DSN.
    pub ret: Option<Ret>,
    /// `ENVID`, where the server offers DSN; not encoded yet.
    pub envid: Option<String>,
}

/// The requests of the sender for one recipient: the parameters of RCPT (RFC 3461).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// When the sender wants to be notified.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "notify_text")]
    pub(crate) notify: Option<Notify>,
    /// The recipient as the sender gave it, with its type, encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) orcpt: Option<Box<str>>,
}

impl Request {
    /// Returns the requests of a command.
    pub(crate) fn of(rcpt: &Rcpt<'_>) -> Self {
        Self { notify: rcpt.notify, orcpt: rcpt.orcpt.map(|orcpt| orcpt.as_str().into()) }
    }

    /// Returns the command for a recipient.
    pub(crate) fn rcpt<'a>(&'a self, mailbox: Mailbox<'a>) -> Rcpt<'a> {
        let mut rcpt = Rcpt::new(Recipient::Mailbox(mailbox));
        rcpt.notify = self.notify;
        rcpt.orcpt = self.orcpt.as_deref().and_then(OriginalRecipient::new);
        rcpt
    }
}

/// The form of `NOTIFY` in the queue, which is that of the command.
mod notify_text {
    use landau_wire::smtp::parameter::Notify;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(notify: &Option<Notify>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        if let Some(notify) = notify {
            notify.write(&mut text);
        }
        serializer.serialize_str(&String::from_utf8_lossy(&text))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<Notify>, D::Error> {
        let text = <std::borrow::Cow<'a, str>>::deserialize(deserializer)?;
        Notify::parse(text.as_bytes()).map(Some).ok_or_else(|| D::Error::custom("unknown value of NOTIFY"))
    }
}

impl Envelope {
    /// Returns an envelope without parameters, which uses PIPELINING and not CHUNKING.
    pub fn new(from: &str, mode: Mode) -> Self {
        Self {
            from: from.to_owned(),
            mode,
            helo: "localhost".to_owned(),
            pipelining: true,
            chunking: false,
            notify: None,
            ret: None,
            envid: None,
        }
    }

    /// Checks the sender, and encodes the identifier.
    ///
    /// # Errors
    ///
    /// The sender is not an address, the name in EHLO not a domain, or the identifier too long.
    pub(crate) fn checked(mut self) -> Result<Self> {
        if !self.from.is_empty() {
            Mailbox::parse(self.from.as_bytes())
                .map_err(|error| Error::Spec(format!("--from {}: {error}", self.from)))?;
        }
        // EHLO is sent before the server can offer SMTPUTF8.
        if let (false, Some(ascii)) = (self.helo.is_ascii(), to_ascii(&self.helo)) {
            self.helo = ascii.into_owned();
        }
        landau_wire::smtp::Host::parse(self.helo.as_bytes())
            .map_err(|error| Error::Spec(format!("--helo {}: {error}", self.helo)))?;
        if let Some(envid) = &mut self.envid {
            let mut encoded = Vec::new();
            Xtext::encode(envid.as_bytes(), &mut encoded);
            *envid = String::from_utf8_lossy(&encoded).into_owned();
            if envid.len() > landau_wire::smtp::parameter::ENVID_BYTES {
                return Err(Error::Spec(format!(
                    "--envid: {} bytes when encoded; at most 100 are allowed",
                    envid.len()
                )));
            }
        }
        Ok(self)
    }

    /// Returns the address of the sender: unchanged if the transaction uses SMTPUTF8, otherwise in ASCII.
    pub(crate) fn address(&self, is_utf8: bool) -> Cow<'_, str> {
        let converted = if is_utf8 { None } else { address_to_ascii(&self.from) };
        converted.unwrap_or(Cow::Borrowed(&self.from))
    }
}
