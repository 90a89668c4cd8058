#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GROMACS: a box of water is filled, prepared, and simulated on four ranks.
# Needs: gmx gmx_mpi mpirun
# Package: gromacs, openmpi-bin
# Allocs: 20000
# Ranks: 4
export GMX_MAXBACKUP=-1 OMP_NUM_THREADS=1 GMX_SUPPRESS_DUMP=1
g=(gmx -quiet -nobackup)
cat >top.top <<'EOS'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
EOS
printf '%s\n' 'integrator = md' 'dt = 0.001' 'nsteps = 40' 'nstenergy = 20' 'cutoff-scheme = Verlet' \
    'coulombtype = reaction-field' 'rcoulomb = 0.7' 'rvdw = 0.7' 'gen-vel = yes' 'gen-seed = 5' >run.mdp
"$UNDER" "${g[@]}" solvate -cs spc216.gro -box 2 2 2 -o box.gro -p top.top >log 2>&1
echo "solvate: $?"
tail -n 1 top.top
"$UNDER" "${g[@]}" grompp -f run.mdp -c box.gro -p top.top -o run.tpr -maxwarn 5 >>log 2>&1
echo "grompp: $?"
# The simulation wants an instruction that some virtual machines hide.
if grep -qw rdtscp /proc/cpuinfo; then
    "$UNDER" -n 4 gmx_mpi -quiet -nobackup mdrun -s run.tpr -reprod -noconfout -ntomp 1 -nb cpu -dlb no \
        -notunepme >>log 2>&1
    rc=$?
    echo Potential | gmx -quiet -nobackup energy -f ener.edr -o e.xvg >>log 2>&1
    grep -v '^[#@]' e.xvg
else
    echo "no rdtscp: no simulation"
    "$UNDER" -n 4 gmx_mpi -quiet -nobackup check -s1 run.tpr -s2 run.tpr >>log 2>&1
    rc=$?
fi
cksum <box.gro
find . -mindepth 1 -delete
exit $rc
