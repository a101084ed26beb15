//! The text format of Prometheus: metric families with their samples.

use std::fmt::{Display, Write};

use engine::Histogram;

/// The labels of a sample: names and values.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// The metrics page, written family by family.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    family: &'static str,
}

/// The type of a metric family.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The unit that a histogram counts in, and so the factor to the unit that the page shows.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Counted in microseconds, shown in seconds.
    Seconds,
    /// Shown as counted.
    Whole,
}

impl Page {
    /// Announces a family, to which the following samples belong.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        self.family = name;
    }

    /// Writes one value.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        let name = self.family;
        self.line(format_args!("{name}{} {value}", braced(labels, None)));
    }

    /// Writes a histogram: the count up to each bound, the sum, and the total count.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram, unit: Unit) {
        let name = self.family;
        let scale = match unit {
            Unit::Seconds => 1e6,
            Unit::Whole => 1.0,
        };
        for (bound, count) in histogram.buckets() {
            let bound = (bound as f64 / scale).to_string();
            self.line(format_args!("{name}_bucket{} {count}", braced(labels, Some(&bound))));
        }
        let count = histogram.count();
        self.line(format_args!("{name}_bucket{} {count}", braced(labels, Some("+Inf"))));
        self.line(format_args!("{name}_sum{} {}", braced(labels, None), histogram.sum() as f64 / scale));
        self.line(format_args!("{name}_count{} {count}", braced(labels, None)));
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }
}

/// The labels in braces, with the bound of a bucket last.
fn braced(labels: Labels<'_>, bound: Option<&str>) -> String {
    let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
    let labels: Vec<_> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_and_type_and_its_labels_are_escaped() {
        let mut page = Page::default();
        page.family("prompts_total", Kind::Counter, "Prompts.");
        page.sample(&[("model", "a\"b\\c\nd"), ("provider", "local")], 3);
        page.family("nothing_yet", Kind::Gauge, "Nothing.");
        let expected = "# HELP prompts_total Prompts.\n# TYPE prompts_total counter\n\
                        prompts_total{model=\"a\\\"b\\\\c\\nd\",provider=\"local\"} 3\n\
                        # HELP nothing_yet Nothing.\n# TYPE nothing_yet gauge\n";
        assert_eq!(page.into_text(), expected);
    }
}
