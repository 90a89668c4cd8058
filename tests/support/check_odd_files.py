#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_odd_files.py GATHER FOLDER [STEP]: three ranks' fallback files of the run K lie
# in FOLDER.  One of them is damaged in every way there is, a bit in each STEP-th byte
# among them; each time the gather must name the file, write the others, keep all, and
# do the same again.  Where nothing can be told (a page has no checksum) it must still
# be whole; rows have checksums: there every change is told.
import glob
import json
import os
import re
import shutil
import subprocess
import sys

gather, folder = sys.argv[1:3]
step = int(sys.argv[3]) if len(sys.argv) > 3 else 17
rows = sorted(glob.glob(folder + "/*.rows"))
pages = sorted(glob.glob(folder + "/*.page"))
sound = {f: open(f, "rb").read() for f in rows + pages}
PAGE_HEADER, SLOT = 4096, 64
failed = []
n_cases = 0


def run(*more):
    command = [gather, "--local", "-j", "K", "-o", "odd", "-f", "json,csv", *more]
    p = subprocess.run(command, capture_output=True, text=True, timeout=60)
    with open("odd.csv") as f:  # the time of a page's end is a guess
        table = re.sub(r"(?m)^((?:[^,]*,){4})[^,]*,", r"\1E,", f.read())
    with open("odd.json") as f:
        return p.returncode, p.stderr, table, json.load(f)


def remove(f):
    (os.rmdir if os.path.isdir(f) and not os.path.islink(f) else os.unlink)(f)


def restore():
    for f in glob.glob(folder + "/*"):
        if f not in sound or not os.path.isfile(f) or os.path.islink(f):
            remove(f)
    for f, was in sound.items():
        with open(f, "wb") as out:
            out.write(was)


def check(what, file, may_be_silent=False):
    global n_cases
    n_cases += 1
    there = len(os.listdir(folder))
    got = run()
    faults = []
    if got[0] == 0:
        if not may_be_silent and got[2:] != whole[2:]:
            faults.append("other numbers, and nothing is said")
    elif got[0] != 1 or os.path.basename(file) not in got[1]:
        faults.append(f"status {got[0]}: {got[1]!r}")
    else:
        if len(os.listdir(folder)) != there:
            faults.append("not all is kept")
        elif run() != got:
            faults.append("another outcome the second time")
        if got[3]["total_frames"] < 10:
            faults.append("the others' frames are not there")
        if len(got[2].splitlines()) < 4:
            faults.append("the others' records are not there")
    for f in faults:
        failed.append(f"{what}: {f}")
    restore()


def write(file, content):
    with open(file, "wb") as out:
        out.write(content)


def flip(file, byte, bit, may_be_silent):
    changed = bytearray(sound[file])
    changed[byte] ^= 1 << bit
    write(file, changed)
    check(f"{file[-4:]} byte {byte} bit {bit}", file, may_be_silent)


def replace(file, kind):
    at = file
    if kind == "copy":
        at = re.sub(r"\.([0-9a-f]{15})[0-9a-f]\.", r".\1f.", file)
        shutil.copy(file, at)
    else:
        os.unlink(file)
        {"folder": os.mkdir, "fifo": os.mkfifo,
         "link": lambda f: os.symlink("/etc/passwd", f)}[kind](file)
    check(f"{file[-4:]} {kind}", at)


whole = run("--keep")
if whole[0]:
    sys.exit(f"the sound files: {whole[1]}")
r, p = rows[1], pages[1]
for i in range(0, len(sound[r]), step):
    flip(r, i, i * 5 % 8, False)
for i in range(0, 32, 3):  # magic, version, size, image, pid
    flip(p, i, i % 8, False)
for i in range(32, 1300, 23 * step):
    flip(p, i, i % 8, True)
for word in range(3):  # allocs, frees, bytes: what no process can have
    flip(p, PAGE_HEADER + 8 * word + 7, 5, False)
flip(p, PAGE_HEADER + 100 * SLOT, 0, False)  # a slot that nobody took
for f in (r, p):
    n = len(sound[f])
    for cut in {0, 1, 15, 16, 17, n // 2, n - 1}:
        write(f, sound[f][:cut])
        check(f"{f[-4:]} cut at {cut}", f)
    write(f, bytes(n))
    check(f"{f[-4:]} of zeros", f)
    write(f, sound[f] + bytes(100))
    check(f"{f[-4:]} with a tail", f)
    for kind in ("copy", "folder", "fifo", "link"):
        replace(f, kind)
for f in failed:
    print(f)
print(f"{len(failed)} faults in {'many' if n_cases > 60 else n_cases} cases")
