//! Which system calls exist: lists of what is allowed, compiled for the kernel (seccomp).
//!
//! Everything else answers "not implemented", which programs know how to live with: they try the
//! older way. So a call that a future kernel adds is closed from its first day.
//!
//! There are two lists with a common part. A guest in a sandbox is a whole program: it may start
//! others, and reach those that it started. An executor is one process that computes: it reaches no
//! other process, starts none, and has no sockets.
//!
//! Some calls are open for some arguments only: no new namespaces, no device files, no typing into
//! a terminal, and no kind of socket beside local ones and those of the internet.
//!
//! Calls that are open for all arguments stand in front, as ranges of numbers. The kernel reads the
//! whole filter at every start, twice, so a filter of a fifth of the length is a quicker start.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What differs between sandboxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Files that live in no folder are allowed only where a cgroup counts their memory.
    pub(crate) memory_files: bool,
}

/// The filter of a guest, as the kernel reads it.
pub(crate) fn compile(opening: Opening) -> Result<Vec<u8>, BackendError> {
    let program = assemble(guest(opening)?)?;
    let mut bytes = Vec::with_capacity(program.len().saturating_mul(8));
    for instruction in program {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
    }
    Ok(bytes)
}

/// The filter of the executor that has this process number.
pub(super) fn executor(process: u32, memory_files: bool) -> Result<BpfProgram, BackendError> {
    assemble(alone(process, Opening { memory_files })?)
}

/// Instructions in front of the first rule.
const HEAD: usize = 4;

fn assemble(rules: Rules) -> Result<BpfProgram, BackendError> {
    let (open, bounded): (Rules, Rules) =
        rules.into_iter().partition(|(_, rules)| rules.is_empty());
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(bounded, refuse, SeccompAction::Allow, architecture)?;
    let mut program = BpfProgram::try_from(filter)?;
    // It begins with the check of the architecture, and loads the number of the call. The kernel's
    // numbers are small.
    let open = open.into_keys().filter_map(|number| u32::try_from(number).ok());
    program.splice(HEAD..HEAD, ranges(open));
    Ok(program)
}

/// Allows a call whose number is in a range, and otherwise goes on with the number still loaded.
fn ranges(open: impl IntoIterator<Item = u32>) -> Vec<sock_filter> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in open {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let jump = |code: u32, k: u32, jt: u8, jf: u8| sock_filter { code: short(code), jt, jf, k };
    let compare = libc::BPF_JMP | libc::BPF_K;
    let allow = jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0);
    let range = |(first, last)| {
        let below = jump(compare | libc::BPF_JGE, first, 0, 2);
        let above = jump(compare | libc::BPF_JGT, last, 1, 0);
        [below, above, allow.clone()]
    };
    ranges.into_iter().flat_map(range).collect()
}

/// Codes of instructions have 16 bits; the constants of the library are wider.
const fn short(code: u32) -> u16 {
    (code & 0xffff) as u16
}

/// What guests and executors have in common.
fn common() -> Rules {
    let open = FILES.iter().chain(MEMORY).chain(PROCESS).chain(TIME).chain(LEGACY);
    open.map(|&number| (number, Vec::new())).collect()
}

fn guest(opening: Opening) -> Result<Rules, BackendError> {
    let mut rules = common();
    let open = ATTRIBUTES.iter().chain(OTHERS).chain(SOCKETS).chain(LEGACY_GUEST);
    rules.extend(open.map(|&number| (number, Vec::new())));
    if opening.memory_files {
        rules.insert(libc::SYS_memfd_create, Vec::new());
    }
    rules.insert(libc::SYS_fcntl, Vec::new());
    rules.insert(libc::SYS_clone, vec![masked(0, NAMESPACES, 0)?]);
    // The older form has no folder in front, so its mode is one argument earlier.
    for (mknod, mode) in MKNOD.into_iter().map(|number| (number, 1)).chain([(libc::SYS_mknodat, 2)])
    {
        rules.insert(mknod, vec![masked(mode, wide(libc::S_IFMT), wide(libc::S_IFIFO))?]);
    }
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
    rules.insert(libc::SYS_socket, equal(0, &families.map(signed))?);
    rules.insert(libc::SYS_socketpair, equal(0, &[signed(libc::AF_UNIX)])?);
    rules.insert(libc::SYS_ioctl, unequal(1, &TERMINAL)?);
    rules.insert(libc::SYS_prctl, equal(0, &PRCTL.map(signed))?);
    rules.insert(libc::SYS_personality, equal(0, &[0, 0xffff_ffff])?);
    Ok(rules)
}

