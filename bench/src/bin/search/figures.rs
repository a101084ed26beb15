//! The times of the rounds, and their report.

use std::fmt::Debug;
use std::time::Instant;

/// Times in milliseconds, by name, in the order of the first measurement.
#[derive(Default)]
pub(crate) struct Figures(Vec<(&'static str, Vec<f64>)>);

impl Figures {
    /// Awaits a call, and records its time.
    pub(crate) async fn time<T, E: Debug>(
        &mut self,
        what: &'static str,
        future: impl Future<Output = Result<T, E>>,
    ) -> T {
        let began = Instant::now();
        let outcome = future.await.expect("what is measured works");
        let took = began.elapsed().as_secs_f64() * 1000.0;
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(took),
            None => self.0.push((what, vec![took])),
        }
        outcome
    }

    /// Prints medians and tails.
    pub(crate) fn report(mut self, chunks: usize) {
        println!("{:34} {:>8} {:>8} {:>8}", format!("{chunks} chunks, ms"), "p50", "p95", "p99");
        for (what, times) in &mut self.0 {
            times.sort_by(f64::total_cmp);
            let [p50, p95, p99] = [50, 95, 99].map(|percent| times[(times.len() - 1) * percent / 100]);
            println!("{what:34} {p50:8.2} {p95:8.2} {p99:8.2}");
        }
    }
}
