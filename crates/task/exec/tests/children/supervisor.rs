//! What the supervisor makes of executors that work, fail, hang and lie.

use crate::guests::{EMIT, GROW, SPIN, SUM, guest, launch, supervisor};
use opengpu_exec::{Data, Errand, Fault, Grown, News, Refusal, StartError, Supervisor};
use opengpu_verify::trace::{Extent, Part};
use std::fs;
use std::time::{Duration, Instant};

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_run_gives_output_segments_and_usage", a_run_gives_output_segments_and_usage),
    ("one_process_serves_many_runs", one_process_serves_many_runs),
    ("many_orders_at_once_end_in_order", many_orders_at_once_end_in_order),
    ("every_limit_ends_a_run_with_its_own_fault", every_limit_ends_a_run_with_its_own_fault),
    ("a_cancelled_run_ends_at_once", a_cancelled_run_ends_at_once),
    ("a_run_that_waits_can_be_cancelled", a_run_that_waits_can_be_cancelled),
    ("a_ticket_that_is_dropped_frees_the_executor", a_ticket_that_is_dropped_frees_the_executor),
    ("a_killed_executor_is_a_fault_and_the_next_run_works", a_killed_executor_is_a_fault),
    ("an_executor_that_follows_nothing_is_killed", an_executor_that_follows_nothing_is_killed),
    ("what_breaks_the_protocol_is_a_fault", what_breaks_the_protocol_is_a_fault),
    ("an_executor_that_eats_all_memory_is_killed", an_executor_that_eats_all_memory_is_killed),
    ("memory_is_watched_between_runs_too", memory_is_watched_between_runs_too),
    ("news_while_a_program_is_made_ready_are_a_fault", news_while_a_program_is_made_ready),
    ("output_over_the_limit_ends_with_its_executor", output_over_the_limit_ends),
    ("words_over_the_limit_end_with_their_executor", words_over_the_limit_end),
    ("a_program_behind_other_walls_gets_another_executor", another_program_another_executor),
    ("an_executor_outlives_the_thread_that_wanted_it", an_executor_outlives_the_thread),
    ("a_program_that_is_wrong_is_refused", a_program_that_is_wrong_is_refused),
    ("nothing_stays_behind", nothing_stays_behind),
];

fn inline(number: u64) -> Errand {
    Errand::new(Data::Inline(number.to_le_bytes().to_vec()))
}

