//! Checks of decoders against recorded answers, cut at every byte.

use domain::{Failure, ModelEvent};
use proptest::prelude::*;
use testing::fuzz;

use super::AnswerDecoder;

/// Decodes an answer that arrives in these reads, to one line per event.
pub(crate) fn decode<'a, D: AnswerDecoder>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = D::default();
    let mut lines = Vec::new();
    let mut take_events = |decoder: &mut D| {
        while let Some(event) = decoder.events().next() {
            lines.push(line(event));
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
    lines
}

/// Decodes an answer whole, cut in two at every byte, and byte by byte, and expects these events each time.
#[track_caller]
pub(crate) fn check<D: AnswerDecoder>(answer: &[u8], expected: &[&str]) {
    assert_eq!(decode::<D>([answer]), expected);
    for cut in 0..=answer.len() {
        let (head, tail) = answer.split_at(cut);
        assert_eq!(decode::<D>([head, tail]), expected, "cut at byte {cut}");
    }
    assert_eq!(decode::<D>(answer.chunks(1)), expected, "byte by byte");
}

/// Decodes answers with random bytes changed: cut anywhere, they give the events of the uncut one, without a panic.
pub(crate) fn check_noise<D: AnswerDecoder>(answers: Vec<&'static [u8]>) {
    let noise = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..8);
    proptest!(|(answer in prop::sample::select(answers), noise in noise, cuts in cuts)| {
        let mut answer = answer.to_vec();
        for (index, byte) in noise {
            let index = index.index(answer.len());
            answer[index] = byte;
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

/// Decodes nearly right answers: the events do not depend on the cuts.
pub(crate) fn check_nearly_right<D: AnswerDecoder>(answers: &[&[u8]]) {
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

fn line(event: Result<ModelEvent, Failure>) -> String {
    match event {
        Ok(ModelEvent::Text(text)) => format!("text {text:?}"),
        Ok(ModelEvent::Reasoning(text)) => format!("reasoning {text:?}"),
        Ok(ModelEvent::ToolCall(call)) => format!("call {:?} {} {}", call.id, call.name, call.arguments),
        Ok(ModelEvent::Usage(usage)) => {
            format!("usage {:?} {:?} {:?}", usage.input, usage.output, usage.cached)
        }
        Ok(ModelEvent::Finish(reason)) => format!("finish {reason:?}"),
        Ok(ModelEvent::Started(_) | ModelEvent::Waiting) => unreachable!("decoders emit neither"),
        Err(failure) => format!("{:?}: {failure}", failure.kind),
    }
}
