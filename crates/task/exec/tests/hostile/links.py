"""Outputs that lead somewhere else."""

import os
import threading

from attack import SECRET


def link_to_file():
    os.symlink(SECRET, "/work/output")


def link_to_folder():
    os.symlink(os.path.dirname(SECRET), "/work/folder")
    os.symlink("/", "/work/root")


def link_to_process():
    os.symlink("/proc/self/root" + SECRET, "/work/output")
    os.symlink("/proc/1/cwd", "/work/folder")


def link_upwards():
    os.symlink("../" * 40 + SECRET[1:], "/work/output")


def hard_link():
    for path in (SECRET, "/etc/passwd", "/usr/bin/env", "/inputs/attack.py"):
        try:
            os.link(path, "/work/" + os.path.basename(path))
        except OSError as error:
            print(path, error)


def pipe_and_socket():
    import socket
    os.mkfifo("/work/pipe")
    socket.socket(socket.AF_UNIX).bind("/work/socket")


def swapped():
    """A file and a link to the secret that change places until the end."""
    os.symlink(SECRET, "/work/link")
    with open("/work/output", "w") as file:
        file.write("plain")

    def swap():
        while True:
            os.rename("/work/output", "/work/aside")
            os.rename("/work/link", "/work/output")
            os.rename("/work/output", "/work/link")
            os.rename("/work/aside", "/work/output")
    threading.Thread(target=swap, daemon=True).start()
    import time
    time.sleep(0.2)
    os._exit(0)


def strange_names():
    for name in (b"a\nb", b"\xff\xfe", b"-rf", b"...", b"x" * 255, b"\x1b[2J"):
        with open(b"/work/" + name, "wb") as file:
            file.write(b"x")


def huge_and_empty():
    with open("/work/sparse", "wb") as file:
        file.truncate(60 << 20)
