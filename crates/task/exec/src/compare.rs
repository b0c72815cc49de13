//! Whether two executions of a segment are the same, by the class of the program.
//!
//! | class | the same if |
//! |---|---|
//! | exact | state, output and metered work are equal bit for bit |
//! | tolerance | as 32-bit floats, no number is further off than the tolerance, relative to the largest |
//! | perceptual | as 8-bit samples of a picture, PSNR is 40 dB and SSIM is 0.98 or more; states are exact |
//! | likelihood | the model chooses the same tokens, or almost: see [`choices`] |
//! | none | equal bit for bit; otherwise nobody can tell |
//!
//! Exact and none need digests alone; the others need the bytes of both sides. What was claimed is
//! checked in one call by [`Supervisor::check`](crate::Supervisor::check), whatever the class.

mod picture;

use crate::backend::Weighed;
use crate::fault::Fault;
use crate::program::{Class, Manifest};
use crate::run::Repeated;
use crate::usage::Usage;
use opengpu_types::ArtifactId;
use opengpu_verify::compare::perceptual::{Likeness, ONE};

/// Least ratio of peak signal to noise of a picture, as people write it.
const PSNR: f64 = 40.0;
/// Least likeness of the structure of two pictures, as people write it.
const SSIM: f64 = 0.98;
/// Most that the tokens of a text may be off on average, in millionths.
pub const MEAN: u32 = 30_000;
/// Most that one token may be off, in millionths.
pub const WORST: u32 = 500_000;

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The same, bit for bit.
    Equal,
    /// Not equal, but as close as the class demands.
    Close {
        /// How close, in words.
        how: String,
    },
    /// Not the same.
    Different {
        /// What, in words.
        what: String,
    },
    /// The class has no way to tell.
    Unknown,
}

impl Comparison {
    /// Whether the two pass for the same.
    pub const fn agrees(&self) -> bool {
        matches!(self, Self::Equal | Self::Close { .. })
    }
}

/// Compares what was claimed for a segment with what was found by repeating it.
pub fn compare(manifest: &Manifest, claimed: &Repeated, found: &Repeated) -> Comparison {
    if claimed.steps != found.steps {
        let what = format!("the run has {} steps and not {}", found.steps, claimed.steps);
        return Comparison::Different { what };
    }
    if claimed.segment == found.segment {
        return Comparison::Equal;
    }
    match manifest.class {
        Class::Exact => Comparison::Different { what: difference(claimed, found) },
        Class::Tolerance => tolerance(manifest.tolerance, claimed, found),
        Class::Perceptual => perceptual(manifest, claimed, found),
        Class::Likelihood | Class::None => Comparison::Unknown,
    }
}

/// Judges a claim whose repetition failed: none if the machine may be at fault.
pub fn failed(manifest: &Manifest, fault: &Fault) -> Option<Comparison> {
    match fault {
        Fault::Program { .. }
        | Fault::Input { .. }
        | Fault::Fuel { .. }
        | Fault::TooLarge { .. } => Some(match manifest.class {
            Class::None => Comparison::Unknown,
            _ => Comparison::Different { what: format!("whoever repeats it fails: {fault}") },
        }),
        Fault::Checkpoint { .. }
        | Fault::Memory { .. }
        | Fault::DeviceMemory
        | Fault::Deadline { .. }
        | Fault::Cancelled
        | Fault::Device { .. }
        | Fault::Crashed { .. } => None,
    }
}

/// Judges a segment whose output was weighed: it leaves the state as it was, and the work is that of its
/// output.
pub fn weighed(
    claimed: &Repeated,
    unchanged: &ArtifactId,
    weighed: &Weighed,
    usage: &Usage,
) -> Comparison {
    let found = usage.metered();
    if claimed.segment.state != *unchanged {
        Comparison::Different { what: "the state is another".to_owned() }
    } else if claimed.segment.metered != found {
        let what = format!("the work is {found:?} and not {:?}", claimed.segment.metered);
        Comparison::Different { what }
    } else {
        choices(weighed)
    }
}

/// Judges a text by how far its tokens are from what the model would have chosen.
#[expect(clippy::float_arithmetic, reason = "shares for people")]
pub fn choices(weighed: &Weighed) -> Comparison {
    let (count, mean, worst) = match weighed {
        Weighed::Wrong { what } => return Comparison::Different { what: what.clone() },
        Weighed::Choices { count, mean, worst } => (*count, *mean, *worst),
    };
    let percent = |millionths: u32| f64::from(millionths) / 10_000.0;
    let found = format!(
        "{count} tokens, off by {:.2} % on average and by {:.1} % at most",
        percent(mean),
        percent(worst)
    );
    if mean <= MEAN && worst <= WORST {
        Comparison::Close { how: found }
    } else {
        let (mean, worst) = (percent(MEAN), percent(WORST));
        Comparison::Different { what: format!("{found}; {mean} % and {worst} % are allowed") }
    }
}

