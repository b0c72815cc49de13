//! What is told of a picture: the network's numbers, the best of some labels, or boxes.
//!
//! Numbers are 32-bit floats, little-endian, as they are. Labels and boxes are a line of JSON for each
//! picture, with confidences in hundredths and boxes in whole points, so that a last bit seldom shows.

use super::boxes::{Boxes, Found};
use super::picture::PictureError;
use serde::{Deserialize, Serialize};

/// What is told: `output` in `[onnx]` of a manifest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Output {
    /// All numbers.
    Floats,
    /// The label with the largest number.
    Labels(Labels),
    /// Where a map is above a threshold.
    Boxes(Boxes),
}

/// Labels, in the order of the network's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Labels {
    pub names: Vec<String>,
}

/// A tensor that a network gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub shape: &'a [i64],
    pub numbers: &'a [f32],
}

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line<'a> {
    /// Of the picture.
    pub name: &'a str,
    /// What is told of it.
    #[serde(flatten)]
    pub told: Told,
}

/// What is told of one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Told {
    /// What it shows.
    Label { label: String, confidence: f64 },
    /// Where things are, from top to bottom, in points of the picture.
    Boxes { width: u32, height: u32, boxes: Vec<Found> },
    /// Why nothing is told: those after it are not lost.
    Refused { refused: String },
}

impl From<PictureError> for Told {
    fn from(error: PictureError) -> Self {
        Self::Refused { refused: error.to_string() }
    }
}

impl Output {
    /// What is wrong with it, in words.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Floats => Ok(()),
            Self::Labels(Labels { names }) if names.is_empty() => Err("`names` holds no label"),
            Self::Labels(_) => Ok(()),
            Self::Boxes(boxes) => boxes.check(),
        }
    }
}

impl Labels {
    /// The label with the largest number, of equals the first.
    pub(super) fn best(&self, given: Given<'_>) -> Result<Told, String> {
        let (found, wanted) = (given.numbers.len(), self.names.len());
        if found != wanted {
            return Err(format!("the model gave {found} numbers for {wanted} labels"));
        }
        let pairs = given.numbers.iter().zip(&self.names);
        let best = pairs.reduce(|best, other| if *other.0 > *best.0 { other } else { best });
        let (number, label) = best.ok_or("there is no label")?;
        Ok(Told::Label { label: label.clone(), confidence: hundredths((*number).into()) })
    }
}

/// A number with two digits behind the point.
#[expect(clippy::float_arithmetic, reason = "it is rounded")]
pub(super) fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(numbers: &[f32]) -> Result<Told, String> {
        let names = ["cat", "dog", "fish"].map(str::to_owned).to_vec();
        Labels { names }.best(Given { shape: &[1, 3], numbers })
    }

    #[test]
    fn the_largest_number_names_the_picture() {
        let told =
            |label: &str, confidence| Ok(Told::Label { label: label.to_owned(), confidence });
        assert_eq!(labels(&[0.1, 0.7049, 0.2]), told("dog", 0.7));
        assert_eq!(labels(&[0.5, 0.1, 0.5]), told("cat", 0.5));
        assert_eq!(labels(&[-3.0, -2.0, -1.0]), told("fish", -1.0));
        assert!(labels(&[0.1, 0.2]).unwrap_err().contains("2 numbers for 3 labels"));
    }

    #[test]
    fn a_line_says_whose_it_is_and_what_was_told() {
        let line = |told| serde_json::to_string(&Line { name: "a.png", told }).unwrap();
        let label = Told::Label { label: "cat".to_owned(), confidence: 0.93 };
        assert_eq!(line(label), r#"{"name":"a.png","label":"cat","confidence":0.93}"#);
        let refused = line(PictureError::Kind.into());
        assert!(refused.starts_with(r#"{"name":"a.png","refused":"it is not"#), "{refused}");
        let found = Found { left: 1, top: 2, right: 3, bottom: 4, confidence: 0.5 };
        let boxes = line(Told::Boxes { width: 10, height: 20, boxes: vec![found] });
        let wanted = r#"{"left":1,"top":2,"right":3,"bottom":4,"confidence":0.5}"#;
        assert!(boxes.contains(wanted), "{boxes}");
    }
}
