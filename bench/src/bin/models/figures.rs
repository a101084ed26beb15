//! The figures of a model: medians, side by side.

use std::collections::BTreeMap;
use std::time::Instant;

use super::served::Asked;

#[derive(Default)]
pub(crate) struct Figures {
    /// Tokens per second, of the server and of the loop.
    pub(crate) speeds: Vec<(f64, f64)>,
    /// By the intended number of tokens: the server's figures, and the loop's milliseconds.
    first_tokens: BTreeMap<usize, Vec<(Asked, f64)>>,
}

impl Figures {
    pub(crate) fn first_tokens(&mut self, meant: usize) -> &mut Vec<(Asked, f64)> {
        self.first_tokens.entry(meant).or_default()
    }

    pub(crate) fn report(&self) {
        let ours = median(self.speeds.iter().map(|(ours, _)| *ours));
        let bare = median(self.speeds.iter().map(|(_, bare)| *bare));
        let ratio = median(self.speeds.iter().map(|(ours, bare)| ours / bare));
        println!("  generation: {ours:.1} tokens/s, a bare loop {bare:.1}, ratio {ratio:.2}");
        println!("  first token, milliseconds from the request:");
        println!("  | tokens prefilled | of the prompt | through the server | bare loop | ratio |");
        println!("  | --- | --- | --- | --- | --- |");
        for asked in self.first_tokens.values() {
            let of = |value: fn(&(Asked, f64)) -> f64| median(asked.iter().map(value));
            println!(
                "  | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} |",
                of(|(asked, _)| (asked.input - asked.cached) as f64),
                of(|(asked, _)| asked.input as f64),
                of(|(asked, _)| asked.first_token),
                of(|(_, bare)| *bare),
                of(|(asked, bare)| asked.first_token / bare),
            );
        }
    }
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
