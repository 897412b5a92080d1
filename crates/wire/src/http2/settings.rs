//! The settings of a peer (RFC 9113 section 6.5.2).

use super::code::{Code, Fault};
use super::{INITIAL_WINDOW, LARGEST_WINDOW};

/// The default size of the table for header blocks.
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// A parameter of SETTINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The size of the sender's table for decoding header blocks, in bytes.
    HeaderTableSize = 1,
    /// Whether the sender accepts pushed responses.
    EnablePush = 2,
    /// The maximum number of concurrent streams that the sender accepts.
    MaxConcurrentStreams = 3,
    /// The window of each new stream, in bytes.
    InitialWindowSize = 4,
    /// The maximum payload that the sender accepts, in bytes.
    MaxFrameSize = 5,
    /// The maximum size of a field list that the sender accepts, in bytes.
    MaxHeaderListSize = 6,
}

/// The settings of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The size of its table for header blocks, in bytes.
    pub header_table_size: u32,
    /// The smallest size of this table so far.
    pub least_table_size: u32,
    /// The maximum number of concurrent streams.
    pub max_concurrent_streams: u32,
    /// The window of each new stream, in bytes.
    pub initial_window: u32,
    /// The maximum payload, in bytes.
    pub max_frame_size: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_size: DEFAULT_TABLE_SIZE,
            least_table_size: DEFAULT_TABLE_SIZE,
            max_concurrent_streams: u32::MAX,
            initial_window: INITIAL_WINDOW,
            max_frame_size: 16 << 10,
        }
    }
}

impl Settings {
    /// Applies the payload of a SETTINGS frame, whose length is a multiple of six. Unknown parameters are ignored.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), Fault> {
        for &[a, b, c, d, e, f] in payload.as_chunks::<6>().0 {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                1 => {
                    self.header_table_size = value;
                    self.least_table_size = self.least_table_size.min(value);
                }
                2 if value > 1 => return Err(Fault::protocol("SETTINGS_ENABLE_PUSH is neither 0 nor 1")),
                3 => self.max_concurrent_streams = value,
                4 if i64::from(value) > LARGEST_WINDOW => {
                    return Err(Fault::Connection(Code::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE too large"));
                }
                4 => self.initial_window = value,
                5 if !(16 << 10..1 << 24).contains(&value) => {
                    return Err(Fault::protocol("invalid SETTINGS_MAX_FRAME_SIZE"));
                }
                5 => self.max_frame_size = value,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(parameters: &[(u16, u32)]) -> Result<Settings, Fault> {
        let mut payload = Vec::new();
        for (name, value) in parameters {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut settings = Settings::default();
        settings.apply(&payload).map(|()| settings)
    }

    #[test]
    fn values_are_checked() {
        let all = applied(&[(1, 7), (1, 70), (2, 0), (3, 8), (4, 9), (5, 16_385), (6, 1), (99, 5), (4, 10)]).unwrap();
        let expected = Settings {
            header_table_size: 70,
            least_table_size: 7,
            max_concurrent_streams: 8,
            initial_window: 10,
            max_frame_size: 16_385,
        };
        assert_eq!(all, expected);
        for (name, value, code) in [
            (2, 2, Code::PROTOCOL_ERROR),
            (4, 1 << 31, Code::FLOW_CONTROL_ERROR),
            (5, 16_383, Code::PROTOCOL_ERROR),
            (5, 1 << 24, Code::PROTOCOL_ERROR),
        ] {
            assert!(matches!(applied(&[(name, value)]), Err(Fault::Connection(own, _)) if own == code), "{name}");
        }
        assert!(applied(&[(4, (1 << 31) - 1), (5, (1 << 24) - 1)]).is_ok());
    }
}