fn a_run_gives_output_segments_and_usage() {
    let guest = guest(20, EMIT, SUM, "");
    let mut begun = None;
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&guest.program, inline(7)).unwrap();
    let outcome = ticket.wait(|news| {
        if let News::Begun { steps, segments } = news {
            begun = Some((*steps, *segments))
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(begun, Some((20, 8)));
    let sum = |steps: u64| 7 + (1..=steps).map(|number| number * number).sum::<u64>();
    let emitted: Vec<u8> =
        (1..=20).chain([20]).flat_map(|steps| sum(steps).to_le_bytes()).collect();
    assert_eq!(outcome.output, emitted, "every step emits, and the end gives the state again");
    assert_eq!(outcome.part, Part::whole(Extent { steps: 20, segments: 8 }));
    assert_eq!(outcome.segments.len(), 9);
    let added: Vec<_> = outcome.segments.iter().map(|it| it.metered.bytes_out / 8).collect();
    assert_eq!(added, [0, 2, 3, 2, 3, 2, 3, 2, 4], "the end belongs to the last segment");
    let usage = outcome.usage;
    assert_eq!((usage.bytes_in, usage.bytes_out), (8, 21 * 8));
    assert!(usage.fuel > 0 && usage.microseconds > 0 && usage.peak_memory > 1 << 20, "{usage:?}");
}

fn one_process_serves_many_runs() {
    let (first, second) = (guest(1, "", SUM, ""), guest(2, "", SUM, ""));
    let supervisor = supervisor("executor");
    let mut processes = Vec::new();
    for number in 0..20 {
        let program = if number % 2 == 0 { &first.program } else { &second.program };
        let outcome = supervisor.run(program, inline(number)).unwrap().wait(|_| {}).unwrap();
        let expected = number + if number % 2 == 0 { 1 } else { 5 };
        assert_eq!(outcome.output, expected.to_le_bytes());
        processes.push(supervisor.process_id().unwrap());
    }
    processes.dedup();
    assert_eq!(processes.len(), 1);
}

fn many_orders_at_once_end_in_order() {
    let guest = guest(1, "", SUM, "");
    let orders = (0..500).map(inline).collect();
    let supervisor = supervisor("executor");
    let tickets = supervisor.run_all(&guest.program, orders).unwrap();
    for (number, ticket) in (0u64..).zip(tickets) {
        assert_eq!(ticket.wait(|_| {}).unwrap().output, (number + 1).to_le_bytes());
    }
}

fn every_limit_ends_a_run_with_its_own_fault() {
    let long = "(i64.const 0x0000_0000_0000_2000)";
    let wide = "(i64.const 0x0000_0000_0fff_ffff)";
    let cases = [
        (SPIN, "fuel = 100_000", Fault::Fuel { limit: 100_000 }),
        (SPIN, "seconds = 1\nfuel = 1_000_000_000_000_000", Fault::Deadline { milliseconds: 1000 }),
        (GROW, "memory = '4 MiB'", Fault::Memory { limit: 4 << 20 }),
        (long, "state = '4 KiB'", Fault::TooLarge { what: Grown::State, limit: 4096 }),
        (wide, "state = '256 MiB'", Fault::program("what it gave does not lie inside its memory")),
        ("(unreachable)", "", Fault::program("wasm trap: wasm `unreachable` instruction executed")),
    ];
    let supervisor = supervisor("executor");
    for (step, limits, expected) in cases {
        let guest = guest(1, "", step, limits);
        let (fault, usage) =
            supervisor.run(&guest.program, inline(1)).unwrap().wait(|_| {}).unwrap_err();
        assert_eq!(fault, expected, "{limits}");
        assert!(usage.microseconds > 0, "what was used until then is told");
    }
    let guest = guest(1, EMIT, SUM, "output = '8'");
    let (fault, _) = supervisor.run(&guest.program, inline(1)).unwrap().wait(|_| {}).unwrap_err();
    assert_eq!(fault, Fault::TooLarge { what: Grown::Output, limit: 8 });
    let guest = self::guest(1, "", SUM, "input = '7'");
    let (fault, _) = supervisor.run(&guest.program, inline(1)).unwrap().wait(|_| {}).unwrap_err();
    assert!(matches!(fault, Fault::Input { .. }), "{fault}");
}

fn a_cancelled_run_ends_at_once() {
    let guest = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&guest.program, inline(1)).unwrap();
    let process = supervisor.process_id();
    let cancel = ticket.canceller();
    let (fault, _) = ticket
        .wait(|news| {
            if matches!(news, News::Segment(_)) {
                cancel()
            }
        })
        .unwrap_err();
    assert_eq!(fault, Fault::Cancelled);
    let outcome =
        supervisor.run(&self::guest(1, "", SUM, "").program, inline(1)).unwrap().wait(|_| {});
    assert!(outcome.is_ok());
    assert_eq!(supervisor.process_id(), process, "the process obeyed and lives on");
}

fn a_run_that_waits_can_be_cancelled() {
    let spinning = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let mut tickets =
        supervisor.run_all(&spinning.program, vec![inline(1), inline(2), inline(3)]).unwrap();
    let last = tickets.pop().unwrap();
    for ticket in &tickets {
        ticket.cancel();
    }
    for ticket in tickets {
        assert_eq!(ticket.wait(|_| {}).unwrap_err().0, Fault::Cancelled);
    }
    last.cancel();
    assert_eq!(last.wait(|_| {}).unwrap_err().0, Fault::Cancelled);
}

fn a_ticket_that_is_dropped_frees_the_executor() {
    let guest = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    drop(supervisor.run(&guest.program, inline(1)).unwrap());
    let quick = self::guest(1, "", SUM, "");
    let outcome = supervisor.run(&quick.program, inline(1)).unwrap().wait(|_| {}).unwrap();
    assert_eq!(outcome.output, 2u64.to_le_bytes());
}

fn a_killed_executor_is_a_fault() {
    let guest = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&guest.program, inline(1)).unwrap();
    let process = supervisor.process_id().unwrap();
    let id = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    let kill = || rustix::process::kill_process(id, rustix::process::Signal::ABORT).unwrap();
    let (fault, _) = ticket
        .wait(|news| {
            if matches!(news, News::Segment(_)) {
                kill()
            }
        })
        .unwrap_err();
    let Fault::Crashed { how } = fault else { panic!("{fault}") };
    assert!(how.contains("signal: 6"), "{how}");
    let quick = self::guest(1, "", SUM, "");
    let outcome = supervisor.run(&quick.program, inline(1)).unwrap().wait(|_| {}).unwrap();
    assert_eq!(outcome.output, 2u64.to_le_bytes());
    assert_ne!(supervisor.process_id(), Some(process));
}

fn an_executor_that_follows_nothing_is_killed() {
    let guest = guest(1, "", SUM, "seconds = 0");
    for name in ["mute", "deaf"] {
        let error = supervisor(name).run(&guest.program, inline(1)).unwrap_err();
        let StartError::Died(fault) = error else { panic!("{error}") };
        assert_eq!(fault, Fault::Deadline { milliseconds: 0 }, "{name}");
    }
}

fn what_breaks_the_protocol_is_a_fault() {
    let guest = guest(1, "", SUM, "");
    let error = supervisor("liar").run(&guest.program, inline(1)).unwrap_err();
    assert!(error.to_string().contains("broke the protocol"), "{error}");
    let error = supervisor("abort").run(&guest.program, inline(1)).unwrap_err();
    assert!(error.to_string().contains("the driver is on fire"), "{error}");
}

