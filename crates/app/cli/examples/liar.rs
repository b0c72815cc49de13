//! `liar`: the command line of `opengpu` around executors that do not do what they say. It is for tests
//! and for the tour, and in no archive.
//!
//! What it does is told by the name that it is started by, which its executors have as well:
//!
//! | name          | its executors                                                       |
//! |---------------|---------------------------------------------------------------------|
//! | `liar`        | take no step, and claim the first state again and again             |
//! | `liar-rarely` | take every step, and change the state after every sixteenth of them |
//! | `liar-always` | take every step, and change the state after each of them            |
//!
//! An executor that is asked to repeat a segment for an audit lies in the same way: whoever is drawn as a
//! verifier with it objects to what is true.

use opengpu_exec::backend::{Backend, Begun, Missing, Prepared, Pulse, Span, Work};
use opengpu_exec::program::{Kind, Program};
use opengpu_exec::{Fault, Refusal, Registry, child, wasm::Wasm};
use std::process::ExitCode;

/// What an executor does with a step.
#[derive(Clone, Copy)]
enum Conduct {
    Idle,
    /// One step of so many is a lie.
    Every(u64),
}

impl Conduct {
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "liar" => Some(Self::Idle),
            "liar-rarely" => Some(Self::Every(16)),
            "liar-always" => Some(Self::Every(1)),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()).and_then(|name| name.to_str());
    let Some(conduct) = name.and_then(Conduct::of_name) else {
        return ExitCode::from(2);
    };
    opengpu_cli::main(|| {
        let lying = Box::new(Lying { conduct, wasm: Wasm });
        child::serve_with(Registry::default().with(Kind::Wasm, lying))
    })
}

/// A back end for modules.
struct Lying {
    conduct: Conduct,
    wasm: Wasm,
}

impl Backend for Lying {
    fn probe(&self) -> Result<String, Missing> {
        self.wasm.probe()
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let honest = self.wasm.prepare(program)?;
        Ok(Box::new(Lie { conduct: self.conduct, honest }))
    }
}

struct Lie {
    conduct: Conduct,
    honest: Box<dyn Prepared>,
}

impl Prepared for Lie {
    fn init(&mut self, input: &[u8], work: &mut Work<'_>) -> Result<Begun, Fault> {
        self.honest.init(input, work)
    }

    fn advance(
        &mut self,
        input: &[u8],
        mut state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let Conduct::Every(many) = self.conduct else { return Ok(state) };
        for step in span.steps {
            let one = Span { steps: step..=step, of: span.of };
            state = self.honest.advance(input, state, one, work)?;
            if let Some(byte) = state.last_mut().filter(|_| step.is_multiple_of(many)) {
                *byte = byte.wrapping_add(1);
            }
        }
        Ok(state)
    }

    fn finish(&mut self, input: &[u8], state: &[u8], work: &mut Work<'_>) -> Result<(), Fault> {
        self.honest.finish(input, state, work)
    }

    fn pulse(&self) -> Option<Pulse> {
        self.honest.pulse()
    }
}
