"""Code that others would load."""

import os
import subprocess

from attack import TRACK, write


def preload():
    """The variable is set for a program of the guest alone, and that one is nobody too."""
    write("/work/x.so", "not a library")
    subprocess.run(["mount"], env={"LD_PRELOAD": "/work/x.so", "LD_AUDIT": "/work/x.so"})


def preload_for_all():
    write("/etc/ld.so.preload", "/work/x.so")
    write("/etc/ld.so.cache", "x")


def startup_files():
    for name in ("sitecustomize.py", "usercustomize.py", ".profile", ".bashrc", ".pdbrc"):
        write(f"/work/{name}", f"open({TRACK!r}, 'w')")
    os.makedirs("/work/.config/pip", exist_ok=True)
    write("/work/.config/pip/pip.conf", "[install]\ntarget = /")


def shadow_tools():
    """Programs of the same names as those that the supervisor runs."""
    for name in ("bwrap", "true", "sh", "python3", "ldconfig"):
        path = f"/work/{name}"
        write(path, f"#!/bin/sh\ntouch {TRACK}\n")
        os.chmod(path, 0o755)


def core_dump():
    os.abort()
