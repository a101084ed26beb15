//! What every dialect's view of a log is.

use bytes::BytesMut;
use domain::Event;

/// A dialect's view of a log. Pure: whatever it writes follows from the events alone, from the first on, so
/// that a resumed stream is the first stream, cut.
pub trait Encoder: Send {
    /// Writes what the event means in this dialect, if anything.
    fn encode(&mut self, event: &Event, out: &mut BytesMut);

    /// What keeps a silent connection open, for a dialect that has such a thing.
    fn keep_alive(&self) -> Option<&'static [u8]>;
}

impl Encoder for Box<dyn Encoder> {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        (**self).encode(event, out);
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        (**self).keep_alive()
    }
}
