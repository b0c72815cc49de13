//! `opengpu chat`: talk to a model in the terminal.

mod line;
mod terminal;

use super::Which;
use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::Result;
use clap::Args;
use line::{HELP, Line};
use opengpu_exec::{
    Data, Errand, Fault, News, Program, Supervisor, Ticket, artifact,
    lines::{self, About, Request, Turn, Wishes},
};
use std::io::{self, IsTerminal as _, Write as _};
use terminal::Terminal;

/// Bytes of one thing that is said.
const SAID: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(after_help = "On a terminal, each line is one turn; /help lists the commands, and /bye \
    or ctrl-D leaves.\nCtrl-C stops an answer; at the prompt it leaves.\n\
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
    let piped = if io::stdin().is_terminal() { None } else { Some(piped()?) };
    let supervisor = Supervisor::new(crate::exec::launch(&arguments.which.machine)?);
    context.output.note(format!("loading {name}"));
    supervisor.prepare(&program)?;
    let turns = arguments.system.iter().map(|text| turn("system", text)).collect();
    let mut chat = Chat { supervisor, program, arguments, turns };
    match piped {
        Some(text) => print(chat.ask(&text)?).map(drop),
        None => chat.converse(context),
    }
}

/// All of standard input, as one thing that is said.
fn piped() -> Result<String> {
    let bytes = artifact::take(io::stdin().lock(), SAID)
        .map_err(|error| Complaint::usage(format!("standard input: {error}")))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Complaint::usage("standard input is not UTF-8"))?;
    if text.trim().is_empty() {
        let complaint = Complaint::usage("nothing was said on standard input");
        return Err(complaint.hint("chat at a terminal, or pipe a question").into());
    }
    Ok(text.trim().to_owned())
}

/// A conversation with a model.
struct Chat<'a> {
    supervisor: Supervisor,
    program: Program,
    arguments: &'a Arguments,
    turns: Vec<Turn>,
}

impl Chat<'_> {
    /// Turn by turn, until the user leaves.
    fn converse(&mut self, context: &Context) -> Result<()> {
        let terminal = Terminal::open()?;
        while let Some(typed) = terminal.ask()? {
            match Line::from(typed.as_str()) {
                Line::Empty => {}
                Line::Leave => break,
                Line::Help => context.output.note(HELP),
                Line::Unknown(word) => {
                    context.output.note(format!("there is no command {word}; /help lists them"));
                }
                Line::Words(text) => {
                    let said = terminal.interruptible(|stop| {
                        let ticket = self.ask(text)?;
                        stop(Box::new(ticket.canceller()));
                        print(ticket)
                    })?;
                    self.hear(&said);
                }
            }
        }
        Ok(())
    }

    /// Says something to the model, which begins to answer.
    fn ask(&mut self, text: &str) -> Result<Ticket> {
        self.turns.push(turn("user", text));
        let request = Request {
            about: About::Messages(self.turns.clone()),
            stream: true,
            sampling: Wishes {
                temperature: Some(self.arguments.temperature),
                seed: Some(self.arguments.seed.unwrap_or_else(rand::random)),
                max_tokens: Some(self.arguments.max_tokens),
                ..Wishes::default()
            },
        };
        let errand = Errand::new(Data::Inline(serde_json::to_vec(&request)?));
        Ok(self.supervisor.run(&self.program, errand)?)
    }

    /// Remembers an answer. A question that was stopped before any word of one is forgotten.
    fn hear(&mut self, said: &str) {
        if said.is_empty() {
            self.turns.pop();
        } else {
            self.turns.push(turn("assistant", said));
        }
    }
}

fn turn(role: &str, text: &str) -> Turn {
    Turn { role: role.to_owned(), content: text.to_owned() }
}

/// Prints an answer as it comes, and gives what came until it ended or was stopped.
fn print(ticket: Ticket) -> Result<String> {
    let mut said = String::new();
    let mut refused = None;
    let mut stdout = io::stdout().lock();
    for news in ticket {
        match news {
            News::Emitted(bytes) => match serde_json::from_slice(&bytes)? {
                lines::Line::Piece(piece) => {
                    write!(stdout, "{}", piece.text)?;
                    stdout.flush()?;
                    said.push_str(&piece.text);
                }
                lines::Line::Refused { reason, .. } => refused = Some(reason),
                lines::Line::Answer(_) | lines::Line::Points { .. } => {}
            },
            News::Failed { fault: Fault::Cancelled, .. } => break,
            News::Failed { fault, .. } => return Err(crate::exec::complaint(&fault).into()),
            News::Begun { .. }
            | News::Logged(_)
            | News::Segment(_)
            | News::Finished { .. }
            | News::Repeated { .. }
            | News::Weighed { .. }
            | News::Stands { .. }
            | News::Looked { .. } => {}
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
