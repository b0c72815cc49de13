"""Using up everything: each of these must meet a limit, and nobody else may feel it."""

import io
import mmap
import os
import signal
import socket
import threading
import zipfile

from attack import call


def forks():
    while True:
        try:
            os.fork()
        except OSError:
            signal.alarm(1)
            signal.pause()


def threads():
    stop = threading.Event()
    started = 0
    try:
        for started in range(10_000):
            threading.Thread(target=stop.wait, daemon=True).start()
    except RuntimeError:
        print("stopped at", started)
    os._exit(0)


def memory():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (4 << 20)))


def mapped_memory():
    kept = mmap.mmap(-1, 1 << 34)
    for page in range(0, 1 << 34, 4096):
        kept[page] = 1


def memory_of_many():
    """Each process alone is small."""
    for _ in range(20):
        if os.fork() == 0:
            kept = bytearray(b"x" * (24 << 20))
            signal.pause()
            print(len(kept))
    signal.pause()


def memory_files():
    """Memory that belongs to no process: files without a folder."""
    for _ in range(100):
        opened = call("memfd_create", b"bomb", 0)
        if opened < 0:
            return
        for _ in range(8):
            os.write(opened, b"x" * (4 << 20))


def recursion():
    import sys
    sys.setrecursionlimit(1 << 30)

    def deeper(n):
        return deeper(n + 1) + 1
    deeper(0)


def fill(path):
    number = 0
    while True:
        with open(f"{path}/{number}", "wb") as file:
            for _ in range(64):
                file.write(b"x" * (1 << 20))
        number += 1


def disk():
    fill("/work")


def temporary():
    fill("/tmp")


def shared_folder():
    fill("/dev/shm")


def large_file():
    with open("/work/large", "wb") as file:
        file.seek(1 << 40)
        file.write(b"x")


def inodes(path):
    number = 0
    while True:
        os.close(os.open(f"{path}/{number}", os.O_CREAT | os.O_WRONLY))
        number += 1


def files():
    inodes("/work")


def temporary_files():
    inodes("/tmp")


def deep_folders():
    while True:
        os.mkdir("d")
        os.chdir("d")


def open_files():
    kept = []
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))


def pipes():
    while True:
        read, write = os.pipe()
        os.set_blocking(write, False)
        os.write(write, b"x" * 65536)


def sockets():
    kept = []
    while True:
        kept.append(socket.socketpair())
        for end in kept[-1]:
            end.setblocking(False)
            try:
                while True:
                    end.send(b"x" * 65536)
            except BlockingIOError:
                pass


def processor():
    for _ in range(4):
        if os.fork() == 0:
            break
    while True:
        pass


def archive():
    """Ten megabytes that unpack to ten gigabytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(16 << 20))
    while True:
        with zipfile.ZipFile(packed) as file:
            file.extractall("/work")
        os.rename("/work/zeros", f"/work/{os.urandom(4).hex()}")


def sleep():
    signal.pause()
