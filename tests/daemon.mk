# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += fake_client
fake_client_SOURCES = tests/support/fake_client.c
fake_client_LDADD = libhl-base.la

daemon_tests = tests/system/daemon-deaths.test tests/system/daemon-hostile.test \
  tests/system/daemon-private.test tests/system/daemon-restart.test \
  tests/system/daemon-service.test tests/system/daemon-space.test \
  tests/system/daemon-users.test
TESTS += $(daemon_tests)
EXTRA_DIST += $(daemon_tests) tests/support/collector.sh

if HAVE_CHECK
daemon_units = tests/unit/test_conf tests/unit/test_daemon_tally tests/unit/test_log \
  tests/unit/test_spool
check_PROGRAMS += $(daemon_units)
TESTS += $(daemon_units)
endif
tests_unit_test_conf_SOURCES = tests/unit/test_conf.c
tests_unit_test_conf_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_conf_CFLAGS = $(unit_cflags)
tests_unit_test_conf_LDADD = libhl-daemon.la $(CHECK_LIBS)
tests_unit_test_daemon_tally_SOURCES = tests/unit/test_daemon_tally.c
tests_unit_test_daemon_tally_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_daemon_tally_CFLAGS = $(unit_cflags)
tests_unit_test_daemon_tally_LDADD = libhl-daemon.la $(CHECK_LIBS)
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_CPPFLAGS = $(unit_cppflags)
tests_unit_test_log_CFLAGS = $(unit_cflags)
tests_unit_test_log_LDADD = libhl-base.la $(CHECK_LIBS)
tests_unit_test_spool_SOURCES = tests/unit/test_spool.c
tests_unit_test_spool_CPPFLAGS = $(unit_cppflags)
tests_unit_test_spool_CFLAGS = $(unit_cflags)
tests_unit_test_spool_LDADD = libhl-model.la $(CHECK_LIBS)

# Fuzz programs: in make check they replay; `make fuzz` (clang) runs them freely.
fuzz_programs = tests/fuzz/fuzz_conf tests/fuzz/fuzz_spool tests/fuzz/fuzz_wire
check_PROGRAMS += $(fuzz_programs)
TESTS += $(fuzz_programs)
AM_TESTS_ENVIRONMENT += FUZZ_CORPUS='$(abs_top_srcdir)/tests/fuzz/corpus'; export FUZZ_CORPUS;
fuzz_common = tests/fuzz/fuzz.h tests/fuzz/replay.c tests/fuzz/seeds.h
fuzz_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/daemon
tests_fuzz_fuzz_conf_SOURCES = tests/fuzz/fuzz_conf.c $(fuzz_common)
tests_fuzz_fuzz_conf_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_conf_LDADD = libhl-daemon.la
tests_fuzz_fuzz_spool_SOURCES = tests/fuzz/fuzz_spool.c $(fuzz_common)
tests_fuzz_fuzz_spool_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_spool_LDADD = libhl-daemon.la
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c $(fuzz_common)
tests_fuzz_fuzz_wire_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_wire_LDADD = libhl-daemon.la
EXTRA_DIST += tests/fuzz/corpus/conf-1 tests/fuzz/corpus/wire-1

FUZZ_CC = clang
FUZZ_SECONDS = 60
.PHONY: fuzz
fuzz:
	for f in conf spool wire; do \
	  $(FUZZ_CC) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined $(DEFS) -I. \
	    $(fuzz_cppflags) -o fuzz_$$f $(top_srcdir)/tests/fuzz/fuzz_$$f.c \
	    $(top_srcdir)/lib/leaf/*.c $(top_srcdir)/lib/base/buf.c \
	    $(top_srcdir)/lib/base/clock.c $(top_srcdir)/lib/base/conf.c \
	    $(top_srcdir)/lib/base/err.c $(top_srcdir)/lib/base/log.c \
	    $(top_srcdir)/lib/model/spool.c $(top_srcdir)/daemon/settings.c \
	    $(top_srcdir)/daemon/tally.c && \
	  mkdir -p fuzz-corpus/$$f && \
	  ./fuzz_$$f -max_total_time=$(FUZZ_SECONDS) fuzz-corpus/$$f || exit 1; \
	done
CLEANFILES += fuzz_conf fuzz_spool fuzz_wire
