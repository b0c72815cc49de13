"""Living on after the end. Each sleeps under a name that is looked for outside."""

import ctypes
import os
import signal
import subprocess
import threading

SLEEP = ["sleep", "99999"]


def double_fork():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", SLEEP)
        os._exit(0)


def session():
    subprocess.Popen(SLEEP, start_new_session=True)


def daemon():
    deaf = "trap '' TERM HUP INT; sleep 99999"
    subprocess.Popen(f'nohup setsid sh -c "{deaf}" > /dev/null 2>&1 &', shell=True)


def deaf():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    subprocess.Popen(SLEEP)
    print("HOLDING", flush=True)
    while True:
        signal.sigtimedwait([signal.SIGUSR1], 100)


def stopped():
    held = subprocess.Popen(SLEEP)
    held.send_signal(signal.SIGSTOP)
    print("HOLDING", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


def respawn():
    """Two that start each other again."""
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork() == 0:
                    os.execvp("sleep", SLEEP)
                os.wait()


def thread_without_main():
    threading.Thread(target=lambda: subprocess.run(SLEEP)).start()
    print("HOLDING", flush=True)
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)


def holding_the_stream():
    """The parent is gone; its child keeps the output open."""
    print("HOLDING", flush=True)
    if os.fork() == 0:
        os.execvp("sleep", SLEEP)
    os._exit(0)
