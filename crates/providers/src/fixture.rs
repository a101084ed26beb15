//! Checks decoders against recorded answers, cut in every way.

use domain::{Failure, ModelEvent};
use proptest::prelude::*;
use testing::fuzz;

use crate::events::Decoder;

/// Decodes an answer that comes in these reads; one line per event.
pub(crate) fn decode<'a, D: Decoder>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = D::default();
    let mut told = Vec::new();
    let mut take_events = |decoder: &mut D| {
        while let Some(event) = decoder.events().next() {
            told.push(tell(event));
        }
    };
    for read in reads {
        decoder.feed(read);
        take_events(&mut decoder);
    }
    if !decoder.events().has_ended() {
        decoder.finish("end of file");
        take_events(&mut decoder);
    }
    assert!(decoder.events().has_ended());
    told
}

/// Whole, cut in two at every byte, and byte by byte: always these events.
#[track_caller]
pub(crate) fn check<D: Decoder>(answer: &[u8], expected: &[&str]) {
    assert_eq!(decode::<D>([answer]), expected);
    for cut in 0..=answer.len() {
        let (head, tail) = answer.split_at(cut);
        assert_eq!(decode::<D>([head, tail]), expected, "cut at byte {cut}");
    }
    assert_eq!(decode::<D>(answer.chunks(1)), expected, "byte by byte");
}

/// An answer with some bytes changed, cut anywhere, never panics and is decoded like the uncut one.
pub(crate) fn check_noise<D: Decoder>(answers: Vec<&'static [u8]>) {
    let noise = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..8);
    proptest!(|(answer in prop::sample::select(answers), noise in noise, cuts in cuts)| {
        let mut answer = answer.to_vec();
        for (place, byte) in noise {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len())).collect();
        cuts.sort_unstable();
        let mut rest = answer.as_slice();
        let mut reads = Vec::new();
        for cut in cuts.into_iter().rev() {
            let (head, tail) = rest.split_at(cut);
            reads.push(tail);
            rest = head;
        }
        reads.push(rest);
        prop_assert_eq!(decode::<D>(reads.into_iter().rev()), decode::<D>([answer.as_slice()]));
    });
}

/// Nearly right answers are decoded or refused, the same however they are cut.
pub(crate) fn check_nearly_right<D: Decoder>(answers: &[&[u8]]) {
    const WORDS: [&str; 16] = [
        "\"error\":",
        "{\"message\":",
        "\"done\":true",
        "null",
        "[]",
        "{}",
        "\\ud83d",
        "\\udc00",
        "data: ",
        "data: [DONE]",
        "id: 7",
        "event: error",
        ": comment",
        "\n\n",
        "\"tool_calls\":[{",
        "\"index\":-1",
    ];
    fuzz(answers, &WORDS, |answer| {
        let whole = decode::<D>([answer]);
        assert_eq!(decode::<D>(answer.chunks(1)), whole);
        assert_eq!(decode::<D>(answer.chunks(7)), whole);
    });
}

fn tell(event: Result<ModelEvent, Failure>) -> String {
    match event {
        Ok(ModelEvent::Text(text)) => format!("text {text:?}"),
        Ok(ModelEvent::Reasoning(text)) => format!("reasoning {text:?}"),
        Ok(ModelEvent::ToolCall(call)) => format!("call {:?} {} {}", call.id, call.name, call.arguments),
        Ok(ModelEvent::Usage(usage)) => {
            format!("usage {:?} {:?} {:?}", usage.input, usage.output, usage.cached)
        }
        Ok(ModelEvent::Finish(reason)) => format!("finish {reason:?}"),
        Ok(ModelEvent::Started(_) | ModelEvent::Waiting) => unreachable!("decoders know no model"),
        Err(failure) => format!("{:?}: {failure}", failure.kind),
    }
}
