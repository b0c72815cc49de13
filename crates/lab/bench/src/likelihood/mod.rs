//! No speed alone, but whether the check of likelihood tells an honest provider from others.
//!
//! ```text
//!   calibration: honest answers ──► bounds
//!   test:  Q8_0, and the same weights as floats     ──► accepted?
//!          Q4_0 passed off as Q8_0, a smaller model ──► refused?
//! ```
//!
//! - One small real model is the reference; everything else is made from its weights (`weights`).
//! - Whoever answers claims the likelihoods that his own model found. Beside it stands the liar who
//!   knows the check: his answers come from Q4_0 and his claims from a reading by the right model.
//! - Questions of the calibration are not those of the test (`prompts`), and the bounds are fixed
//!   before the first answer of the test.

mod prompts;
mod verdicts;
mod weights;

use crate::{error::BenchError, machine, process, tell, told::Told};
use candle_core::quantized::GgmlDType;
use clap::Parser;
use opengpu_exec::llm::{Claim, Flow, GenerateError, Model, Options};
use opengpu_exec::program::models;
use opengpu_verify::compare::likelihood::{Bounds, Evidence, LEAST, Token};
use prompts::Set;
use std::{path::Path, time::Instant};
use verdicts::Judged;
use weights::Variant;

const MODEL: &str = "smollm2-135m-instruct.gguf";
const CONTEXT: usize = 512;

/// Measures what the check of likelihood accepts and refuses.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-likelihood")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Answers of each provider.
    #[arg(long, default_value_t = 200)]
    answers: u64,
    /// Honest answers by other arithmetic, which is slower.
    #[arg(long, default_value_t = 40)]
    floats: u64,
    /// Answers of Q5_0 passed off as Q8_0: no figure is wanted, it shows where the check ends.
    #[arg(long, default_value_t = 40)]
    finer: u64,
    /// Answers that bounds come from; a third of them by other arithmetic.
    #[arg(long, default_value_t = 64)]
    calibration: u64,
    /// Tokens of an answer, at most.
    #[arg(long, default_value_t = 32)]
    tokens: u32,
}

/// Who answers.
#[derive(Debug)]
struct Provider {
    name: &'static str,
    model: Model,
}

/// An answer and what the verifier found.
#[derive(Clone, Debug)]
struct Read {
    /// None if no answer has these tokens.
    tokens: Option<Vec<Token>>,
    /// Seconds in which it was made.
    made: f64,
    /// Seconds in which it was read.
    read: f64,
}

impl Read {
    fn is_short(&self) -> bool {
        self.tokens.is_some() && self.evidence().tokens < LEAST
    }

    fn evidence(&self) -> Evidence {
        self.tokens.as_deref().map(Evidence::of).unwrap_or_default()
    }

    /// What it would be with claims by the right model.
    fn with_right_claims(&self) -> Self {
        let right = |token: &Token| Token { claimed: token.found, ..*token };
        let tokens = self.tokens.as_ref().map(|all| all.iter().map(right).collect());
        Self { tokens, ..*self }
    }
}

/// Measures everything and says so.
pub fn run(mut program: Program) -> Result<(), BenchError> {
    if program.told.quick {
        let few = |count: u64, most: u64| count.min(most);
        (program.answers, program.finer) = (few(program.answers, 8), few(program.finer, 4));
        (program.calibration, program.floats) =
            (few(program.calibration, 33), few(program.floats, 4));
        program.tokens = program.tokens.min(24);
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let folder = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let open = |name, variant| open(name, variant, folder.path());
    let mut verifier = open("verifier", Variant::Reference)?.model;
    let mut honest = open("Q8_0", Variant::Reference)?;
    let mut floats = open("floats", Variant::Floats)?;
    let bounds = calibrate(&program, &mut verifier, &mut honest, &mut floats)?;
    tell(format!("{bounds:?}"));
    let mut judged = Vec::new();
    let mut test = |provider: &mut Provider, count: u64| {
        let read = answers(provider, &mut verifier, Set::Test, 0..count, program.tokens)?;
        judged.push(Judged::of(provider.name, &bounds, read));
        Ok::<(), BenchError>(())
    };
    test(&mut honest, program.answers)?;
    drop(honest);
    test(&mut floats, program.floats)?;
    drop(floats);
    test(&mut open("Q4_0", Variant::Coarser(GgmlDType::Q4_0))?, program.answers)?;
    test(&mut open("Q5_0", Variant::Coarser(GgmlDType::Q5_0))?, program.finer)?;
    test(&mut open("smaller", Variant::Smaller)?, program.answers)?;
    verdicts::report(begun, &bounds, &judged).publish(&program.told)
}

/// Makes a model and opens it.
fn open(name: &'static str, variant: Variant, folder: &Path) -> Result<Provider, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Executor(error.to_string());
    let source = models().ok_or(BenchError::Nothing("there is no folder of models"))?.join(MODEL);
    let path = folder.join(format!("{variant:?}.gguf"));
    if !path.exists() {
        tell(format!("{variant:?} from {MODEL}"));
        variant.write(&source, &path).map_err(|error| failed(&error))?;
    }
    let model = Model::open(&path, Options { context: CONTEXT }).map_err(|error| failed(&error))?;
    Ok(Provider { name, model })
}

/// Bounds from honest answers by both kinds of arithmetic.
fn calibrate(
    program: &Program,
    verifier: &mut Model,
    honest: &mut Provider,
    floats: &mut Provider,
) -> Result<Bounds, BenchError> {
    let all = program.calibration;
    let some = all.saturating_sub(all.div_euclid(3));
    let mut read = answers(honest, verifier, Set::Calibration, 0..some, program.tokens)?;
    read.extend(answers(floats, verifier, Set::Calibration, some..all, program.tokens)?);
    let tokens: Vec<Vec<Token>> = read.into_iter().filter_map(|read| read.tokens).collect();
    Bounds::calibrate(&tokens).map_err(|error| BenchError::Executor(error.to_string()))
}

/// Answers of a provider, each read by the verifier. Those that are too short to be judged alone are
/// counted and left out, and more questions are asked instead.
fn answers(
    provider: &mut Provider,
    verifier: &mut Model,
    set: Set,
    numbers: std::ops::Range<u64>,
    tokens: u32,
) -> Result<Vec<Read>, BenchError> {
    let failed = |error: GenerateError| BenchError::Executor(error.to_string());
    let wanted = numbers.clone().count();
    let mut all: Vec<Read> = Vec::new();
    for number in numbers.start.. {
        if all.iter().filter(|read| !read.is_short()).count() >= wanted {
            break;
        }
        let (prompt, sampling) = (set.prompt(number), set.sampling(number, tokens));
        let begun = Instant::now();
        let made = provider.model.generate(&prompt, &sampling, &mut |_| Flow::Continue);
        let made = made.map_err(failed)?;
        let middle = Instant::now();
        let logprobs: Vec<f32> = made.likelihoods.iter().map(|found| found.logprob).collect();
        let claim = Claim { tokens: &made.tokens, logprobs: &logprobs };
        let tokens = verifier.weigh(&prompt, &sampling, claim, &mut || false).map_err(failed)?;
        let (made, read) = (middle.duration_since(begun), middle.elapsed());
        all.push(Read { tokens, made: made.as_secs_f64(), read: read.as_secs_f64() });
        if all.len().is_multiple_of(20) {
            tell(format!("{}: {set:?}, {} answers", provider.name, all.len()));
        }
    }
    Ok(all)
}
