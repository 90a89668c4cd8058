# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/support/replay
tests_support_replay_SOURCES = tests/support/replay.c
tests_support_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
tests_support_replay_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_support_replay_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la \
  libheapline.la $(JSON_LIBS)
EXTRA_DIST += tests/support/compare_export.py tests/support/check_random_export.py \
  tests/support/check_made.py tests/support/peak.py

check_PROGRAMS += tests/support/export_random
tests_support_export_random_SOURCES = tests/support/export_random.c
tests_support_export_random_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la \
  $(JSON_LIBS)
TESTS += tests/system/writers.test
EXTRA_DIST += tests/system/writers.test tests/full/export.test

if HAVE_CHECK
check_PROGRAMS += tests/unit/test_model
TESTS += tests/unit/test_model
endif
tests_unit_test_model_SOURCES = tests/unit/test_model.c
tests_unit_test_model_CPPFLAGS = $(unit_cppflags)
tests_unit_test_model_CFLAGS = $(unit_cflags)
tests_unit_test_model_LDADD = libhl-model.la libhl-base.la libhl-leaf.la $(CHECK_LIBS) -lm

if HAVE_CHECK
if HAVE_HDF5
check_PROGRAMS += tests/unit/test_h5_limit
TESTS += tests/unit/test_h5_limit
endif
endif
tests_unit_test_h5_limit_SOURCES = tests/unit/test_h5_limit.c
tests_unit_test_h5_limit_CPPFLAGS = $(unit_cppflags)
tests_unit_test_h5_limit_CFLAGS = $(unit_cflags)
tests_unit_test_h5_limit_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la \
  $(CHECK_LIBS) $(HDF5_LIBS) $(JSON_LIBS) -lm

# Ratios of the writers to bare loops; never pass or fail.
if HAVE_HDF5
EXTRA_PROGRAMS += tests/bench/export_write
endif
tests_bench_export_write_SOURCES = tests/bench/export_write.c
tests_bench_export_write_CFLAGS = $(AM_CFLAGS) $(HDF5_CFLAGS) $(JSON_CFLAGS)
tests_bench_export_write_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la \
  $(HDF5_LIBS) $(JSON_LIBS)
EXTRA_DIST += tests/bench/export.sh
.PHONY: bench-export
bench-export: tests/bench/export_write$(EXEEXT)
	$(top_srcdir)/tests/bench/export.sh .

# The gather on runs of any size.
check_PROGRAMS += tests/support/make_rows
tests_support_make_rows_SOURCES = tests/support/make_rows.c
tests_support_make_rows_LDADD = libhl-base.la libhl-leaf.la

if HAVE_CHECK
check_PROGRAMS += tests/unit/test_gather
TESTS += tests/unit/test_gather
endif
tests_unit_test_gather_SOURCES = tests/unit/test_gather.c daemon/gather_index.c \
  daemon/plan.c daemon/outlets.c daemon/images.c daemon/records.c daemon/source.c \
  daemon/source_files.c
tests_unit_test_gather_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_gather_CFLAGS = $(unit_cflags)
tests_unit_test_gather_LDADD = libhl-model.la libhl-base.la libhl-leaf.la $(CHECK_LIBS) \
  -lpthread

if HAVE_MPI
EXTRA_PROGRAMS += tests/bench/forward
bench_forward = tests/bench/forward$(EXEEXT)
endif
tests_bench_forward_SOURCES = tests/bench/forward.c daemon/comm_mpi.c
tests_bench_forward_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/daemon
tests_bench_forward_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_bench_forward_LDADD = libhl-model.la libhl-base.la libhl-leaf.la $(MPI_LIBS)
EXTRA_DIST += tests/bench/gather.sh
.PHONY: bench-gather
bench-gather: all tests/support/make_rows$(EXEEXT) $(bench_forward)
	$(top_srcdir)/tests/bench/gather.sh .

check_PROGRAMS += tests/support/random_run
tests_support_random_run_SOURCES = tests/support/random_run.c
tests_support_random_run_LDADD = libhl-base.la libhl-leaf.la
TESTS += tests/system/gather-random.test
EXTRA_DIST += tests/system/gather-random.test tests/support/check_random_run.py

check_LTLIBRARIES += disk_faults.la
disk_faults_la_SOURCES = tests/support/disk_faults.c
disk_faults_la_LDFLAGS = -module -avoid-version -rpath /nowhere
TESTS += tests/system/gather-faults.test
EXTRA_DIST += tests/system/gather-faults.test

TESTS += tests/system/interval.test
EXTRA_DIST += tests/system/interval.test

TESTS += tests/system/gather-damage.test tests/system/timeline-damage.test
EXTRA_DIST += tests/system/gather-damage.test tests/system/timeline-damage.test

# Files of a run that are damaged, or none.
TESTS += tests/system/gather-odd-files.test
EXTRA_DIST += tests/system/gather-odd-files.test tests/support/check_odd_files.py
