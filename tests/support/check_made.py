#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs of what make_rows made, by value.

  check_made.py PREFIX RANKS FRAMES PATHS [EVERY]

HDF5: all cells, of more than 100 ranks those of one in 20.  JSON, whose frames are lines: one frame of EVERY (default 1), the
number of all of them, and that what is around them is JSON.  CSV: all rows.  A
file that is not there is left out.
"""
import json
import os
import sys


def cell(rank, frame, i):
    return ((rank * 7919 + frame * 104729 + i * 1299709) % 1000000007) / 1e9


def fail(text):
    sys.exit("check_made: " + text)


def check_frame(line, rank, frame, paths):
    f = json.loads(line)
    if f["scalars"] != [frame, rank]:
        fail("rank %d frame %d: scalars %r" % (rank, frame, f["scalars"]))
    want = {"r%06d" % p: {"inclusive": cell(rank, frame, 2 * p),
                          "exclusive": cell(rank, frame, 2 * p + 1)}
            for p in range(paths)}
    if f["regions"] != want:
        fail("rank %d frame %d: regions differ" % (rank, frame))


def check_json(name, ranks, frames, paths, every):
    frame, rest, seen = 0, [], 0
    with open(name, encoding="utf-8") as f:
        for line in f:
            if '"scalars"' not in line:
                rest.append(line)
                frame = 0
                continue
            rank = seen // frames
            if frame % every == 0 or frame == frames - 1:
                check_frame(line.strip().rstrip(","), rank, frame, paths)
            frame += 1
            seen += 1
    head = json.loads("".join(rest))
    if seen != ranks * frames or head["total_frames"] != seen:
        fail("JSON: %d frames of %d" % (seen, ranks * frames))
    if [r["mpi_rank"] for r in head["ranks"]] != list(range(ranks)):
        fail("JSON: ranks are not in order")


def check_h5(name, ranks, frames, paths):
    import h5py
    import numpy
    n = numpy.arange(frames, dtype=numpy.int64)
    with h5py.File(name, "r") as f:
        top = f["openpfc/profiling"]
        if len(top["ranks"]) != ranks:
            fail("HDF5: %d ranks of %d" % (len(top["ranks"]), ranks))
        for rank in range(0, ranks, 1 if ranks <= 100 else 20):
            check_h5_rank(top["ranks/%d" % rank], rank, n, paths, numpy)


def check_h5_rank(group, rank, n, paths, numpy):
    for p in range(paths):
        for i, what in enumerate(("inclusive", "exclusive")):
            got = group["r%06d/%s" % (p, what)]
            c = 2 * p + i
            want = ((rank * 7919 + n * 104729 + c * 1299709) % 1000000007) / 1e9
            if got.shape != n.shape or not numpy.array_equal(got[...], want):
                fail("HDF5: rank %d path %d %s" % (rank, p, what))


def check_csv(name, ranks):
    with open(name, encoding="ascii") as f:
        rows = [line.split(",") for line in f][2:]
    want = [(str(r), str(1000 + r), str(r + 3)) for r in range(ranks)]
    if [(r[0], r[2], r[5]) for r in rows] != want:
        fail("CSV: rows differ")


def main():
    prefix = sys.argv[1]
    ranks, frames, paths = (int(a) for a in sys.argv[2:5])
    every = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    if os.path.exists(prefix + ".json"):
        check_json(prefix + ".json", ranks, frames, paths, every)
    if os.path.exists(prefix + ".h5"):
        check_h5(prefix + ".h5", ranks, frames, paths)
    if os.path.exists(prefix + ".csv"):
        check_csv(prefix + ".csv", ranks)


main()
