"""What a guest tries that was granted the internet: to reach what is near instead."""

import socket
import subprocess

from attack import ADDRESS, PORT, claim

# What slirp4netns is called inside: the gateway, and whom to ask for names.
GATEWAYS = ("10.0.2.2", "10.0.2.3", "10.0.2.1", "10.0.2.255")


def tell(kind, address):
    try:
        with socket.socket(socket.AF_INET, kind) as opened:
            opened.settimeout(0.5)
            opened.connect(address)
            opened.sendall(b"opengpu-hostile")
    except OSError as error:
        print(address, error)


def both(address):
    tell(socket.SOCK_STREAM, (address, PORT))
    tell(socket.SOCK_DGRAM, (address, PORT))


def near_gateway():
    for address in GATEWAYS:
        both(address)


def near_loopback():
    for address in ("127.0.0.1", "127.0.0.2", "0.0.0.0"):
        both(address)


def near_machine():
    both(ADDRESS)


def near_loopback_by_binding():
    """From an address of the other side."""
    for source in ("127.0.0.1", "10.0.2.100", ADDRESS):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
            opened.settimeout(0.5)
            try:
                opened.bind((source, 0))
                opened.connect(("10.0.2.2", PORT))
                opened.sendall(b"opengpu-hostile")
            except OSError as error:
                print(source, error)


def private_ranges():
    others = ("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "192.0.0.1")
    for address in (*others, "198.18.0.1", "224.0.0.1", "240.0.0.1"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            try:
                # Connecting a datagram socket sends nothing: it only asks for a way.
                opened.connect((address, 80))
                claim("a way to " + address)
            except OSError as error:
                print(address, error)


def six():
    for address in ("fd00::1", "fe80::2", "::ffff:" + ADDRESS):
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as opened:
                opened.settimeout(0.5)
                opened.connect((address, PORT))
                opened.sendall(b"opengpu-hostile")
        except OSError as error:
            print(address, error)


def opening_routes():
    for line in (
        ["ip", "route", "del", "unreachable", "192.168.0.0/16"],
        ["ip", "route", "add", ADDRESS + "/32", "via", "10.0.2.2"],
        ["ip", "link", "set", "tap0", "promisc", "on"],
    ):
        if subprocess.run(line, capture_output=True).returncode == 0:
            claim(" ".join(line))
    for family in (socket.AF_NETLINK, socket.AF_PACKET):
        try:
            socket.socket(family, socket.SOCK_RAW, 0)
            claim("a socket of the kernel")
        except OSError as error:
            print(error)
    near_machine()
