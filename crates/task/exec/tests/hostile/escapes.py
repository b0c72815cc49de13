"""Ways out that guests are known to try."""

import ctypes
import glob
import mmap
import os
import signal
import struct
import subprocess

from attack import ARM, SECRET, TRACK, call, claim, hold, libc, loot, show, write

NEWUSER, NEWNS, NEWNET, NEWPID = 0x10000000, 0x00020000, 0x40000000, 0x20000000


def read_secret():
    loot()


def mount_bind():
    os.makedirs("/work/m", exist_ok=True)
    if call("mount", b"/", b"/work/m", b"", 4096, 0) == 0:
        loot("/work/m")
    hold()


def mount_tmpfs():
    os.makedirs("/work/m", exist_ok=True)
    call("mount", b"none", b"/work/m", b"tmpfs", 0, 0)
    hold()


def mount_new_api():
    for name, arguments in (("fsopen", (b"tmpfs", 0)), ("open_tree", (-100, b"/", 1))):
        if call(name, *arguments) >= 0:
            claim(name)
    hold()


def umount_covers():
    for path in (b"/proc", b"/tmp", b"/dev/shm", b"/work"):
        call("umount2", path, 2)
    loot()
    hold()


def remount_writable():
    if call("mount", b"none", b"/usr", b"", 32 | 4096, 0) == 0 and write("/usr/track"):
        claim("remount")
    hold()


def unshare_user():
    if call("unshare", NEWUSER | NEWNS) == 0:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", "0 65534 1")
        os.makedirs("/work/m", exist_ok=True)
        call("mount", b"none", b"/work/m", b"tmpfs", 0, 0)
    hold()


def unshare_network():
    call("unshare", NEWUSER | NEWNET)
    hold()


def clone_user():
    child = call("clone", NEWUSER | NEWPID | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        signal.pause()
    hold()


def clone3_user():
    arguments = ctypes.create_string_buffer(struct.pack("8Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)
    if call("clone3", arguments, 64) == 0:
        signal.pause()
    hold()


def setns_first():
    for path in glob.glob("/proc/1/ns/*"):
        try:
            opened = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        if call("setns", opened, 0) == 0:
            claim(path)
    hold()


def ptrace_child():
    child = os.fork()
    if child == 0:
        signal.pause()
    call("ptrace", 16, child, 0, 0)
    hold()


def ptrace_first():
    call("ptrace", 16, 1, 0, 0)
    hold()


def read_other_memory():
    child = os.fork()
    if child == 0:
        signal.pause()
    target = ctypes.create_string_buffer(8)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(target), 8)
    if call("process_vm_readv", child, vector, 1, vector, 1, 0) > 0:
        claim("memory of another process")
    os.kill(child, 9)


def steal_file():
    first = call("pidfd_open", 1, 0)
    for number in range(64):
        stolen = call("pidfd_getfd", first, number, 0)
        if stolen >= 0:
            claim("an open file of the first process")
            break


def compare_kernel_pointers():
    if call("kcmp", os.getpid(), 1, 0, 0, 0) >= 0:
        claim("kcmp")


def bpf_map():
    attributes = ctypes.create_string_buffer(struct.pack("6I", 2, 4, 4, 1, 0, 0), 128)
    call("bpf", 0, attributes, 128)
    hold()


def keyring():
    if call("add_key", b"user", b"opengpu-hostile", b"payload", 7, -5) > 0:
        claim("a key outlives its guest")
    if call("keyctl", 0, -4, 1) > 0:
        claim("keyctl")
    hold()


def io_uring():
    call("io_uring_setup", 8, ctypes.create_string_buffer(120))
    hold()


def userfaultfd():
    call("userfaultfd", 1)
    hold()


def perf_event():
    call("perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112), 0, -1, -1, 0)
    hold()


def fanotify():
    call("fanotify_init", 0x200, 0)
    hold()


def memfd_secret():
    if call("memfd_secret", 0) >= 0:
        claim("memfd_secret")


def open_by_handle():
    """The file handle of inode 2, the root of most file systems."""
    folder = os.open("/usr", os.O_RDONLY)
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0), 64)
    opened = call("open_by_handle_at", folder, handle, 0)
    if opened >= 0:
        loot(f"/proc/self/fd/{opened}")
        claim("a file by its handle")


def chroot_walk():
    os.makedirs("/work/jail", exist_ok=True)
    if call("chroot", b"/work/jail") == 0:
        claim("chroot")
        for _ in range(64):
            os.chdir("..")
        call("chroot", b".")
        loot()


def pivot_root():
    os.makedirs("/work/new/old", exist_ok=True)
    if call("pivot_root", b"/work/new", b"/work/new/old") == 0:
        claim("pivot_root")


def core_pattern():
    write("/proc/sys/kernel/core_pattern", "|" + TRACK)


def modprobe_path():
    write("/proc/sys/kernel/modprobe", TRACK)
    write("/proc/sys/kernel/hotplug", TRACK)


def sysctl_network():
    write("/proc/sys/net/ipv4/ip_forward", "1")
    write("/proc/sys/kernel/domainname", "opengpu-hostile")


def sysrq():
    if write("/proc/sysrq-trigger", "h"):
        claim("sysrq")


def oom_score():
    """Whoever lowers it lets the kernel end somebody else instead."""
    if write("/proc/self/oom_score_adj", "-1000"):
        claim("oom_score_adj")


def setuid_file():
    subprocess.run("cp /bin/sh /work/sh && chmod 6755 /work/sh", shell=True)
    held = subprocess.Popen(["/work/sh", "-p", "-c", "read x"], stdin=subprocess.PIPE)
    hold()
    held.kill()


def become_root():
    for name in ("setuid", "setgid", "seteuid"):
        getattr(libc, name)(0)
    libc.setresuid(0, 0, 0)
    call("setgroups", 1, (ctypes.c_int * 1)(0))
    subprocess.run(["su", "-c", f"cat {SECRET}"], stdin=subprocess.DEVNULL)
    hold()


def capabilities():
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)
    call("capset", header, ctypes.create_string_buffer(b"\xff" * 24, 24))
    hold()


