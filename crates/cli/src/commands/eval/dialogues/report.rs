//! What was measured of conversations, for people and for machines.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Kind, Verdict};

/// Everything that was measured.
pub(in super::super) struct Report {
    pub(super) collection: String,
    pub(super) verdicts: Vec<Verdict>,
}

const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::SecondOfTwo, "second_of_two", "goes on, second of two"),
    (Kind::OfLonger, "of_longer", "goes on, in a longer one"),
    (Kind::StandsAlone, "stands_alone", "stands alone"),
];

const FORMS: [&str; 3] = ["as_asked", "rewritten", "by_people"];

impl Report {
    /// One JSON object.
    pub(in super::super) fn json(&self) -> String {
        let mut report = json!({ "collection": self.collection, "questions": self.verdicts.len() });
        for (kind, name, _) in KINDS {
            let of_kind = self.of_kind(kind);
            report[name] = json!({
                "questions": of_kind.len(),
                "rewritten": of_kind.iter().filter(|verdict| verdict.was_rewritten).count(),
                "passage_recall@5": by_form(|form| share(&of_kind, |verdict| verdict.passages[form])),
                "document_recall@5": by_form(|form| share(&of_kind, |verdict| verdict.documents[form])),
            });
        }
        report["rewriting_ms_p50"] = json!(self.median(|verdict| verdict.rewriting));
        report["finding_ms_p50"] = json!({ "as_asked": self.median(|verdict| verdict.finding[0]), "rewritten": self.median(|verdict| verdict.finding[1]) });
        format!("{report:#}\n")
    }

    /// A line a kind of question.
    pub(in super::super) fn table(&self) -> String {
        let mut table = format!(
            "{}: {} questions with something said before\n{:24}  questions  rewritten  passage recall@5: as asked, rewritten, by people  document recall@5\n",
            self.collection,
            self.verdicts.len(),
            ""
        );
        for (kind, _, name) in KINDS {
            let of_kind = self.of_kind(kind);
            let rewritten = of_kind.iter().filter(|verdict| verdict.was_rewritten).count();
            let passages = [0, 1, 2].map(|form| share(&of_kind, |verdict| verdict.passages[form]));
            let documents = [0, 1, 2].map(|form| share(&of_kind, |verdict| verdict.documents[form]));
            let _ = writeln!(
                table,
                "{name:24}  {:9}  {rewritten:9}  {:26.3}  {:9.3}  {:9.3}  {:9.3}  {:.3}  {:.3}",
                of_kind.len(),
                passages[0],
                passages[1],
                passages[2],
                documents[0],
                documents[1],
                documents[2],
            );
        }
        let _ = writeln!(
            table,
            "rewriting {:.4} ms, finding {:.2} ms as asked and {:.2} ms rewritten, at p50",
            self.median(|verdict| verdict.rewriting),
            self.median(|verdict| verdict.finding[0]),
            self.median(|verdict| verdict.finding[1]),
        );
        table
    }

    fn of_kind(&self, kind: Kind) -> Vec<&Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.kind == kind).collect()
    }

    /// In milliseconds, of the questions that were rewritten.
    fn median(&self, time: impl Fn(&Verdict) -> Duration) -> f64 {
        let rewritten = self.verdicts.iter().filter(|verdict| verdict.was_rewritten);
        let mut times: Vec<Duration> = rewritten.map(time).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| (time.as_secs_f64() * 1e7).round() / 1e4)
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are few questions")]
fn share(verdicts: &[&Verdict], is_right: impl Fn(&Verdict) -> bool) -> f64 {
    let right = verdicts.iter().filter(|verdict| is_right(verdict)).count();
    (right as f64 / verdicts.len().max(1) as f64 * 1e4).round() / 1e4
}

fn by_form(figure: impl Fn(usize) -> f64) -> Value {
    FORMS.iter().enumerate().map(|(form, name)| ((*name).to_owned(), json!(figure(form)))).collect()
}
