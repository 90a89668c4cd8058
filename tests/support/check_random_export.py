#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_random_export.py PREFIX: what export_random wrote is what it was given.

Doubles bit for bit (JSON: null where they are not finite), names with the bytes that
are not UTF-8 replaced, the writers' counts.  Says nothing when all is well.
"""
import array
import json
import math
import re
import struct
import sys

LACKING = 0x7FF800006C61636B


def clean(raw):
    """The rule of the writers: each byte that is no part of a character."""
    out, at = "", 0
    while at < len(raw):
        for n in (1, 2, 3, 4):
            try:
                out += raw[at:at + n].decode("utf-8")
                at += n
                break
            except UnicodeDecodeError:
                pass
        else:
            out += "\ufffd"
            at += 1
    return out


def bits(v):
    return struct.unpack("<Q", struct.pack("<d", v))[0]


def is_clean(raw):
    return clean(raw).encode() == raw


class Given:
    def __init__(self, prefix):
        lines = dict(l.rstrip("\n").partition(" ")[::2] for l in open(prefix + ".txt"))
        self.raw_metrics = [bytes.fromhex(x) for x in lines["metrics"].split()]
        self.raw_paths = [bytes.fromhex(x) for x in lines["paths"].split()]
        self.metrics = [clean(x) for x in self.raw_metrics]
        self.paths = [clean(x) for x in self.raw_paths]
        self.frames = [int(x) for x in lines["frames"].split()]
        self.schema = int(lines["schema"])
        self.count = {k: tuple(map(int, lines[k].split())) for k in
                      ("json", "again", "csv", "hdf5") if k in lines}
        self.cells = array.array("d")
        with open(prefix + ".raw", "rb") as f:
            self.cells.frombytes(f.read())
        self.stride = len(self.metrics) + 2 * len(self.paths)
        self.first = [0]
        for n in self.frames:
            self.first.append(self.first[-1] + n * self.stride)
        self.dirty = sum(not is_clean(x) for x in self.raw_metrics + self.raw_paths)


def want(ok, what):
    if not ok:
        print(what)
        sys.exit(1)


def same_number(got, v, where):
    if math.isfinite(v):
        want(type(got) is float and bits(got) == bits(v), f"{where}: {got!r} for {v!r}")
    else:
        want(got is None, f"{where}: {got!r} for {v!r}")


def check_frame(g, frame, at, where):
    m = len(g.metrics)
    want(len(frame["scalars"]) == m, f"{where}: scalars")
    for i, v in enumerate(frame["scalars"]):
        same_number(v, g.cells[at + i], f"{where} scalar {i}")
    for i, path in enumerate(g.split):
        node = frame["regions"]
        for s in path:
            node = node[s]
        same_number(node["inclusive"], g.cells[at + m + 2 * i], f"{where} {path}")
        same_number(node["exclusive"], g.cells[at + m + 2 * i + 1], f"{where} {path}")


def check_json(g, prefix):
    with open(prefix + ".json", "rb") as f:
        text = f.read()
    with open(prefix + ".again.json", "rb") as f:
        want(f.read() == text, "the bytes depend on how rows were handed over")
    root = json.loads(text.decode("utf-8"))
    g.split = [p.split("/") for p in g.paths]
    want(root["frame_metric_names"] == g.metrics and root["region_paths"] == g.paths, "names")
    want(root["schema_version"] == g.schema and root["openpfc_version"] == "app\ufffd", "head")
    if g.schema == 3:
        want(root["run_id"] == "id \ufffd/1" and root["metadata"] == {"k\ufffd": "v\ufffd"}, "run")
    want([r["n_frames"] for r in root["ranks"]] == g.frames[:-1], "frames of ranks")
    for r, rank in enumerate(root["ranks"]):
        want(len(rank["frames"]) == g.frames[r], f"rank {r}")
        for k, frame in enumerate(rank["frames"]):
            check_frame(g, frame, g.first[r] + k * g.stride, f"rank {r} frame {k}")
    ranked = g.cells[:g.first[-2]]
    nulls = sum(not math.isfinite(v) and bits(v) != LACKING for v in ranked)
    texts = 1 + g.dirty + (3 if g.schema == 3 else 0)
    want(g.count["json"] == g.count["again"] == (nulls, texts),
         f"counts {g.count['json']} where {(nulls, texts)} are right")


def check_shortest(prefix):
    """No number has more digits, or is longer, than Python's shortest ones."""
    digits = lambda t: len(re.sub("[^0-9]", "", t.partition("e")[0]).lstrip("0").rstrip("0"))
    with open(prefix + ".json") as f:
        for k, line in enumerate(f):
            if '"scalars"' not in line:
                continue
            for t in re.findall(r"(?<=[:\[,])-?[0-9][0-9.e-]*", line)[:200]:
                r = repr(float(t))
                want(digits(t) <= digits(r) and len(t) <= len(r), f"{t} is longer than {r}")
            if k > 300:
                break