/// One process that computes: threads and no processes, signals and limits for itself alone.
fn alone(process: u32, opening: Opening) -> Result<Rules, BackendError> {
    let mut rules = common();
    if opening.memory_files {
        rules.insert(libc::SYS_memfd_create, Vec::new());
    }
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![masked(0, NAMESPACES | thread, thread)?]);
    rules.insert(libc::SYS_tgkill, equal(0, &[wide(process)])?);
    rules.insert(libc::SYS_prlimit64, equal(0, &[0, wide(process)])?);
    rules.insert(libc::SYS_fcntl, unequal(1, &OWNERS.map(signed))?);
    let requests: Vec<_> =
        TERMINAL.into_iter().chain(OWNER_REQUESTS).chain(FILE_REQUESTS).collect();
    rules.insert(libc::SYS_ioctl, unequal(1, &requests)?);
    let own: Vec<_> =
        PRCTL.into_iter().filter(|own| !TAKEN_BACK.contains(own)).map(signed).collect();
    rules.insert(libc::SYS_prctl, equal(0, &own)?);
    Ok(rules)
}

/// What would take back a restriction: to die with the supervisor, to be closed to debuggers.
const TAKEN_BACK: [i32; 2] = [libc::PR_SET_PDEATHSIG, libc::PR_SET_DUMPABLE];
/// What changes attributes of a file that was opened for reading: FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR,
/// FS_IOC_ENABLE_VERITY.
const FILE_REQUESTS: [u64; 3] = [0x4008_6602, 0x401c_5820, 0x4080_6685];

/// What makes a file send signals to another process.
const OWNERS: [i32; 3] = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
/// The C library does not name these on every system.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
/// The same as requests to a device: FIOSETOWN, SIOCSPGRP.
const OWNER_REQUESTS: [u64; 2] = [0x8901, 0x8902];

/// Every flag of `clone` that makes a namespace.
const NAMESPACES: u64 = 0x7e02_0000;

/// Requests that type into a terminal, or act on the machine's console and line disciplines.
/// The C library gives them different types on different systems, so they stand here as numbers:
/// TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD.
const TERMINAL: [u64; 4] = [0x5412, 0x541c, 0x541d, 0x5423];

/// What a process may say about itself: its name, its parent's death, its own restrictions.
const PRCTL: [i32; 12] = [
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_CAPBSET_READ,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_VMA,
];

const fn wide(number: u32) -> u64 {
    number as u64
}

/// The lower half of an argument; the kernel ignores the upper one of what is an `int` to it.
const fn signed(number: i32) -> u64 {
    number.cast_unsigned() as u64
}

fn condition(
    argument: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(mask), value)?])
}

/// One rule that forbids all of these values.
fn unequal(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let not = values.iter().map(|&value| condition(argument, SeccompCmpOp::Ne, value));
    Ok(vec![SeccompRule::new(not.collect::<Result<_, _>>()?)?])
}

/// One rule for each value that is allowed.
fn equal(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |&value| SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, value)?]);
    values.iter().map(rule).collect()
}

const FILES: &[i64] = &[
    libc::SYS_chdir,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_sync_file_range,
    libc::SYS_tee,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Owners, modes, times and watches of files: landlock does not look at them, so an executor, which
/// has landlock alone around files, has none of them.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_getxattr,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_truncate,
    libc::SYS_utimensat,
];

const MEMORY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_set_mempolicy,
];

/// A process and itself; among them the calls by which it restricts itself further.
const PROCESS: &[i64] = &[
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setrlimit,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Other programs, other processes and other users.
const OTHERS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_prlimit64,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_setgid,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setsid,
    libc::SYS_setuid,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

const TIME: &[i64] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
];

/// Which kinds may be made is decided at `socket`.
const SOCKETS: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Older forms of the calls above, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_signalfd,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[i64] = &[];

/// Those of them that are for guests alone.
#[cfg(target_arch = "x86_64")]
const LEGACY_GUEST: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_fork,
    libc::SYS_inotify_init,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_GUEST: &[i64] = &[];