def terminal_input():
    import fcntl
    for path in ("/dev/tty", "/dev/pts/0", "/dev/console", "/proc/1/fd/0", "/proc/self/fd/0"):
        try:
            opened = os.open(path, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(opened, 0x5412, b"x")
            claim("typed into " + path)
        except OSError:
            pass


def own_terminal_input():
    """A terminal of its own: typing into it harms nobody, and is not allowed either."""
    import fcntl
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, 0x5412, b"x")
        claim("TIOCSTI")
    except OSError:
        pass


def kernel_log():
    show("/dev/kmsg")
    write("/dev/kmsg", "opengpu-hostile")
    if call("syslog", 3, ctypes.create_string_buffer(4096), 4096) >= 0:
        claim("syslog")


def kernel_memory():
    for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/proc/kallsyms"):
        try:
            with open(path, "rb") as file:
                if file.read(64):
                    claim(path)
        except OSError:
            pass


def release_agent():
    os.makedirs("/work/c", exist_ok=True)
    for kind in (b"cgroup", b"cgroup2"):
        if call("mount", b"none", b"/work/c", kind, 0, b"memory") == 0:
            claim("cgroup")
    for path in glob.glob("/sys/fs/cgroup/**/release_agent", recursive=True):
        write(path, TRACK)


def first_process_root():
    for path in glob.glob("/proc/[0-9]*/root"):
        loot(path)
        loot(path.replace("root", "cwd") + "/../../../..")


def leaked_files():
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("/") and not target.startswith(("/dev/", "/work", "/inputs", "/proc")):
            claim(f"{path} is {target}")
        loot(path)


def overwrite_first_program():
    """The program that started us, through its own file (CVE-2019-5736)."""
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            claim(path)
        except OSError:
            pass


def disk_node():
    for major, minor in ((254, 0), (8, 0), (259, 0)):
        if call("mknodat", -100, b"/work/disk", 0o60666, os.makedev(major, minor)) == 0:
            claim("mknod")
            show("/work/disk")


def kernel_module():
    if call("init_module", b"\x7fELF", 4, b"") not in (-1, -38):
        claim("init_module")


def reboot():
    if call("reboot", 0xFEE1DEAD, 672274793, 0, 0) == 0:
        claim("reboot")


def swap_and_accounting():
    for name in ("swapon", "acct"):
        if call(name, b"/work/file", 0) == 0:
            claim(name)


def clock():
    if call("settimeofday", struct.pack("qq", 1, 0), 0) == 0:
        claim("clock")


def host_name():
    call("sethostname", b"opengpu-hostile", 15)
    write("/proc/sys/kernel/hostname", "opengpu-hostile")


def real_time():
    if call("sched_setscheduler", 0, 1, struct.pack("i", 99)) == 0:
        claim("real time")
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        claim("priority")
    except OSError:
        pass


def no_randomization():
    if call("personality", 0x0040000) >= 0:
        claim("personality")


def other_abi():
    """The numbers of another architecture, which a filter by number alone would let through."""
    if ARM:
        return
    if call(0x40000000 + 39) > 0:
        claim("x32")
    # mov eax, 20 (getpid of 32 bits); int 0x80; ret
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("b814000000cd80c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0:
        claim("32 bit")


def signal_everyone():
    libc.kill(-1, 19 if os.getpid() == 1 else 18)
    for number in range(1, 5000):
        if number not in (1, os.getpid()):
            libc.kill(number, 9)


def system_files():
    hooks = ("/etc/ld.so.preload", "/sys/kernel/uevent_helper")
    for path in ("/usr/bin/track", "/lib/track", "/dev/track", "/track", *hooks):
        if write(path):
            claim(path)


def shared_memory():
    if call("shmget", 0x1234, 4096, 0o1666) >= 0:
        claim("memory that outlives a process")
    if call("mq_open", b"opengpu-hostile", 0o102, 0o666, 0) >= 0:
        claim("a queue")


def neighbours():
    """Other processes of this machine, and what they were started with."""
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        show(path)
    if len(glob.glob("/proc/[0-9]*")) > 8:
        claim("sees other processes")


def home_folders():
    for path in ("/root", "/home", "/var/lib", "/var/run", "/srv", "/mnt", "/boot"):
        if os.path.exists(path):
            claim(path)
    show("/etc/shadow")
    show("/etc/machine-id")
