#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_random_run.py WANT PREFIX: the outputs of a run of random_run, bit for bit,
against a model of the rules: metrics in the first rank's order, then what others
add; regions with all their parents, by bytes; a metric that a rank lacks is null and
NaN, a region 0.0; rows by increasing rank.  Says nothing when all is well."""
import json
import math
import os
import struct
import sys


def number(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def bits_of(v):
    return struct.unpack("<Q", struct.pack("<d", v))[0]


def want(ok, what):
    if not ok:
        sys.exit("check_random_run: " + what)


def read(name):
    ranks, rows = {}, None
    for line in open(name, encoding="ascii"):
        if line.startswith("rank "):
            rows = ranks[int(line.split()[1])] = []
            continue
        names, _, cells = line.partition("=")
        names = [(n[0], bytes.fromhex(n[1:]).decode()) for n in names.split()]
        cells = iter(int(c, 16) for c in cells.split())
        row = {"m": {}, "p": {}}
        for kind, n in names:
            row[kind][n] = next(cells) if kind == "m" else (next(cells), next(cells))
        rows.append(row)
    return [ranks[r] for r in sorted(ranks)]


def unite(ranks):
    metrics, paths = [], set()
    for rows in ranks:
        for row in rows:
            metrics += [m for m in row["m"] if m not in metrics]
            for p in row["p"]:
                parts = p.split("/")
                paths.update("/".join(parts[:k + 1]) for k in range(len(parts)))
    return metrics, sorted(paths, key=str.encode)


def same(got, bits, where):
    if math.isfinite(number(bits)):
        want(isinstance(got, float) and bits_of(got) == bits, where)
    else:
        want(got is None, where)


def check_frame(frame, row, metrics, paths, where):
    for got, m in zip(frame["scalars"], metrics):
        if m in row["m"]:
            same(got, row["m"][m], where + " " + m)
        else:
            want(got is None, where + " lacks " + m)
    for p in paths:
        node = frame["regions"]
        for s in p.split("/"):
            node = node[s]
        both = row["p"].get(p, (0, 0))
        same(node["inclusive"], both[0], where + " " + p)
        same(node["exclusive"], both[1], where + " " + p)


def check_json(name, ranks, metrics, paths):
    root = json.load(open(name, encoding="utf-8"))
    want(root["frame_metric_names"] == metrics, "metrics")
    want(root["region_paths"] == paths, "paths")
    want([r["mpi_rank"] for r in root["ranks"]] == list(range(len(ranks))), "ranks")
    for r, (rank, rows) in enumerate(zip(root["ranks"], ranks)):
        want(len(rank["frames"]) == rank["n_frames"] == len(rows), "frames of rank %d" % r)
        for k, (frame, row) in enumerate(zip(rank["frames"], rows)):
            check_frame(frame, row, metrics, paths, "rank %d frame %d" % (r, k))


def same_cells(got, bits, where):
    for g, b in zip(got, bits, strict=True):
        want(bits_of(float(g)) == b if b is not None else math.isnan(g), where)


def check_h5(name, ranks, metrics, paths):
    import h5py
    with h5py.File(name, "r") as f:
        top = f["openpfc/profiling"]
        for r, rows in enumerate(ranks):
            group = top["ranks/%d" % r]
            want(group.attrs["n_frames"] == len(rows), "HDF5: frames of rank %d" % r)
            if not rows:
                continue
            for k, row in enumerate(rows if metrics else []):
                same_cells(group["frame_scalars"][k], [row["m"].get(m) for m in metrics],
                           "HDF5: rank %d frame %d" % (r, k))
            for p in paths:
                for i, what in enumerate(("inclusive", "exclusive")):
                    same_cells(group[p + "/" + what][...],
                               [row["p"].get(p, (0, 0))[i] for row in rows],
                               "HDF5: rank %d %s" % (r, p))


def main():
    ranks = read(sys.argv[1])
    metrics, paths = unite(ranks)
    check_json(sys.argv[2] + ".json", ranks, metrics, paths)
    if os.path.exists(sys.argv[2] + ".h5"):
        check_h5(sys.argv[2] + ".h5", ranks, metrics, paths)


main()