#[cfg(target_arch = "x86_64")]
const MKNOD: Option<i64> = Some(libc::SYS_mknod);
#[cfg(not(target_arch = "x86_64"))]
const MKNOD: Option<i64> = None;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;

    const OPEN: Opening = Opening { memory_files: true };

    #[test]
    fn nothing_that_changes_the_machine_is_on_the_list() {
        let (guest, alone) = (guest(OPEN).unwrap(), alone(7, OPEN).unwrap());
        for number in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_open_by_handle_at,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_syslog,
            libc::SYS_settimeofday,
            libc::SYS_shmget,
            libc::SYS_msgget,
            libc::SYS_mq_open,
        ] {
            assert!(!guest.contains_key(&number), "{number}");
            assert!(!alone.contains_key(&number), "{number}");
        }
    }

    /// What the kernel would do with a call whose arguments are all the same.
    fn verdict(filter: &[u8], architecture: u32, number: u32, argument: u64) -> u32 {
        let mut data = [number.to_ne_bytes(), architecture.to_ne_bytes()].concat();
        data.extend([0; 8]);
        (0..6).for_each(|_| data.extend(argument.to_ne_bytes()));
        let (mut at, mut a) = (0, 0);
        loop {
            let instruction = &filter[at * 8..at * 8 + 8];
            let code = u16::from_ne_bytes([instruction[0], instruction[1]]);
            let k = u32::from_ne_bytes(instruction[4..].try_into().unwrap());
            let (yes, no) = (usize::from(instruction[2]), usize::from(instruction[3]));
            let if_so = |is: bool| if is { yes } else { no };
            let k_as_place = k as usize;
            at += 1 + match code {
                0x20 => {
                    a = u32::from_ne_bytes(data[k_as_place..k_as_place + 4].try_into().unwrap());
                    0
                }
                0x54 => {
                    a &= k;
                    0
                }
                0x05 => k_as_place,
                0x15 => if_so(a == k),
                0x25 => if_so(a > k),
                0x35 => if_so(a >= k),
                0x06 => return k,
                other => panic!("instruction {other:x}"),
            };
        }
    }

    #[test]
    fn exactly_what_is_listed_is_allowed_and_nothing_of_another_architecture() {
        let filter = compile(OPEN).unwrap();
        let architecture = u32::from_ne_bytes(filter[12..16].try_into().unwrap());
        let rules = guest(OPEN).unwrap();
        let allowed = |number, argument| {
            verdict(&filter, architecture, number, argument) == libc::SECCOMP_RET_ALLOW
        };
        // Beyond the last number, and the numbers of the other calling convention of this one.
        for number in (0..2000).chain(0x4000_0000..0x4000_0400).chain([u32::MAX]) {
            let listed = rules.get(&i64::from(number));
            if listed.is_none_or(Vec::is_empty) {
                assert_eq!(allowed(number, u64::MAX), listed.is_some(), "{number}");
            }
            assert_ne!(
                verdict(&filter, architecture ^ 1, number, 0),
                libc::SECCOMP_RET_ALLOW,
                "{number}"
            );
        }
        let number = |number: i64| u32::try_from(number).unwrap();
        let socket = number(libc::SYS_socket);
        for family in 0..64 {
            let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
            let known = known.iter().any(|known| u64::from(known.unsigned_abs()) == family);
            assert_eq!(allowed(socket, family), known, "{family}");
        }
        assert!(
            allowed(number(libc::SYS_ioctl), 0x5401) && !allowed(number(libc::SYS_ioctl), 0x5412)
        );
        assert!(
            allowed(number(libc::SYS_clone), 0) && !allowed(number(libc::SYS_clone), NAMESPACES)
        );
        let memory_file = number(libc::SYS_memfd_create);
        let closed = compile(Opening { memory_files: false }).unwrap();
        assert!(allowed(memory_file, 0));
        assert_ne!(verdict(&closed, architecture, memory_file, 0), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn an_executor_has_less_than_a_guest_and_nothing_that_reaches_others() {
        let (guest, alone) = (guest(OPEN).unwrap(), alone(7, OPEN).unwrap());
        assert!(alone.keys().all(|number| guest.contains_key(number)));
        let closed = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_pidfd_send_signal,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_mknodat,
        ];
        for number in closed.iter().chain(ATTRIBUTES).chain(SOCKETS).chain(LEGACY_GUEST) {
            assert!(!alone.contains_key(number), "{number}");
        }
        assert!(executor(7, true).unwrap().len() <= 4096);
    }

    #[test]
    fn every_flag_that_makes_a_namespace_is_in_the_mask() {
        let flags = [
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWNET,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWUTS,
        ];
        let mask = flags.into_iter().fold(0, |mask, flag| mask | u64::from(flag.unsigned_abs()));
        assert_eq!(mask, NAMESPACES);
    }

    #[test]
    fn the_filter_fits_into_the_kernel_and_depends_on_who_counts_memory() {
        let open = compile(OPEN).unwrap();
        let closed = compile(Opening { memory_files: false }).unwrap();
        assert_ne!(closed, open);
        assert!(open.len().is_multiple_of(8) && open.len() / 8 <= 400, "{}", open.len() / 8);
    }
}
