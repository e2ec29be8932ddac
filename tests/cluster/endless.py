#!/usr/bin/env python3
"""Sends messages without end, as a peer without a key: endless.py BYTES PORT, or endless.py BYTES --pid PID, to every
port at which the process listens. Ends when each connection was cut off, or was not although it has got so many bytes.
Prints how many were cut off."""
import pathlib
import socket
import sys
import time

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
PART = b"\x03" + (1 << 16).to_bytes(8, "big") + bytes(1 << 16)  # more parts follow
PATIENCE_S = 10
ADMITTED_S = 2  # more than 4 KiB before it is admitted are cut off as no handshake: nothing shows when it is


def ports_of(pid):
    process = pathlib.Path("/proc") / pid
    sockets = set()
    for entry in (process / "fd").iterdir():
        try:
            sockets.add(str(entry.readlink()))
        except OSError:
            pass
    lines = [line.split() for line in (process / "net" / "tcp").read_text().splitlines()[1:]]
    listening = [words for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]
    return [int(words[1].split(":")[1], 16) for words in listening]


def is_cut(port, most):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        try:
            peer.sendall(GREETING + READY)
            got = 0
            while got < len(GREETING) + len(READY):
                got += len(peer.recv(4096)) or most
            time.sleep(ADMITTED_S)
            for sent in range(0, most, 1 << 20):
                peer.sendall(PART * 16)
                time.sleep(0.01)
            peer.settimeout(PATIENCE_S)
            while peer.recv(4096):
                pass
            return True
        except socket.timeout:
            return False
        except OSError:
            return True


def main():
    most = int(sys.argv[1])
    ports = ports_of(sys.argv[3]) if sys.argv[2] == "--pid" else [int(sys.argv[2])]
    print(sum(is_cut(port, most) for port in ports))


main()
