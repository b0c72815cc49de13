"""Devices that were not lent."""

import glob
import os

from attack import hold


def reach(*patterns):
    for pattern in patterns:
        for path in glob.glob(pattern) or [pattern]:
            try:
                os.open(path, os.O_RDWR | os.O_NONBLOCK)
            except OSError as error:
                print(path, error)
    hold()


def graphics():
    reach("/dev/dri/*", "/dev/nvidia*", "/dev/kfd", "/dev/dxg", "/dev/fb0")


def virtual_machines():
    reach("/dev/kvm", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/vsock")


def disks():
    reach("/dev/vd*", "/dev/sd*", "/dev/nvme*", "/dev/loop*", "/dev/mapper/*")


def tunnels():
    reach("/dev/net/tun", "/dev/fuse", "/dev/ppp")


def input_devices():
    reach("/dev/input/*", "/dev/uinput", "/dev/uhid", "/dev/hidraw*", "/dev/snd/*")


def consoles():
    reach("/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs*")


def firmware():
    reach("/dev/rtc0", "/dev/hpet", "/dev/tpm*", "/dev/cpu/*/msr", "/dev/nvram", "/dev/watchdog")


def everything():
    reach("/dev/*")