def check_group(g, group, r, where):
    n, at, m = g.frames[r], g.first[r], len(g.metrics)
    want(group.attrs["n_frames"] == n and group.attrs["n_frames"].dtype == "<i4", where)
    if not n:
        want(not len(group), f"{where}: not empty")
        return
    import numpy
    cells = numpy.frombuffer(g.cells, dtype="<u8", count=n * g.stride, offset=8 * at)
    cells = cells.reshape(n, g.stride)
    if m:
        got = group["frame_scalars"][:].view("<u8")
        want(got.shape == (n, m) and (got == cells[:, :m]).all(), f"{where}: scalars")
    for i, path in enumerate(g.paths):
        for k, name in enumerate(("inclusive", "exclusive")):
            d = group[path][name]
            want(d.dtype == "<f8" and d.shape == (n,), f"{where} {path}: type")
            want((d[:].view("<u8") == cells[:, m + 2 * i + k]).all(), f"{where} {path} {name}")


def check_own(base):
    import numpy
    n, t = 5000, base["timeline/42@there"]
    i = numpy.arange(n, dtype="f8")
    want(list(base["timeline/42.2@there"]) == [], "an empty timeline")
    want((t["step"][:] == i).all() and (t["time_s"][:] == i / 4).all(), "timeline")
    want((t["heap_peak_bytes"][:] == 2 * i).all() and (t["rss_bytes"][:] == i * 2**33).all(),
         "timeline bytes")
    want((t["allocs"][:] == 3 * i).all() and (t["frees"][:] == i).all(), "timeline counts")
    heap = t["heap_bytes"][:]
    want(numpy.isnan(heap[1::2]).all() and (heap[::2] == i[::2]).all(), "unknown heap")
    missing = [x.decode() for x in base["missing"][:]]
    want(missing == [("rank %d" if k % 300 else "rank\ufffd %d") % k for k in range(600)], "missing")
    hosts = [x.decode() for x in base["heap/host"][:]]
    want(hosts == [("node%d" if k % 100 else "n\ufffd%d") % k for k in range(600)], "hosts")
    want((base["heap/rank"][:] == numpy.arange(600)).all(), "heap rows")


def check_h5(g, prefix):
    import h5py
    with h5py.File(prefix + ".h5", "r") as f:
        payload, base = f["openpfc/profiling"], f["heapline"]
        if g.schema == 3:
            payload, base = payload["runs/id___1"], base["runs/id___1"]
            want(payload.attrs["k_"] == "v\ufffd" and base.attrs["run_id"] == "id \ufffd/1", "run")
        for name, names in (("frame_metric_names", g.metrics), ("region_paths", g.paths)):
            got = [x.decode() for x in payload[name][:]] if names else []
            want(got == names and (names or name not in payload), name)
        want(sorted(payload["ranks"], key=int) == [str(r) for r in range(len(g.frames) - 1)], "ranks")
        for r in range(len(g.frames) - 1):
            check_group(g, payload[f"ranks/{r}"], r, f"rank {r}")
        check_group(g, base["other/77@ho\ufffdst_x"], len(g.frames) - 1, "other")
        check_own(base)
    # version, names, host of the other, 6 hosts and 2 missing; with an id: that, value
    texts = 1 + g.dirty + 1 + 6 + 2 + (2 if g.schema == 3 else 0)
    want(g.count["hdf5"] == (0, texts), f"counts {g.count['hdf5']}, not {(0, texts)}")


def check_csv(g, prefix):
    with open(prefix + ".csv", "rb") as f:
        lines = f.read().decode("utf-8").splitlines()
    want(len(lines) == 602 and lines[2].startswith("0,n\ufffd0,1000,"), "CSV")
    want(g.count["csv"] == (0, 6), f"counts {g.count['csv']} of the CSV")


def main():
    prefix = sys.argv[1]
    g = Given(prefix)
    check_json(g, prefix)
    check_shortest(prefix)
    check_csv(g, prefix)
    if "hdf5" in g.count and "--no-hdf5" not in sys.argv:
        check_h5(g, prefix)


main()
