"""Ways to reach somebody: this machine's services, its network, the world."""

import os
import socket
import struct
import subprocess

from attack import ABSTRACT, ADDRESS, PORT, SOCKET, claim


def tell(family, kind, address):
    try:
        with socket.socket(family, kind) as opened:
            opened.settimeout(0.3)
            if kind == socket.SOCK_DGRAM:
                opened.sendto(b"opengpu-hostile", address)
            else:
                opened.connect(address)
                opened.sendall(b"opengpu-hostile")
    except OSError as error:
        print(address, error)


def tcp_loopback():
    tell(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))


def tcp_loopback_six():
    tell(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", PORT))


def tcp_all_zero():
    tell(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", PORT))


def tcp_machine():
    tell(socket.AF_INET, socket.SOCK_STREAM, (ADDRESS, PORT))


def udp_loopback():
    tell(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT))


def udp_machine():
    tell(socket.AF_INET, socket.SOCK_DGRAM, (ADDRESS, PORT))


def udp_broadcast():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for address in ("255.255.255.255", "224.0.0.1"):
            try:
                opened.sendto(b"opengpu-hostile", (address, PORT))
            except OSError as error:
                print(error)


def metadata():
    """The address at which clouds hand out credentials."""
    tell(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        try:
            # Connecting a datagram socket sends nothing: it only asks for a way.
            opened.connect(("169.254.169.254", 80))
            claim("a way out")
        except OSError as error:
            print(error)


def name_lookup():
    try:
        socket.getaddrinfo("example.org", 80)
        claim("names are looked up")
    except OSError as error:
        print(error)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        try:
            opened.connect(("9.9.9.9", 53))
            claim("a way out")
        except OSError as error:
            print(error)


def abstract_socket():
    tell(socket.AF_UNIX, socket.SOCK_STREAM, b"\0" + ABSTRACT.encode())


def abstract_datagram():
    tell(socket.AF_UNIX, socket.SOCK_DGRAM, b"\0" + ABSTRACT.encode() + b"-datagram")


def path_socket():
    others = ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket")
    for path in (SOCKET, *others):
        tell(socket.AF_UNIX, socket.SOCK_STREAM, path)


def raw_socket():
    for family, protocol in ((socket.AF_INET, 1), (socket.AF_PACKET, 768)):
        try:
            socket.socket(family, socket.SOCK_RAW, protocol)
            claim("raw")
        except OSError as error:
            print(error)


def other_families():
    """Kinds of sockets that are doors into the kernel: crypto, netlink, virtual machines, radio."""
    for family in (16, 17, 38, 40, 31, 29, 44, 45):
        try:
            socket.socket(family, socket.SOCK_RAW if family == 16 else socket.SOCK_DGRAM)
            claim(f"family {family}")
        except OSError as error:
            print(error)


def interfaces():
    with open("/proc/net/dev") as file:
        names = [line.split(":")[0].strip() for line in file if ":" in line]
    if names != ["lo"]:
        claim(f"sees {names}")


def tools():
    lines = (
        ["ping", "-c1", "-W1", ADDRESS],
        ["curl", "-m1", f"http://{ADDRESS}:{PORT}/"],
        ["ip", "link", "add", "x", "type", "dummy"],
    )
    for line in lines:
        try:
            subprocess.run(line, timeout=2, capture_output=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error)
