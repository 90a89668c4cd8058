# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a terminal of its own and says what is on the screen.

  ctl_screen.py ROWSxCOLUMNS PROGRAM ARGUMENT... -- STEP...

Steps: see=TEXT, gone=TEXT (wait for it), line=N, key=BYTES (with \\e), size=ROWSxCOLUMNS,
signal=NAME, stop (Ctrl-Z; what the terminal is then), go, run=COMMAND, widest, end.
Each that asks something prints a line.  The terminal is a session with a small job
control, as a shell has it."""
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

DEADLINE = 20
ESCAPE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, rows, columns):
        self.resize(rows, columns)
        self.other = self.hidden = False
        self.widest = 0

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines, self.at, self.column = {}, 1, 0
        self.widest = 0

    def control(self, private, numbers, final):
        if private:
            if numbers == "1049":
                self.other = final == "h"
            if numbers == "25":
                self.hidden = final == "l"
        elif final == "H":
            self.at, self.column = int((numbers or "1").split(";")[0]), 0
        elif final == "K":
            self.lines[self.at] = self.lines.get(self.at, "")[: self.column]
        elif final == "J":
            self.lines = {k: v for k, v in self.lines.items() if k <= self.at}

    def text(self, part):
        for c in part:
            if c == "\n":
                self.at, self.column = self.at + 1, 0
            elif c != "\r":
                old = self.lines.get(self.at, "").ljust(self.column)
                self.lines[self.at] = old[: self.column] + c + old[self.column + 1 :]
                self.column += 1
                self.widest = max(self.widest, self.column)

    def feed(self, data):
        while data:
            m = ESCAPE.search(data)
            self.text(data[: m.start()] if m else data)
            if not m:
                return
            self.control(*m.groups())
            data = data[m.end() :]

    def all(self):
        return "\n".join(self.lines.get(i, "") for i in range(1, self.rows + 1))


def flags(fd):
    t = termios.tcgetattr(fd)
    return "canon=%d echo=%d" % (bool(t[3] & termios.ICANON), bool(t[3] & termios.ECHO))


def shell(tty, argv, said, told):
    """The session's leader: starts the program in the foreground, tells of its states."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.setpgid(0, 0)
        while os.tcgetpgrp(0) != os.getpid():
            time.sleep(0.01)
        os.execv(argv[0], argv)
    os.write(said, b"pid %d\n" % pid)
    while True:
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass
        os.tcsetpgrp(0, pid)
        _, status = os.waitpid(pid, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpid())
        if not os.WIFSTOPPED(status):
            break
        os.write(said, b"stopped %s\n" % flags(0).encode())
        os.read(told, 1)
        os.tcsetpgrp(0, pid)
        os.kill(-pid, signal.SIGCONT)
    how = "exit %d" % os.WEXITSTATUS(status) if os.WIFEXITED(status) else "signal %d" % os.WTERMSIG(status)
    os.write(said, b"ended %s %s\n" % (how.encode(), flags(0).encode()))
    os.read(told, 1)
    os._exit(0)


class Terminal:
    def __init__(self, size, argv):
        rows, columns = map(int, size.split("x"))
        self.screen = Screen(rows, columns)
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.said, said = os.pipe()
        told, self.told = os.pipe()
        if os.fork() == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            shell(slave, argv, said, told)
        os.close(slave)
        self.tail, self.news = "", ""
        self.pid = int(self.hear("pid").split()[1])

    def pump(self, wait=0.05):
        ready, _, _ = select.select([self.master, self.said], [], [], wait)
        if self.said in ready:
            self.news += os.read(self.said, 4096).decode()
        if self.master in ready:
            data = self.tail + os.read(self.master, 65536).decode(errors="replace")
            cut = data.rfind("\x1b")  # a sequence may come in two parts
            if cut >= 0 and not ESCAPE.match(data, cut):
                data, self.tail = data[:cut], data[cut:]
            else:
                self.tail = ""
            self.screen.feed(data)

    def until(self, test):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if test():
                return True
            self.pump()
        return bool(test())

    def hear(self, word):
        self.until(lambda: re.search("^%s.*\n" % word, self.news, re.M))
        m = re.search("^%s.*\n" % word, self.news, re.M)
        if not m:
            return "nothing"
        self.news = self.news[: m.start()] + self.news[m.end() :]
        return m.group().strip()

    def step(self, step):
        name, _, arg = step.partition("=")
        if name == "see":
            print("see", self.until(lambda: arg in self.screen.all()))
        elif name == "gone":
            print("gone", self.until(lambda: arg not in self.screen.all()))
        elif name == "line":
            self.pump(0.3)
            print(self.screen.lines.get(int(arg), ""))
        elif name == "key":
            os.write(self.master, arg.replace("\\e", "\x1b").encode())
        elif name == "size":
            rows, columns = map(int, arg.split("x"))
            while select.select([self.master], [], [], 0.1)[0]:
                self.pump()
            self.screen.resize(rows, columns)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif name == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + arg))
        elif name == "stop":
            os.write(self.master, b"\x1a")
            print(self.hear("stopped"), "other=%d" % self.screen.other)
        elif name == "go":
            os.write(self.told, b"g")
            print("back", self.until(lambda: self.screen.other))
        elif name == "run":
            subprocess.run(arg, shell=True, check=False)
        elif name == "widest":
            print("widest", self.screen.widest)
        elif name == "end":
            how = self.hear("ended")
            self.pump(0.3)
            print(how, "other=%d hidden=%d" % (self.screen.other, self.screen.hidden))
            os.write(self.told, b"g")


def main():
    at = sys.argv.index("--")
    terminal = Terminal(sys.argv[1], sys.argv[2:at])
    try:
        for step in sys.argv[at + 1 :]:
            terminal.step(step)
    finally:
        try:
            os.kill(terminal.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


main()
