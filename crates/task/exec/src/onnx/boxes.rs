//! Boxes around what a map of probabilities shows: parts that hang together, grown by what the map
//! leaves out (networks for text are trained on shrunken shapes).

use super::answer::{Given, Told, hundredths};
use super::tensor::Place;
use serde::{Deserialize, Serialize};

/// Boxes of one picture.
const MOST: usize = 1_000;
/// Least side of what is no speck, in points of the map.
const SPECK: usize = 3;

/// How boxes are found.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Boxes {
    /// From where on a point of the map shows something.
    pub threshold: f32,
    /// Least mean of the points of one part.
    pub confidence: f32,
    /// Every side of a box moves out by this times its area by its circumference.
    #[serde(default)]
    pub grow: f32,
}

/// A box; right and bottom are the first points outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Found {
    pub left: u32,
    pub top: u32,
    pub right: u32,
    pub bottom: u32,
    pub confidence: f64,
}

impl Boxes {
    /// What is wrong with it, in words.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let shares =
            [self.threshold, self.confidence].iter().all(|share| (0.0..=1.0).contains(share));
        if shares && (0.0..=100.0).contains(&self.grow) {
            return Ok(());
        }
        Err("`threshold` and `confidence` are 0 to 1, `grow` is 0 to 100")
    }

    /// Boxes in a picture of this size, which lies there in what the network has seen.
    pub(super) fn find(
        &self,
        given: Given<'_>,
        place: Place,
        (width, height): (u32, u32),
    ) -> Result<Told, String> {
        let map = Map::new(given)?;
        let found = |part: Part| Found {
            left: map.across(part.left, place, width),
            top: map.down(part.top, place, height),
            right: map.across(part.right, place, width),
            bottom: map.down(part.bottom, place, height),
            confidence: hundredths(part.confidence),
        };
        let good = |part: &Part| part.confidence >= f64::from(self.confidence);
        let parts = map.parts(self.threshold).into_iter().filter(good).take(MOST);
        let mut boxes: Vec<Found> = parts.map(|part| found(part.grown(self.grow))).collect();
        boxes.sort_by_key(|found| (found.top, found.left, found.bottom, found.right));
        Ok(Told::Boxes { width, height, boxes })
    }
}

/// A map of probabilities, row by row.
struct Map<'a> {
    width: usize,
    height: usize,
    numbers: &'a [f32],
}

/// A part of a map that hangs together; right and bottom are outside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    confidence: f64,
}

impl Part {
    #[expect(clippy::float_arithmetic, reason = "boxes grow by parts of points")]
    fn grown(self, grow: f32) -> Self {
        let (wide, high) = (self.right - self.left, self.bottom - self.top);
        let more = wide * high / (2.0 * (wide + high)) * f64::from(grow);
        Self {
            left: self.left - more,
            top: self.top - more,
            right: self.right + more,
            bottom: self.bottom + more,
            ..self
        }
    }
}

impl<'a> Map<'a> {
    fn new(given: Given<'a>) -> Result<Self, String> {
        let size = match given.shape {
            [1, 1, height, width] | [1, height, width] | [height, width] => {
                usize::try_from(*width).ok().zip(usize::try_from(*height).ok())
            }
            _ => None,
        };
        let numbers = given.numbers;
        match size {
            Some((width, height))
                if width > 0 && width.checked_mul(height) == Some(numbers.len()) =>
            {
                Ok(Self { width, height, numbers })
            }
            _ => Err(format!("the model gave {:?} numbers, and no map", given.shape)),
        }
    }

    /// A column of the map in points of the picture.
    fn across(&self, at: f64, place: Place, points: u32) -> u32 {
        placed(at, self.width, place.filled.0, place.whole.0, points)
    }

    /// A row of it.
    fn down(&self, at: f64, place: Place, points: u32) -> u32 {
        placed(at, self.height, place.filled.1, place.whole.1, points)
    }

    /// All parts above a threshold that are no specks, in the order of their first points.
    fn parts(&self, threshold: f32) -> Vec<Part> {
        let mut open: Vec<bool> = self.numbers.iter().map(|number| *number > threshold).collect();
        let mut parts = Vec::new();
        for start in 0..open.len() {
            parts.extend(self.part(start, &mut open));
        }
        parts
    }

    /// The part with this point, if it is open; all of it is closed then.
    fn part(&self, start: usize, open: &mut [bool]) -> Option<Part> {
        let mut close = |at: usize| open.get_mut(at).is_some_and(std::mem::take);
        if !close(start) {
            return None;
        }
        let mut waiting = vec![start];
        let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
        let (mut sum, mut count) = (0.0, 0u32);
        while let Some(at) = waiting.pop() {
            let (x, y) = (at.checked_rem(self.width)?, at.checked_div(self.width)?);
            (left, right) = (left.min(x), right.max(x));
            (top, bottom) = (top.min(y), bottom.max(y));
            #[expect(clippy::float_arithmetic, reason = "a mean of floats")]
            {
                sum += f64::from(self.numbers.get(at).copied()?);
            }
            count = count.saturating_add(1);
            let most = self.width.saturating_sub(1);
            let beside = x.saturating_sub(1)..=x.saturating_add(1).min(most);
            for y in y.saturating_sub(1)..=y.saturating_add(1) {
                let row = y.saturating_mul(self.width);
                let near = beside.clone().map(|x| row.saturating_add(x));
                waiting.extend(near.filter(|at| close(*at)));
            }
        }
        let (right, bottom) = (right.saturating_add(1), bottom.saturating_add(1));
        if right.saturating_sub(left).min(bottom.saturating_sub(top)) < SPECK {
            return None;
        }
        #[expect(clippy::float_arithmetic, reason = "a mean of floats")]
        let confidence = sum / f64::from(count);
        let [left, top, right, bottom] = [left, top, right, bottom].map(float);
        Some(Part { left, top, right, bottom, confidence })
    }
}

