//! The figures of the rounds, and their report.

/// The figures of one of the two.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) texts_per_cpu_second: Vec<f64>,
    pub(crate) texts_per_second: Vec<f64>,
    pub(crate) query: Vec<f64>,
    pub(crate) query_on_one_thread: Vec<f64>,
    pub(crate) query_in_bulk: Vec<f64>,
    pub(crate) megabytes: f64,
}

impl Figures {
    pub(crate) fn add_bulk(&mut self, texts: usize, cpu: f64, wall: f64) {
        self.texts_per_cpu_second.push(texts as f64 / cpu);
        self.texts_per_second.push(texts as f64 / wall);
    }
}

/// Prints medians side by side; the last line is the ratio.
pub(crate) fn report(mut ours: Figures, mut theirs: Figures, least_cosine: f64) {
    let ratios = ours.texts_per_cpu_second.iter().zip(&theirs.texts_per_cpu_second);
    let mut ratios: Vec<f64> = ratios.map(|(ours, theirs)| ours / theirs).collect();
    println!("{:44} {:>12} {:>12}", "", "Wellspring", "ONNX Runtime");
    let row = |what: &str, ours: f64, theirs: f64| println!("{what:44} {ours:12.2} {theirs:12.2}");
    row(
        "texts per CPU-second",
        percentile(&mut ours.texts_per_cpu_second, 50),
        percentile(&mut theirs.texts_per_cpu_second, 50),
    );
    row(
        "texts per second on this machine",
        percentile(&mut ours.texts_per_second, 50),
        percentile(&mut theirs.texts_per_second, 50),
    );
    for (what, percent) in [("p50", 50), ("p99", 99)] {
        let (mine, one) = (percentile(&mut ours.query, percent), &mut theirs.query_on_one_thread);
        row(
            &format!("query {what}, ms: one thread, their two"),
            mine,
            percentile(&mut theirs.query, percent),
        );
        row(&format!("query {what}, ms: one thread, their one"), mine, percentile(one, percent));
        println!(
            "{:44} {:12.2}",
            format!("query {what}, ms: while bulk runs"),
            percentile(&mut ours.query_in_bulk, percent)
        );
    }
    row("resident memory, MB", ours.megabytes, theirs.megabytes);
    println!("least cosine between the two: {least_cosine:.7}");
    println!("ratio {:.2}", percentile(&mut ratios, 50));
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len().max(1) - 1) * percent / 100).copied().unwrap_or(f64::NAN)
}
