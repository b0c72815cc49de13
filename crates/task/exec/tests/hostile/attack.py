"""What the hostile jobs have in common: raw system calls, and what an attacker knows.

The attacker knows everything about this machine: where the secret is, where a track would be seen,
and which ports and sockets would hear it. `claim` is the guest's own word; the checks that count are
made outside.
"""

import ctypes
import importlib
import os
import platform
import sys

SECRET = os.environ["TASK_SECRET"]
TRACK = os.environ["TASK_TRACK"]
PORT = int(os.environ["TASK_PORT"])
ADDRESS = os.environ["TASK_ADDRESS"]
ABSTRACT = os.environ["TASK_ABSTRACT"]
SOCKET = os.environ["TASK_SOCKET"]

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"

# name: (x86_64, aarch64)
NUMBERS = {
    "ptrace": (101, 117), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220),
    "clone3": (435, 435), "bpf": (321, 280), "add_key": (248, 217), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "process_vm_readv": (310, 270),
    "mknodat": (259, 33), "capset": (126, 91), "init_module": (175, 105), "reboot": (169, 142),
    "swapon": (167, 224), "settimeofday": (164, 170), "sethostname": (170, 161), "syslog": (103, 116),
    "personality": (135, 92), "fanotify_init": (300, 262), "sched_setscheduler": (144, 119),
    "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429), "acct": (163, 89),
    "quotactl": (179, 60), "shmget": (29, 194), "memfd_create": (319, 279), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "setgroups": (116, 159),
    "kexec_load": (246, 104), "mq_open": (240, 180), "memfd_secret": (447, 447),
}


def call(name, *arguments):
    """Makes a system call; negative is the error."""
    number = name if isinstance(name, int) else NUMBERS[name][ARM]
    pointers = (bytes, ctypes.Array)
    fixed = [a if isinstance(a, pointers) else ctypes.c_long(a) for a in arguments]
    outcome = libc.syscall(ctypes.c_long(number), *fixed)
    return -ctypes.get_errno() if outcome == -1 else outcome


def claim(what):
    print("ESCAPED", what, flush=True)


def hold():
    """Waits with everything open, so that it can be looked at from outside."""
    print("HOLDING", flush=True)
    sys.stdin.read()


def show(path):
    """Prints what a file holds; the secret in there gives it away."""
    try:
        with open(path, "rb") as file:
            print(file.read(1 << 16))
    except OSError as error:
        print(path, error)


def write(path, text="track"):
    try:
        with open(path, "w") as file:
            file.write(text)
        return True
    except OSError as error:
        print(path, error)
        return False


def loot(root=""):
    """What an attacker does once out: reads the secret and leaves a track."""
    show(root + SECRET)
    write(root + TRACK)


if __name__ == "__main__":
    sys.path.insert(0, "/inputs")
    sys.modules["attack"] = sys.modules["__main__"]
    print("BEGUN", flush=True)
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2])()
    print("DONE", flush=True)
