#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""wire_replay.py KEY INPUT.json: be one rank of a reference case by the protocol
alone, heapline-protocol(7): no library of heapline's has a say, so values that the
client library refuses (infinite, not a number) and lists of regions without their
parents go through, too.  The rank and its size are those of Open MPI."""
import json
import os
import random
import socket
import struct
import sys

TABLE = []
for i in range(256):
    for _ in range(8):
        i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)
HELLO, HELLO_OK, CATALOG, ROWS, ACK, BYE = 1, 2, 4, 5, 6, 7
METRIC, PATH = 1, 2


def message(kind, body):
    head = struct.pack("<HBBI", 0x4C48, 1, kind, len(body))
    c = 0xFFFFFFFF
    for b in head + body:
        c = TABLE[(c ^ b) & 255] ^ (c >> 8)
    return head + struct.pack("<II", c ^ 0xFFFFFFFF, 0) + body


def number(tag, value):
    return struct.pack("<HHq", tag, 8, value)


def text(tag, value):
    value = value.encode()
    return struct.pack("<HH", tag, len(value)) + value


def start_ticks():
    with open("/proc/self/stat", encoding="ascii") as f:
        return int(f.read().rsplit(")", 1)[1].split()[19])


def hello(key, version, rank, size):
    return message(HELLO, number(1, 0x0101) + number(2, 2) + number(3, 4)
                   + number(4, os.getpid()) + number(5, start_ticks())
                   + number(6, random.SystemRandom().getrandbits(63)) + number(7, rank)
                   + number(8, size) + text(10, key) + text(11, socket.gethostname())
                   + text(13, version))


def stream(case, rank):
    names = [text(METRIC, n) for n in case["frame_metric_names"]]
    names += [text(PATH, n) for n in case["region_paths"]]
    out = message(CATALOG, struct.pack("<5I", 1, 0, 0, 0, 0) + b"".join(names))
    for i, row in enumerate(case["rows"][rank]):
        out += message(ROWS, struct.pack("<IIQQ", 1, len(row), i, 0)
                       + struct.pack(f"<{len(row)}d", *map(float, row)))
    return out


def answer(s, wanted):
    """The last 8 bytes of the next message of that type."""
    while True:
        head = s.recv(16, socket.MSG_WAITALL)
        if len(head) < 16:
            sys.exit("wire_replay: the collector closed")
        body = s.recv(struct.unpack("<I", head[4:8])[0], socket.MSG_WAITALL)
        if head[3] == wanted:
            return struct.unpack("<Q", body[-8:])[0]
        sys.exit(f"wire_replay: message {head[3]}: {body[4:]}")


def main():
    key, name = sys.argv[1:]
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    with open(name, encoding="utf-8") as f:
        case = json.load(f)
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ.get("HEAPLINE_SOCKET", "/run/heapline/collector.sock"))
    s.sendall(hello(key, case["openpfc_version"], rank, size))
    answer(s, HELLO_OK)
    data = stream(case, rank)
    s.sendall(data)
    while answer(s, ACK) < len(data):
        pass
    s.sendall(message(BYE, struct.pack("<QQ", 0, len(case["rows"][rank]))))


main()
