# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/support/preload_fuzz tests/support/preload_peer \
  tests/support/preload_prog
# The subjects see the libraries' public header alone; no call is optimised away.
tests_support_preload_fuzz_SOURCES = tests/support/preload_fuzz.c
tests_support_preload_fuzz_CFLAGS = $(AM_CFLAGS) -fno-builtin -pthread
tests_support_preload_prog_SOURCES = tests/support/preload_prog.c
tests_support_preload_prog_CFLAGS = $(AM_CFLAGS) -fno-builtin -pthread
tests_support_preload_peer_SOURCES = tests/support/preload_peer.c
tests_support_preload_peer_LDADD = libhl-leaf.la

preload_tests = \
  tests/system/preload-collector.test tests/system/preload-conformance.test \
  tests/system/preload-exact.test tests/system/preload-life.test \
  tests/system/preload-symbols.test
TESTS += $(preload_tests)
EXTRA_DIST += $(preload_tests) tests/conformance/preload

EXTRA_DIST += tests/bench/preload.sh tests/bench/preload_load.c tests/bench/preload_null.c \
  tests/bench/preload_work.c
bench-preload: libheapline-preload.la
	CC='$(CC)' $(SHELL) $(top_srcdir)/tests/bench/preload.sh $(top_builddir)
.PHONY: bench-preload
