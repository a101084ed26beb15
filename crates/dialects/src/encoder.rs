//! The trait of all encoders.

use bytes::BytesMut;
use domain::Event;

/// Encodes the log of a prompt in one dialect. Pure: the output follows from the events alone, from the first one on, so
/// that a resumed stream continues the first one.
pub trait Encoder: Send {
    /// Appends the event in this dialect to `out`, if the dialect has it.
    fn encode(&mut self, event: &Event, out: &mut BytesMut);

    /// The bytes that keep a silent connection open, if the dialect allows any.
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
