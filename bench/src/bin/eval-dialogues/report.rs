//! The report, as a table and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{FollowUpKind, Verdict};

pub(crate) struct DialogueReport {
    pub(crate) collection: String,
    pub(crate) verdicts: Vec<Verdict>,
}

const KINDS: [(FollowUpKind, &str, &str); 3] = [
    (FollowUpKind::SecondOfTwo, "second_of_two", "refers back, second of two"),
    (FollowUpKind::OfLonger, "of_longer", "refers back, in a longer one"),
    (FollowUpKind::StandsAlone, "stands_alone", "stands alone"),
];

const FORMS: [&str; 3] = ["as_asked", "rewritten", "by_people"];

impl DialogueReport {
    pub(crate) fn json(&self) -> String {
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
        report["finding_ms_p50"] = json!({
            "as_asked": self.median(|verdict| verdict.finding[0]),
            "rewritten": self.median(|verdict| verdict.finding[1]),
        });
        format!("{report:#}\n")
    }

    /// One line for each kind of question.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{}: {} follow-up questions\n{:24}  questions  rewritten  passage recall@5: as asked, rewritten, by people  document recall@5\n",
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

    fn of_kind(&self, kind: FollowUpKind) -> Vec<&Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.kind == kind).collect()
    }

    /// The median of a time over the rewritten questions, in milliseconds.
    fn median(&self, time: impl Fn(&Verdict) -> Duration) -> f64 {
        let rewritten = self.verdicts.iter().filter(|verdict| verdict.was_rewritten);
        let mut times: Vec<Duration> = rewritten.map(time).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| (time.as_secs_f64() * 1e7).round() / 1e4)
    }
}

fn share(verdicts: &[&Verdict], is_right: impl Fn(&Verdict) -> bool) -> f64 {
    let right = verdicts.iter().filter(|verdict| is_right(verdict)).count();
    (right as f64 / verdicts.len().max(1) as f64 * 1e4).round() / 1e4
}

fn by_form(figure: impl Fn(usize) -> f64) -> Value {
    FORMS.iter().enumerate().map(|(form, name)| ((*name).to_owned(), json!(figure(form)))).collect()
}