/// A place of the map in points of the picture.
///
/// The map may be coarser than what the network has seen, and that may be padded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_arithmetic,
    reason = "what is cast lies between zero and the size of a picture"
)]
fn placed(at: f64, map: usize, filled: u32, whole: u32, points: u32) -> u32 {
    let share = at / float(map) * f64::from(whole) / f64::from(filled);
    let points = f64::from(points);
    (share * points).round().clamp(0.0, points) as u32
}

/// Of a place in a map, which is far below 2^32.
fn float(place: usize) -> f64 {
    f64::from(u32::try_from(place).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Boxes = Boxes { threshold: 0.3, confidence: 0.5, grow: 0.0 };

    /// A map in letters: `#` is sure, `+` is likely, all else is nothing.
    fn map(rows: &[&str]) -> (Vec<i64>, Vec<f32>) {
        let number = |letter| match letter {
            '#' => 1.0,
            '+' => 0.4,
            _ => 0.1,
        };
        let numbers = rows.iter().flat_map(|row| row.chars().map(number)).collect();
        let sides = [rows.len(), rows[0].len()].map(|side| i64::try_from(side).unwrap());
        (vec![1, 1, sides[0], sides[1]], numbers)
    }

    fn place(filled: (u32, u32), whole: (u32, u32)) -> Place {
        Place { filled, whole }
    }

    fn found(boxes: Boxes, rows: &[&str], place: Place, size: (u32, u32)) -> Vec<[u32; 4]> {
        let (shape, numbers) = map(rows);
        let told = boxes.find(Given { shape: &shape, numbers: &numbers }, place, size).unwrap();
        let Told::Boxes { boxes, .. } = told else { panic!("boxes are told") };
        boxes.iter().map(|found| [found.left, found.top, found.right, found.bottom]).collect()
    }

    const TWO: [&str; 7] = [
        "...........",
        ".###....+++",
        ".###....+++",
        ".###....+++",
        "....#......",
        ".....##....",
        "...........",
    ];

    #[test]
    fn parts_hang_together_over_corners_and_faint_ones_are_none() {
        let same = place((11, 7), (11, 7));
        assert_eq!(found(ALL, &TWO, same, (11, 7)), [[1, 1, 7, 6]]);
        let faint = Boxes { confidence: 0.35, ..ALL };
        assert_eq!(found(faint, &TWO, same, (11, 7)), [[1, 1, 7, 6], [8, 1, 11, 4]]);
        let specks = [".##.", ".##.", "....", "...#"];
        assert!(found(ALL, &specks, place((4, 4), (4, 4)), (4, 4)).is_empty());
    }

    #[test]
    fn boxes_are_in_points_of_the_picture_and_end_with_it() {
        let rows = ["......", ".####.", ".####.", ".####.", ".####.", "......"];
        // Four by four: one point of growth is 4 x (4 + 4) / (4 x 4) times `grow`.
        let grown = Boxes { grow: 1.0, ..ALL };
        let same = place((6, 6), (6, 6));
        assert_eq!(found(ALL, &rows, same, (60, 12)), [[10, 2, 50, 10]]);
        assert_eq!(found(grown, &rows, same, (60, 12)), [[0, 0, 60, 12]]);
        let much = Boxes { grow: 50.0, ..ALL };
        assert_eq!(found(much, &rows, same, (60, 12)), [[0, 0, 60, 12]]);
        // The picture fills the upper half of a tensor that is twice as fine as the map.
        let padded = place((12, 6), (12, 12));
        assert_eq!(found(ALL, &rows, padded, (60, 30)), [[10, 10, 50, 30]]);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for (shape, count) in
            [(&[1, 3, 2, 2][..], 12), (&[1, 1, 2, 2], 3), (&[4], 4), (&[1, 1, 0, 0], 0)]
        {
            let numbers = vec![1.0; count];
            let given = Given { shape, numbers: &numbers };
            assert!(ALL.find(given, place((1, 1), (1, 1)), (1, 1)).is_err(), "{shape:?}");
        }
        let numbers = [f32::NAN; 16];
        let given = Given { shape: &[4, 4], numbers: &numbers };
        let told = ALL.find(given, place((4, 4), (4, 4)), (4, 4)).unwrap();
        assert_eq!(told, Told::Boxes { width: 4, height: 4, boxes: Vec::new() });
    }

    #[test]
    fn senseless_settings_are_refused() {
        assert_eq!(ALL.check(), Ok(()));
        for wrong in [
            Boxes { threshold: 1.1, ..ALL },
            Boxes { confidence: f32::NAN, ..ALL },
            Boxes { grow: -1.0, ..ALL },
        ] {
            assert!(wrong.check().is_err());
        }
    }
}
