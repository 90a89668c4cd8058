#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_export.py PREFIX [RANK:FRAMES ...]: PREFIX.json and PREFIX.h5 agree, have
those frames, and region times add up: the children's inclusive seconds and the
exclusive ones make the inclusive ones, to 1e-9 s."""
import json
import sys


def fail(text):
    print(text)
    sys.exit(1)


def add_up(region, at):
    children = [k for k in region if k not in ("inclusive", "exclusive")]
    if "inclusive" in region:
        total = region["exclusive"] + sum(region[k]["inclusive"] for k in children)
        if abs(total - region["inclusive"]) > 1e-9:
            fail(f"{at}: {total} against {region['inclusive']}")
    for k in children:
        add_up(region[k], f"{at}/{k}")


def leaf(region, path):
    for k in path.split("/"):
        region = region[k]
    return region


def main():
    prefix, wanted = sys.argv[1], dict(a.split(":") for a in sys.argv[2:])
    with open(prefix + ".json", encoding="utf-8") as f:
        doc = json.load(f)
    if doc["n_mpi_ranks"] != len(doc["ranks"]):
        fail("n_mpi_ranks")
    if doc["total_frames"] != sum(r["n_frames"] for r in doc["ranks"]):
        fail("total_frames")
    for i, r in enumerate(doc["ranks"]):
        if r["mpi_rank"] != i or r["n_frames"] != len(r["frames"]):
            fail(f"rank {i}")
        if str(i) in wanted and r["n_frames"] != int(wanted[str(i)]):
            fail(f"rank {i}: {r['n_frames']} frames, wanted {wanted[str(i)]}")
        for k, frame in enumerate(r["frames"]):
            if len(frame["scalars"]) != len(doc["frame_metric_names"]):
                fail("scalars")
            add_up(frame["regions"], f"rank {i} frame {k}")
    if doc["region_paths"] != sorted(doc["region_paths"]):
        fail("region_paths are not sorted")
    try:
        import h5py
    except ImportError:
        return
    try:
        f = h5py.File(prefix + ".h5", "r")
    except OSError:
        if "--no-h5" in sys.argv:
            return
        raise
    root = f["openpfc/profiling"]
    if "runs" in root:
        root = root["runs"][list(root["runs"])[0]]
    for i, r in enumerate(doc["ranks"]):
        g = root["ranks"][str(i)]
        if g.attrs["n_frames"] != r["n_frames"]:
            fail(f"rank {i}: n_frames differ")
        if not r["n_frames"]:
            if list(g):
                fail(f"rank {i}: an empty rank has content")
            continue
        if doc["frame_metric_names"] and \
                g["frame_scalars"][:].tolist() != [fr["scalars"] for fr in r["frames"]]:
            fail(f"rank {i}: scalars differ")
        for path in doc["region_paths"]:
            for what in ("inclusive", "exclusive"):
                if g[path][what][:].tolist() != \
                        [leaf(fr["regions"], path)[what] for fr in r["frames"]]:
                    fail(f"rank {i}: {path}/{what} differ")


main()
