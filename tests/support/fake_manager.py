#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A service manager for tests: owns the listening socket, keeps descriptors
(FDSTORE) and hands them to the next start (LISTEN_FDS).

  fake_manager.py SOCKET PROGRAM ARGUMENT...

Commands, a line each, on standard input; each is answered by "done":
  up       start the program
  down     kill it with SIGKILL
  stop     end it with SIGTERM; tells its status
  store    tell the names that are kept
  lose     close all that is kept
  swap     put other memfds in place of what is kept, under the same names
  rename   give what is kept names that nobody uses
  pause, resume   do not read what the program says; do again
What the program says is told as it comes: ready, keep NAME, drop NAME, and any
other line as it is.  The end of the input ends all.
"""
import array
import fcntl
import os
import select
import signal
import socket
import sys

SEALS = 0x0002 | 0x0004  # F_SEAL_SHRINK | F_SEAL_GROW
F_ADD_SEALS = 1033
path, program = sys.argv[1], sys.argv[2:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(path)
listener.listen(100)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(path + ".n")
store = []  # name, descriptor
child = 0
paused = False


def say(*words):
    print(*words, flush=True)


def become(fds, names):
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 300) for fd in fds]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i)
    os.closerange(3 + len(fds), 1000)
    env = dict(os.environ, NOTIFY_SOCKET=path + ".n", LISTEN_PID=str(os.getpid()),
               LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(names))
    os.execvpe(program[0], program, env)


def up():
    global child
    child = os.fork()
    if not child:
        try:
            become([listener.fileno()] + [fd for _, fd in store],
                   ["heaplined.socket"] + [name for name, _ in store])
        finally:
            os._exit(127)
    say("pid", child)


def end(number):
    global child
    os.kill(child, number)
    status = os.waitpid(child, 0)[1]
    child = 0
    say("status", os.waitstatus_to_exitcode(status))
    while select.select([notify], [], [], 0)[0]:
        listen_once()


def lose():
    for _, fd in store:
        os.close(fd)
    store.clear()


def swap():
    for i, (name, fd) in enumerate(store):
        other = os.memfd_create("other", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.sendfile(other, fd, 0, os.fstat(fd).st_size)
        fcntl.fcntl(other, F_ADD_SEALS, SEALS)
        os.close(fd)
        store[i] = (name, other)


def listen_once():
    data, control, _, _ = notify.recvmsg(4096, socket.CMSG_SPACE(4 * 8))
    fds = array.array("i")
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[:len(content) // 4 * 4])
    lines = data.decode().split("\n")
    name = next((x[7:] for x in lines if x.startswith("FDNAME=")), "stored")
    for line in lines:
        if line == "FDSTORE=1":
            store.extend((name, fd) for fd in fds)
            say("keep", name)
        elif line == "FDSTOREREMOVE=1":
            for entry in [e for e in store if e[0] == name]:
                os.close(entry[1])
                store.remove(entry)
            say("drop", name)
        elif line == "READY=1":
            say("ready")
        elif not line.startswith("FDNAME="):
            say(line)


def obey(line):
    global paused
    if line == "up":
        up()
    elif line in ("down", "stop"):
        end(signal.SIGKILL if line == "down" else signal.SIGTERM)
    elif line == "store":
        say("store", *sorted(name for name, _ in store))
    elif line == "lose":
        lose()
    elif line == "swap":
        swap()
    elif line == "rename":
        store[:] = [("x" + name, fd) for name, fd in store]
    elif line in ("pause", "resume"):
        paused = line == "pause"
    say("done")


def main():
    held = b""
    while True:
        ready = select.select([0] + ([] if paused else [notify]), [], [])[0]
        if notify in ready:
            listen_once()
            continue
        held += (data := os.read(0, 4096))
        if not data:
            break
        *lines, held = held.split(b"\n")
        for line in lines:
            obey(line.decode())
    if child:
        os.kill(child, signal.SIGKILL)


main()
