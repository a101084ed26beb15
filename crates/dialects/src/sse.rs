//! Writes server-sent events.

use std::io::{self, Write};

use bytes::{BufMut, BytesMut};
use serde::Serialize;

/// The `Content-Type` of an event stream.
pub const CONTENT_TYPE: &str = "text/event-stream";

/// The comment that keeps a silent connection open.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Writes an event without id and name. JSON is encoded without line breaks, so it is a single line.
pub(crate) fn data(data: &impl Serialize, out: &mut BytesMut) {
    write(&mut out.writer(), data).expect("an event is JSON, and memory takes it");
}

/// Writes an event with an id and a name.
pub(crate) fn event(id: u64, name: &str, data: &impl Serialize, out: &mut BytesMut) {
    let mut out = out.writer();
    write!(out, "id: {id}\nevent: {name}\n")
        .and_then(|()| write(&mut out, data))
        .expect("an event is JSON, and memory takes it");
}

fn write(mut out: impl Write, data: &impl Serialize) -> io::Result<()> {
    out.write_all(b"data: ")?;
    serde_json::to_writer(&mut out, data)?;
    out.write_all(b"\n\n")
}
