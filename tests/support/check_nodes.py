#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_nodes.py PREFIX METRICS REGIONS FRAMES...: PREFIX.json and PREFIX.h5 hold what
nodes_app recorded, number by number: rank 0 has the first of FRAMES, and so on."""
import json
import sys

import h5py
import numpy

prefix, n_metrics, n_regions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
frames = [int(n) for n in sys.argv[4:]]


def fail(text):
    print(text)
    sys.exit(1)


def base(rank):
    return rank * 1000000.0 + numpy.arange(frames[rank])


def check_h5(root):
    if sorted(root["ranks"], key=int) != [str(r) for r in range(len(frames))]:
        fail(f"ranks {sorted(root['ranks'])}")
    for r, n in enumerate(frames):
        g = root["ranks"][str(r)]
        if g.attrs["n_frames"] != n:
            fail(f"rank {r}: {g.attrs['n_frames']} frames, wanted {n}")
        if not n:
            continue
        want = base(r)[:, None] + numpy.arange(n_metrics) / 8.0
        if n_metrics and not numpy.array_equal(g["frame_scalars"][()], want):
            fail(f"rank {r}: metrics")
        for k in range(n_regions):
            if not numpy.array_equal(g[f"r{k:03d}/inclusive"][()], base(r) + k / 4.0) or \
                    not numpy.array_equal(g[f"r{k:03d}/exclusive"][()], base(r) / 2 + k / 16.0):
                fail(f"rank {r}: region {k}")


def check_json(doc):
    if [x["n_frames"] for x in doc["ranks"]] != frames or doc["n_mpi_ranks"] != len(frames):
        fail(f"JSON: frames {[x['n_frames'] for x in doc['ranks']]}")
    for r, rank in enumerate(doc["ranks"]):
        for i, frame in enumerate(rank["frames"]):
            b = r * 1000000.0 + i
            if frame["scalars"] != [b + k / 8.0 for k in range(n_metrics)]:
                fail(f"JSON: rank {r} frame {i}: metrics")
            for k in range(n_regions):
                if frame["regions"][f"r{k:03d}"] != \
                        {"inclusive": b + k / 4.0, "exclusive": b / 2 + k / 16.0}:
                    fail(f"JSON: rank {r} frame {i}: region {k}")


with h5py.File(prefix + ".h5", "r") as f:
    p = f["openpfc/profiling"]
    check_h5(p["runs"][list(p["runs"])[0]] if "runs" in p else p)
with open(prefix + ".json", encoding="utf-8") as f:
    check_json(json.load(f))