fn memory_is_watched_between_runs_too() {
    let guest = guest(1, "", SUM, "memory = '1 MiB'");
    let supervisor = supervisor("idle glutton");
    supervisor.prepare(&guest.program).unwrap();
    let process = format!("/proc/{}/statm", supervisor.process_id().unwrap());
    let begun = Instant::now();
    while fs::read_to_string(&process).is_ok_and(|pages| !pages.starts_with("0 ")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn news_while_a_program_is_made_ready() {
    let guest = guest(1, "", SUM, "");
    let error = supervisor("premature").prepare(&guest.program).unwrap_err();
    assert!(error.to_string().contains("broke the protocol"), "{error}");
}

fn words_over_the_limit_end() {
    let guest = guest(1, "", SUM, "");
    let supervisor = supervisor("chatter");
    let (mut bytes, mut last) = (0, None);
    for news in supervisor.run(&guest.program, inline(1)).unwrap() {
        match news {
            News::Logged(part) => bytes += part.len(),
            other => last = Some(other),
        }
    }
    assert_eq!(u64::try_from(bytes).unwrap(), opengpu_exec::MOST_LOGGED);
    assert!(matches!(last, Some(News::Failed { fault: Fault::Crashed { .. }, .. })), "{last:?}");
}

fn output_over_the_limit_ends() {
    let guest = guest(1, "", SUM, "output = '1 MiB'");
    let supervisor = supervisor("flood");
    let ticket = supervisor.run(&guest.program, inline(1)).unwrap();
    let (mut bytes, mut last) = (0, None);
    for news in ticket {
        match news {
            News::Emitted(part) => bytes += part.len(),
            other => last = Some(other),
        }
    }
    assert!(bytes <= 1 << 20, "{bytes}");
    assert!(matches!(last, Some(News::Failed { fault: Fault::Crashed { .. }, .. })), "{last:?}");
}

fn another_program_another_executor() {
    let (first, second) = (guest(1, "", SUM, ""), guest(2, "", SUM, ""));
    let supervisor = Supervisor::new(launch("executor"));
    let run = |program| {
        let outcome = supervisor.run(program, inline(0)).unwrap().wait(|_| {}).unwrap();
        (outcome.output, supervisor.process_id())
    };
    let (one, two) = (run(&first.program), run(&second.program));
    assert_eq!((one.0, two.0), (1u64.to_le_bytes().to_vec(), 5u64.to_le_bytes().to_vec()));
    assert_ne!(one.1, two.1, "its walls were drawn for the first program alone");
}

fn an_executor_outlives_the_thread() {
    let guest = guest(1, "", SUM, "");
    let supervisor = supervisor("executor");
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.prepare(&guest.program).unwrap());
    });
    let process = supervisor.process_id();
    std::thread::sleep(Duration::from_millis(200));
    supervisor.run(&guest.program, inline(1)).unwrap().wait(|_| {}).unwrap();
    assert_eq!(supervisor.process_id(), process);
}

fn an_executor_that_eats_all_memory_is_killed() {
    let guest = guest(1, "", SUM, "memory = '1 MiB'");
    let error = supervisor("glutton").run(&guest.program, inline(1)).unwrap_err();
    let StartError::Died(fault) = error else { panic!("{error}") };
    assert!(matches!(fault, Fault::Memory { .. }), "{fault}");
}

fn a_program_that_is_wrong_is_refused() {
    let supervisor = supervisor("executor");
    let changed = guest(1, "", SUM, "");
    fs::write(changed.folder.path().join("a.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let error = supervisor.run(&changed.program, inline(1)).unwrap_err();
    let StartError::Refused(Refusal::Program { reason }) = error else { panic!("{error}") };
    assert!(reason.contains("a file has changed"), "{reason}");
    let imports = r#"(import "env" "clock" (func (result i64)))"#;
    let float = guest(1, "(func (result f32) (f32.const 1))", SUM, "");
    assert!(supervisor.prepare(&float.program).is_ok(), "floats are no reason");
    for (more, step, word) in [
        ("(memory 1)", SUM, "mult"),
        (r#"(func (export "emitted") (result i32) (i32.const 0))"#, SUM, "emitted"),
        (r#"(func (export "feed") (param i32 i32))"#, SUM, "belong together"),
    ] {
        let error = supervisor.prepare(&guest(1, more, step, "").program).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    let importing = wat::parse_str(format!("(module {imports})")).unwrap();
    let base = guest(1, "", SUM, "");
    fs::write(base.folder.path().join("a.wasm"), importing).unwrap();
    let program = opengpu_exec::Program::open(base.folder.path()).unwrap();
    let error = supervisor.prepare(&program).unwrap_err();
    assert!(error.to_string().contains("env.clock"), "{error}");
}

fn nothing_stays_behind() {
    let guest = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&guest.program, inline(1)).unwrap();
    let process = supervisor.process_id().unwrap();
    drop(supervisor);
    assert!(matches!(ticket.wait(|_| {}).unwrap_err().0, Fault::Cancelled));
    assert!(!fs::exists(format!("/proc/{process}")).unwrap(), "it was waited for");
}
