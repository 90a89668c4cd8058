#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mpi4py: objects and numbers are passed between four ranks; one status is not 0.
# Needs: /usr/bin/python3 mpirun
# Package: python3-mpi4py, openmpi-bin
# Allocs: 5000
# Ranks: 4
/usr/bin/python3 -c 'import mpi4py' 2>/dev/null || { echo "mpi4py is missing (python3-mpi4py)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
cat >ranks.py <<'EOS'
from mpi4py import MPI

c = MPI.COMM_WORLD
mine = {"rank": c.rank, "text": "t" * (100000 + c.rank), "list": list(range(c.rank * 1000))}
every = c.allgather(mine)
total = c.allreduce(sum(len(x["list"]) for x in every))
ring = c.sendrecv([c.rank] * 5000, dest=(c.rank + 1) % c.size, source=(c.rank - 1) % c.size)
if c.rank == 0:
    print([len(x["text"]) for x in every], total, set(ring), flush=True)
EOS
"$UNDER" -n 4 /usr/bin/python3 ranks.py