fn difference(claimed: &Repeated, found: &Repeated) -> String {
    let (a, b) = (&claimed.segment, &found.segment);
    if a.state != b.state {
        format!("the state is {} and not {}", b.state, a.state)
    } else if a.emitted != b.emitted {
        "the output is another".to_owned()
    } else {
        work(claimed, found)
    }
}

fn work(claimed: &Repeated, found: &Repeated) -> String {
    format!("the work is {:?} and not {:?}", found.segment.metered, claimed.segment.metered)
}

#[expect(clippy::float_arithmetic, reason = "floats are what is compared")]
fn tolerance(tolerance: f32, claimed: &Repeated, found: &Repeated) -> Comparison {
    if claimed.segment.metered != found.segment.metered {
        return Comparison::Different { what: work(claimed, found) };
    }
    let mut worst = 0f32;
    for (a, b) in [(&claimed.state, &found.state), (&claimed.emitted, &found.emitted)] {
        if a == b {
            continue;
        }
        if a.len() != b.len() || !a.len().is_multiple_of(4) {
            return Comparison::Different { what: difference(claimed, found) };
        }
        let largest = floats(a).chain(floats(b)).map(f32::abs).fold(0f32, f32::max);
        for (a, b) in floats(a).zip(floats(b)) {
            let error = (a - b).abs() / largest.max(f32::MIN_POSITIVE);
            // A number that is none, or without end, is as far off as can be.
            worst = if error.is_finite() { worst.max(error) } else { f32::INFINITY };
        }
    }
    if worst <= tolerance {
        Comparison::Close { how: format!("off by {worst:.1e} at most") }
    } else {
        Comparison::Different { what: format!("off by {worst:.1e}, at most {tolerance:.1e}") }
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

fn perceptual(manifest: &Manifest, claimed: &Repeated, found: &Repeated) -> Comparison {
    let different = |what: String| Comparison::Different { what };
    if claimed.segment.state != found.segment.state {
        return different(difference(claimed, found));
    }
    if claimed.segment.metered != found.segment.metered {
        return different(work(claimed, found));
    }
    let pictures = [claimed, found].map(|side| picture::picture(manifest, &side.emitted));
    let [Some(a), Some(b)] = pictures else {
        return different("the output is another, and nobody says how wide a picture it is".into());
    };
    let Some(likeness) = Likeness::of(&a, &b) else {
        return different("the pictures have other sizes".to_owned());
    };
    let how = in_words(&likeness);
    if likeness.agrees() {
        Comparison::Close { how }
    } else {
        different(format!("{how}; {PSNR} and {SSIM} are wanted"))
    }
}

/// What is between two pictures, in the figures that people know.
#[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "figures for people")]
fn in_words(likeness: &Likeness) -> String {
    let noise = likeness.noise as f64 / likeness.samples as f64;
    let psnr = 10.0 * (255.0f64.powi(2) / noise.max(f64::MIN_POSITIVE)).log10();
    let ssim = likeness.structure as f64 / ONE as f64;
    format!("{psnr:.1} dB of peak signal to noise, {ssim:.4} of structure")
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Metered, Segment, SegmentIndex};
    use opengpu_verify::trace::Emitted;

    fn side(state: &[u8], emitted: &[u8]) -> Repeated {
        let segment = Segment {
            index: SegmentIndex(1),
            state: ArtifactId::of(state),
            emitted: Emitted::NOTHING.then(&ArtifactId::of(emitted)).0,
            metered: Metered::default(),
        };
        Repeated { segment, steps: 1, state: state.to_vec(), emitted: emitted.to_vec() }
    }

    fn of(class: &str, more: &str) -> Manifest {
        let text = format!("name = 'a'\nkind = 'gpu'\nclass = '{class}'\n{more}");
        Manifest::parse(text.as_bytes()).unwrap()
    }

    fn numbers(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn exact_means_every_bit() {
        let claimed = side(b"state", b"output");
        assert_eq!(compare(&of("exact", ""), &claimed, &claimed), Comparison::Equal);
        for other in [side(b"State", b"output"), side(b"state", b"Output")] {
            assert!(!compare(&of("exact", ""), &claimed, &other).agrees());
        }
        let mut paid = claimed.clone();
        paid.segment.metered.fuel = 1;
        assert!(!compare(&of("exact", ""), &claimed, &paid).agrees(), "work is part of it");
    }

    #[test]
    fn a_run_has_as_many_steps_as_its_beginning_finds() {
        let claimed = side(b"state", b"output");
        let found = Repeated { steps: 2, ..claimed.clone() };
        for class in ["exact", "tolerance", "perceptual", "likelihood", "none"] {
            let verdict = compare(&of(class, ""), &claimed, &found);
            assert!(matches!(verdict, Comparison::Different { .. }), "{class}: {verdict:?}");
        }
    }

    #[test]
    fn tolerance_is_relative_to_the_largest_number() {
        let claimed = side(&numbers(&[1000.0, 1.0]), b"");
        let near = side(&numbers(&[1000.05, 0.95]), b"");
        let far = side(&numbers(&[1001.0, 1.0]), b"");
        let none = side(&numbers(&[f32::NAN, 1.0]), b"");
        assert!(compare(&of("tolerance", ""), &claimed, &near).agrees());
        assert!(!compare(&of("tolerance", ""), &claimed, &far).agrees());
        assert!(!compare(&of("tolerance", ""), &claimed, &none).agrees());
        assert!(!compare(&of("tolerance", ""), &none, &claimed).agrees());
        let mut paid = near;
        paid.segment.metered.fuel = 1;
        assert!(!compare(&of("tolerance", ""), &claimed, &paid).agrees(), "work is part of it");
        assert!(!compare(&of("tolerance", ""), &claimed, &side(&numbers(&[1000.0]), b"")).agrees());
    }

    #[test]
    fn a_program_may_be_stricter_or_more_lenient() {
        let claimed = side(&numbers(&[1000.0, 1.0]), b"");
        let near = side(&numbers(&[1000.0, 1.05]), b"");
        assert!(compare(&of("tolerance", ""), &claimed, &near).agrees());
        assert!(!compare(&of("tolerance", "tolerance = 1e-6"), &claimed, &near).agrees());
        let far = side(&numbers(&[1000.0, 6.0]), b"");
        assert!(!compare(&of("tolerance", ""), &claimed, &far).agrees());
        assert!(compare(&of("tolerance", "tolerance = 0.01"), &claimed, &far).agrees());
    }

    #[test]
    fn pictures_may_differ_by_what_no_eye_sees() {
        let manifest = of("perceptual", "picture = { width = 16, channels = 1 }");
        let picture: Vec<u8> = (0..=255).collect();
        let claimed = side(b"", &picture);
        let mut near = picture.clone();
        near[7] += 3;
        assert!(compare(&manifest, &claimed, &side(b"", &near)).agrees());
        let other: Vec<u8> = picture.iter().rev().copied().collect();
        assert!(!compare(&manifest, &claimed, &side(b"", &other)).agrees());
        assert!(!compare(&manifest, &claimed, &side(b"x", &picture)).agrees());
        assert!(!compare(&of("perceptual", ""), &claimed, &side(b"", &near)).agrees());
    }

    #[test]
    fn noise_that_hides_in_a_ratio_is_found_by_its_structure() {
        // A grey wall with a faint pattern, and the same without it: little noise, another picture.
        let manifest = of("perceptual", "picture = { width = 64, channels = 1 }");
        let wall: Vec<u8> = (0..64 * 64).map(|at| 128 + u8::from((at / 4) % 2 == 0) * 4).collect();
        let flat = vec![130; 64 * 64];
        let verdict = compare(&manifest, &side(b"", &wall), &side(b"", &flat));
        let Comparison::Different { what } = verdict else { panic!("{verdict:?}") };
        let psnr: f64 = what.split(' ').next().unwrap().parse().unwrap();
        assert!(psnr > PSNR, "{what}");
    }

    #[test]
    fn a_text_is_judged_by_its_tokens() {
        let of = |mean, worst| choices(&Weighed::Choices { count: 9, mean, worst });
        assert!(of(0, 0).agrees() && of(MEAN, WORST).agrees());
        assert!(!of(MEAN + 1, WORST).agrees() && !of(0, WORST + 1).agrees());
        assert!(!choices(&Weighed::Wrong { what: "no".to_owned() }).agrees());
    }

    #[test]
    fn a_claim_that_nobody_can_repeat_is_false_unless_the_machine_is_at_fault() {
        let fuel = Fault::Fuel { limit: 1 };
        assert!(matches!(failed(&of("exact", ""), &fuel), Some(Comparison::Different { .. })));
        assert_eq!(failed(&of("none", ""), &fuel), Some(Comparison::Unknown));
        let late = Fault::Deadline { milliseconds: 1 };
        for fault in [late, Fault::Memory { limit: 1 }, Fault::Cancelled] {
            assert_eq!(failed(&of("exact", ""), &fault), None);
        }
    }

    #[test]
    fn what_cannot_be_told_is_not_called_the_same() {
        let (a, b) = (side(b"a", b""), side(b"b", b""));
        assert_eq!(compare(&of("none", ""), &a, &b), Comparison::Unknown);
        assert!(!Comparison::Unknown.agrees());
    }
}
