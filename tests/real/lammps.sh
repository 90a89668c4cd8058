#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAMMPS: a melting crystal on four ranks.
# Needs: lmp mpirun
# Package: lammps, openmpi-bin
# Allocs: 5000
# Ranks: 4
cat >in.melt <<'EOS'
units lj
atom_style atomic
lattice fcc 0.85
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 2.5 4711
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0
fix 1 all nve
thermo 25
run 100
EOS
"$UNDER" -n 4 lmp -in in.melt -log none -nocite >out
rc=$?
sed -n '/^ *Step/,/^Loop/{/^Loop/!p}' out
rm out
exit $rc
