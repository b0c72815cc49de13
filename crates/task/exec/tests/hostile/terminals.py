"""What a rental could do with terminals: its own, and the one that the owner sits at.

The owner's has a line in it that nobody has read yet, and everybody on this machine may open it.
"""

import fcntl
import glob
import os
import signal
import sys
import time

from attack import call, claim, hold, show, write

TERMINAL = os.environ["TASK_TERMINAL"]
STI, SCTTY, CONS, LINUX, SETD = 0x5412, 0x540E, 0x541D, 0x541C, 0x5423
OWN = ("/dev/tty", "/dev/stdin", "/proc/self/fd/0", "/proc/self/fd/1")


def request(path, number, argument=b"x"):
    """Whether a request to a terminal is granted."""
    try:
        opened = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        fcntl.ioctl(opened, number, argument)
        return True
    except OSError as error:
        print(path, error)
        return False


def typing_for_the_owner():
    for path in (TERMINAL, *glob.glob("/proc/[0-9]*/fd/*")):
        try:
            opened = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.isatty(opened) and os.path.realpath(path) != os.ttyname(0):
            claim("holds " + path)


def typing_for_oneself():
    for path in OWN:
        # What is typed is shown, and must not stand before the claim.
        if request(path, STI, b"\n"):
            claim("typed into " + path)


def reading_over_the_shoulder():
    show(TERMINAL)
    for number in range(64):
        path = "/dev/pts/%d" % number
        if path == os.ttyname(0):
            continue
        try:
            opened = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            claim("opened " + path)
            print(os.read(opened, 4096))
        except OSError:
            pass


def writing_on_the_screen():
    for path in (TERMINAL, "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0"):
        if write(path):
            claim("wrote to " + path)
    hold()


def terminal_by_number():
    """The same device under a name of its own."""
    number = int(os.path.basename(TERMINAL))
    for major in (136, 137, 4, 5):
        path = b"/work/terminal%d" % major
        call("mknodat", -100, path, 0o020666, (major << 8) | number)
        show(path.decode())


def terminals_of_the_machine():
    """The file system of terminals once more, without asking for a new one."""
    os.makedirs("/work/pts", exist_ok=True)
    if call("mount", b"devpts", b"/work/pts", b"devpts", 0, b"") == 0:
        claim("mounted")
        show("/work/pts/" + os.path.basename(TERMINAL))


def session_of_the_owner():
    """A child without a terminal takes another one by force."""
    if os.fork() == 0:
        os.setsid()
        if request(TERMINAL, SCTTY, 1):
            claim("took the owner's terminal")
        os._exit(0)
    os.wait()


def console_output():
    for path in OWN:
        for number in (CONS, LINUX, SETD):
            if request(path, number, b"\x0c\0\0\0"):
                claim("request %x on %s" % (number, path))


def staying_after_the_shell():
    """Children that the end of the terminal does not reach."""
    for kind in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, signal.SIG_IGN)
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "99999"])
            os._exit(0)
    time.sleep(0.2)


def flood_of_the_screen():
    while True:
        sys.stdout.write("\033[2J" + "x" * 4096)
