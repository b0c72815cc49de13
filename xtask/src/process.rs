//! Running other programs: every command line is shown before it runs, and a failure names it.
//!
//! Nothing goes through a shell, so arguments need no quoting and cannot be misread.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder that holds the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Runs a program with our own standard streams and requires success.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a program silently and returns what it wrote to standard output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("could not start `{shown}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` ended with {}: {}", output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print text"))
}

/// Whether a program can be started and says that all is well.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What a watched program wrote, and whether it ended well.
pub(crate) struct Watched {
    pub(crate) lines: Vec<String>,
    pub(crate) ended: Result<()>,
}

/// Runs a program, passes its output on line by line and keeps the lines of both streams.
///
/// The order of lines across the two streams is not kept: callers look for lines, not for sequences.
pub(crate) fn watch(command: &mut Command) -> Result<Watched> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{shown}`"))?;
    let out = child.stdout.take().expect("standard output was piped");
    let err = child.stderr.take().expect("standard error was piped");
    let reader = std::thread::spawn(move || pass_on(err, std::io::stderr()));
    let mut lines = pass_on(out, std::io::stdout())?;
    let said = reader.join().map_err(|_| anyhow::anyhow!("reading from `{shown}` failed"))?;
    lines.extend(said?);
    let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
    let ended = if status.success() {
        Ok(())
    } else {
        Err(anyhow::anyhow!("`{shown}` ended with {status}"))
    };
    Ok(Watched { lines, ended })
}

/// Becomes another program, so that signals of the terminal and the exit code are its own.
pub(crate) fn become_program(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        let error = command.exec();
        Err(error).with_context(|| format!("could not start `{shown}`"))
    }
    #[cfg(not(unix))]
    {
        run(command)
    }
}

fn pass_on(from: impl Read, mut to: impl Write) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for bytes in BufReader::new(from).split(b'\n') {
        let bytes = bytes.context("reading the output of a program")?;
        let line = String::from_utf8_lossy(&bytes).into_owned();
        writeln!(to, "{line}").context("passing on the output of a program")?;
        lines.push(line);
    }
    Ok(lines)
}

/// The command line as one would type it: cargo without the folder of its toolchain.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = match program.file_stem() {
        Some(name) if name == "cargo" => name,
        _ => program.as_os_str(),
    };
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{read, root, show, succeeds, watch};
    use std::process::Command;

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_failure_names_the_command_line() {
        let error = read(Command::new("git").arg("no-such-command")).unwrap_err();
        assert!(error.to_string().starts_with("`git no-such-command` ended with"));
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_succeed() {
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
    }

    #[test]
    fn watching_keeps_both_streams_and_the_failure() {
        let watched = watch(Command::new("git").args(["--version"])).unwrap();
        assert!(watched.ended.is_ok());
        assert!(watched.lines.iter().any(|line| line.starts_with("git version")));
        let watched = watch(Command::new("git").arg("no-such-command")).unwrap();
        assert!(watched.ended.is_err());
        assert!(watched.lines.iter().any(|line| line.contains("no-such-command")));
    }

    #[test]
    fn a_command_line_is_shown_as_typed() {
        assert_eq!(
            show(Command::new("/toolchain/bin/cargo").args(["fmt", "--all"])),
            "cargo fmt --all"
        );
    }
}
