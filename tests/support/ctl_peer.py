# SPDX-License-Identifier: Apache-2.0
"""Odd ones on a collector's socket.

  ctl_peer.py silent|trickle|full|liar PATH   collectors: one that never answers, one
      that sends a byte now and then, one whose queue is full, one of another protocol
  ctl_peer.py flood PATH N   asks N times for all processes, reads after a line on stdin
"""
import os
import socket
import struct
import sys
import time

TABLE = []
for i in range(256):
    for _ in range(8):
        i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


def message(kind, body):
    head = struct.pack("<HBBI", 0x4C48, 1, kind, len(body))
    return head + struct.pack("<II", crc32c(head + body), 0) + body


def hello():
    fields = struct.pack("<HHQ", 1, 8, 0x0101) + struct.pack("<HHQ", 2, 8, 5)
    return message(1, fields + struct.pack("<HH", 10, 5) + b"flood")


def serve(mode, path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(0 if mode == "full" else 16)
    kept = []
    while mode == "full":
        c = socket.socket(socket.AF_UNIX)
        c.setblocking(False)
        kept.append(c)
        try:
            c.connect(path)
        except BlockingIOError:
            break
    os.rename(path, path + ".on")  # now it is ready
    while mode in ("full", "silent"):
        time.sleep(60)
    while True:
        c, _ = s.accept()
        try:
            if mode == "liar":
                c.recv(65536)
                c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                c.close()
            else:
                head = struct.pack("<HBBI", 0x4C48, 1, 2, 16) + bytes(8)
                for b in head + bytes(1000):
                    c.sendall(bytes([b]))
                    time.sleep(0.5)
        except OSError:
            pass


def flood(path, n):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(hello())
    questions = message(23, struct.pack("<II", 3, 0)) * n
    s.setblocking(False)
    sent = 0
    for _ in range(20):  # as much as it takes without an answer being read
        try:
            sent += s.send(questions[sent:])
        except BlockingIOError:
            time.sleep(0.02)
        if sent == len(questions):
            break
    print("sent", flush=True)
    sys.stdin.readline()
    data, lines, done = b"", 0, 0
    while done < n:
        if sent < len(questions):
            try:
                sent += s.send(questions[sent:])
            except BlockingIOError:
                pass
        try:
            more = s.recv(1 << 20)
        except BlockingIOError:
            time.sleep(0.002)
            continue
        if not more:
            break
        data += more
        at = 0
        while len(data) - at >= 16 and len(data) - at >= 16 + struct.unpack_from("<I", data, at + 4)[0]:
            lines += data[at + 3] == 26
            done += data[at + 3] == 28
            at += 16 + struct.unpack_from("<I", data, at + 4)[0]
        data = data[at:]
    print("done", done, "lines", lines)


if sys.argv[1] == "flood":
    flood(sys.argv[2], int(sys.argv[3]))
else:
    serve(sys.argv[1], sys.argv[2])
