//! Wanted figures, in the one form that people and scripts read.

use std::fmt;

/// Which side of the wanted value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The measured value should be at least the wanted one.
    AtLeast,
    /// At most.
    AtMost,
}

/// A figure and what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// Of which benchmark.
    pub id: &'static str,
    /// What is measured.
    pub name: &'static str,
    /// The figure, or why there is none.
    pub measured: Result<f64, String>,
    /// Which side is good.
    pub sense: Sense,
    /// What it should be.
    pub wanted: f64,
}

impl Want {
    /// Whether the figure is what it should be.
    pub fn holds(&self) -> bool {
        match (&self.measured, self.sense) {
            (Ok(measured), Sense::AtLeast) => *measured >= self.wanted,
            (Ok(measured), Sense::AtMost) => *measured <= self.wanted,
            (Err(_), _) => false,
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, measured, sense, wanted } = self;
        match measured {
            Ok(measured) => {
                let operator = match sense {
                    Sense::AtLeast => ">=",
                    Sense::AtMost => "<=",
                };
                let verdict = if self.holds() { "ok" } else { "short" };
                // Below one a tenth decides too much.
                let digits = if wanted.abs() < 1.0 { 2 } else { 1 };
                write!(
                    f,
                    "want {id} {name}: {measured:.digits$} (wanted {operator} {wanted}) {verdict}"
                )
            }
            Err(why) => write!(f, "want {id} {name}: no peer ({why}) short"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_is_one_line_in_the_agreed_form() {
        let want = |measured, sense| {
            Want { id: "B11", name: "x", measured, sense, wanted: 10.0 }.to_string()
        };
        assert_eq!(want(Ok(12.34), Sense::AtLeast), "want B11 x: 12.3 (wanted >= 10) ok");
        assert_eq!(want(Ok(12.34), Sense::AtMost), "want B11 x: 12.3 (wanted <= 10) short");
        let small =
            Want { id: "B11", name: "x", measured: Ok(0.512), sense: Sense::AtMost, wanted: 0.5 };
        assert_eq!(small.to_string(), "want B11 x: 0.51 (wanted <= 0.5) short");
        let missing = want(Err("not installed".into()), Sense::AtMost);
        assert_eq!(missing, "want B11 x: no peer (not installed) short");
    }
}
