#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python3: numpy in threads, forked children, a child by exec, a pool of workers.
# Needs: /usr/bin/python3
# Package: python3, python3-numpy
# Allocs: 4000
/usr/bin/python3 -c 'import numpy' 2>/dev/null || { echo "numpy is missing (python3-numpy)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
cat >work.py <<'EOS'
import multiprocessing, os, subprocess, sys, threading
import numpy as np

def piece(k, out):
    a = np.arange(60000, dtype=np.float64) * k
    words = [str(x) for x in range(k * 4000)]
    out[k] = (float(np.sort(a[::-1]).sum()), sum(map(len, words)))

def square(x):
    return int((np.ones(1000) * x).sum())

if __name__ == "__main__":
    out = {}
    ts = [threading.Thread(target=piece, args=(k, out)) for k in range(1, 9)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    print(sorted(out.items()))
    a = np.arange(90000, dtype=np.float64).reshape(300, 300) % 7
    print(int((a @ a).sum()))
    sys.stdout.flush()
    for i in range(4):
        pid = os.fork()
        if pid == 0:
            piece(i + 1, out)
            os._exit(10 + i)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(subprocess.run([sys.executable, "-c", "print(len([0] * 99))"], capture_output=True).stdout)
    pool = multiprocessing.Pool(3)
    print(sum(pool.map(square, range(200))))
    pool.close()
    pool.join()
    sys.exit(7)
EOS
"$UNDER" /usr/bin/python3 work.py
