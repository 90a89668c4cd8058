# SPDX-License-Identifier: Apache-2.0
# The collector under load and under attack, from outside alone.
check_PROGRAMS += tests/support/collector_load
tests_support_collector_load_SOURCES = tests/support/collector_load.c tests/support/load.c \
  tests/support/load.h tests/support/load_gather.c tests/support/load_kill.c \
  tests/support/load_modes.h tests/support/load_stream.c
tests_support_collector_load_LDADD = libhl-base.la
check_PROGRAMS += tests/support/collector_hostile
tests_support_collector_hostile_SOURCES = tests/support/collector_hostile.c \
  tests/support/load.c tests/support/load.h \
  tests/support/load_gather.c
tests_support_collector_hostile_LDADD = libhl-base.la

load_tests = tests/system/daemon-kill.test tests/system/daemon-many.test \
  tests/system/daemon-fair.test tests/system/daemon-hostile2.test
TESTS += $(load_tests)
alone_tests += tests/full/daemon-soak.test
full_tests += tests/full/daemon-kill.test tests/full/daemon-many.test \
  tests/full/timeline-many.test
EXTRA_DIST += $(load_tests) tests/support/kills.sh tests/support/many.sh

# make bench-collector: ratios, never a verdict.
EXTRA_PROGRAMS += tests/bench/collector_rows
tests_bench_collector_rows_SOURCES = tests/bench/collector_rows.c
tests_bench_collector_rows_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
tests_bench_collector_rows_LDFLAGS = -no-install
tests_bench_collector_rows_LDADD = libheapline.la
CLEANFILES += tests/bench/collector_rows
EXTRA_DIST += tests/bench/collector.sh tests/bench/collector_limit.c
bench-collector: heaplined tests/support/collector_load tests/bench/collector_rows
	CC='$(CC)' bash $(top_srcdir)/tests/bench/collector.sh $(top_builddir) $(BENCH)
.PHONY: bench-collector
bench: bench-collector
