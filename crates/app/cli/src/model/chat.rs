//! `opengpu chat`: talk to a model in the terminal.

use super::Which;
use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::Result;
use clap::Args;
use opengpu_exec::{
    Data, Errand, News, Program, Supervisor,
    lines::{About, Line, Request, Turn, Wishes},
};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

/// Bytes of one thing that is said.
const SAID: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(after_help = "On a terminal, each line is one turn; an empty line or ctrl-D ends.\n\
    Otherwise all of standard input is one turn:\n  echo 'Why is the sky blue?' | opengpu chat smollm2.gguf")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Rules for the model.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// From 0 (always the likeliest token) to 2.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.7, value_parser = temperature,
          allow_negative_numbers = true)]
    temperature: f32,
    /// Decides every draw; another one each time if none is given.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Tokens of an answer, at most.
    #[arg(long, value_name = "COUNT", default_value_t = 512, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=super::MOST_TOKENS))]
    max_tokens: u32,
}

fn temperature(text: &str) -> Result<f32, &'static str> {
    let number: Option<f32> = text.parse().ok();
    number.filter(|number| (0.0..=2.0).contains(number)).ok_or("it is a number from 0 to 2")
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let (program, name) = arguments.which.program(context)?;
    let supervisor = Supervisor::new(crate::exec::launch(&arguments.which.machine)?);
    context.output.note(format!("loading {name}"));
    supervisor.prepare(&program)?;
    let mut turns = Vec::new();
    if let Some(text) = &arguments.system {
        turns.push(turn("system", text));
    }
    if !io::stdin().is_terminal() {
        let mut text = String::new();
        io::stdin().lock().take(SAID).read_to_string(&mut text)?;
        turns.push(turn("user", text.trim()));
        answer(&supervisor, &program, arguments, &turns)?;
        return Ok(());
    }
    loop {
        write!(io::stderr().lock(), "> ")?;
        let mut text = String::new();
        if io::stdin().lock().take(SAID).read_line(&mut text)? == 0 || text.trim().is_empty() {
            return Ok(());
        }
        turns.push(turn("user", text.trim()));
        let said = answer(&supervisor, &program, arguments, &turns)?;
        turns.push(turn("assistant", &said));
    }
}

fn turn(role: &str, text: &str) -> Turn {
    Turn { role: role.to_owned(), content: text.to_owned() }
}

/// Prints an answer as it comes, and gives it.
fn answer(
    supervisor: &Supervisor,
    program: &Program,
    arguments: &Arguments,
    turns: &[Turn],
) -> Result<String> {
    let request = Request {
        about: About::Messages(turns.to_vec()),
        stream: true,
        sampling: Wishes {
            temperature: Some(arguments.temperature),
            seed: Some(arguments.seed.unwrap_or_else(rand::random)),
            max_tokens: Some(arguments.max_tokens),
            ..Wishes::default()
        },
    };
    let errand = Errand::new(Data::Inline(serde_json::to_vec(&request)?));
    let mut said = String::new();
    let mut refused = None;
    let mut stdout = io::stdout().lock();
    for news in supervisor.run(program, errand)? {
        match news {
            News::Emitted(bytes) => match serde_json::from_slice(&bytes)? {
                Line::Piece(piece) => {
                    write!(stdout, "{}", piece.text)?;
                    stdout.flush()?;
                    said.push_str(&piece.text);
                }
                Line::Refused { reason, .. } => refused = Some(reason),
                Line::Answer(_) | Line::Points { .. } => {}
            },
            News::Failed { fault, .. } => return Err(crate::exec::complaint(&fault).into()),
            News::Begun { .. }
            | News::Segment(_)
            | News::Finished { .. }
            | News::Repeated { .. }
            | News::Weighed { .. } => {}
        }
    }
    writeln!(stdout)?;
    match refused {
        Some(reason) => Err(Complaint::new(Exit::Failed, reason).into()),
        None => Ok(said),
    }
}

#[cfg(test)]
mod tests {
    use super::temperature;

    #[test]
    fn a_temperature_is_a_number_within_its_bounds() {
        assert_eq!(temperature("0"), Ok(0.0));
        assert_eq!(temperature("2"), Ok(2.0));
        for wrong in ["2.1", "-0.1", "nan", "inf", "hot", ""] {
            assert!(temperature(wrong).is_err(), "{wrong}");
        }
    }
}
