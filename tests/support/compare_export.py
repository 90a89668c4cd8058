#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""compare_export.py GOT EXPECTED: two exports equal as data; .json or .h5 by name.

JSON: equal as parsed, numbers as doubles bit for bit.  HDF5: groups, datasets,
types, shapes, attributes and values below /openpfc, in both directions.
"""
import json
import struct
import sys


def bits(v):
    return struct.pack("<d", float(v))


def same_json(a, b, at=""):
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return f"{at}: keys {sorted(a.keys() ^ b.keys())} on one side only"
        for k in a:
            r = same_json(a[k], b[k], f"{at}/{k}")
            if r:
                return r
        return None
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{at}: {len(a)} against {len(b)} entries"
        for i, (x, y) in enumerate(zip(a, b)):
            r = same_json(x, y, f"{at}[{i}]")
            if r:
                return r
        return None
    number = (int, float)
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, number):
        return None if type(a) is type(b) and a == b else f"{at}: {a!r} against {b!r}"
    if not isinstance(b, number) or (a != b if isinstance(a, int) and isinstance(b, int)
                                     else bits(a) != bits(b)):
        return f"{at}: {a!r} against {b!r}"
    return None


def describe(h5py, f):
    out = {}

    def attrs(o, at):
        for k in o.attrs:
            t = o.attrs.get_id(k).get_type()
            v = o.attrs[k]
            out[f"{at}@{k}"] = (t.get_class(), t.get_size(), getattr(v, "shape", ()), str(v))

    def visit(name, o):
        at = "/openpfc/" + name if name else "/openpfc"
        attrs(o, at)
        if isinstance(o, h5py.Dataset):
            t = o.id.get_type()
            raw = o[()]
            value = raw.tobytes() if t.get_class() == h5py.h5t.FLOAT else str(raw.tolist())
            out[at] = (t.get_class(), t.get_size(), o.shape, value)
        else:
            out[at] = "group"

    visit("", f["openpfc"])
    f["openpfc"].visititems(visit)
    return out


def same_h5(a, b):
    import h5py
    with h5py.File(a, "r") as fa, h5py.File(b, "r") as fb:
        x, y = describe(h5py, fa), describe(h5py, fb)
    for k in sorted(x.keys() | y.keys()):
        if x.get(k) != y.get(k):
            return f"{k}: {str(x.get(k))[:120]} against {str(y.get(k))[:120]}"
    return None


def main():
    got, want = sys.argv[1:3]
    if got.endswith(".json"):
        with open(got, encoding="utf-8") as f, open(want, encoding="utf-8") as g:
            r = same_json(json.load(f), json.load(g))
    else:
        r = same_h5(got, want)
    if r:
        print(f"{got}: {r}")
    sys.exit(1 if r else 0)


main()
