# SPDX-License-Identifier: Apache-2.0
# Programs nobody here wrote, with and without the heap agent; part of check-full.
EXTRA_DIST += tests/support/real.sh tests/support/real-under tests/support/openmp_threads.c \
  tests/real/bash.sh tests/real/chromium.sh tests/real/ffmpeg.sh tests/real/gcc.sh \
  tests/real/git.sh tests/real/gromacs.sh tests/real/hpcc.sh tests/real/imagemagick.sh \
  tests/real/java.sh tests/real/lammps.sh tests/real/mpi4py.sh tests/real/node.sh \
  tests/real/openmp.sh tests/real/perl.sh tests/real/postgres.sh tests/real/python3.sh \
  tests/real/redis.sh tests/real/ruby.sh tests/real/sort.sh tests/real/sqlite3.sh \
  tests/real/stress-ng.sh tests/real/xz.sh

.PHONY: check-real
check-real: all
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS=tests/full/real-programs.test
