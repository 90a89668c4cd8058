# SPDX-License-Identifier: Apache-2.0
# Fuzz programs.  In make check they replay: their seeds, some changes to each, and the
# files of tests/fuzz/corpus.  `make fuzz` runs them freely (tests/fuzz/README).
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
EXTRA_DIST += tests/fuzz/corpus/conf-1 tests/fuzz/corpus/wire-1 tests/fuzz/README \
  tests/fuzz/afl.c tests/fuzz/run.sh

# make fuzz FUZZ_TARGET='wire spool' FUZZ_SECONDS=600; FUZZ_ENGINE=afl
FUZZ_ENGINE = libfuzzer
FUZZ_SECONDS = 60
FUZZ_TARGET = conf spool wire
.PHONY: fuzz
fuzz: $(fuzz_programs)
	FUZZ_ENGINE='$(FUZZ_ENGINE)' FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_TARGET='$(FUZZ_TARGET)' \
	  FUZZ_CC='$(FUZZ_CC)' FUZZ_CPPFLAGS='$(DEFS) -I. $(fuzz_cppflags)' \
	  $(SHELL) $(top_srcdir)/tests/fuzz/run.sh $(top_srcdir)
clean-local: clean-fuzz
clean-fuzz:
	rm -rf fuzz-run
.PHONY: clean-fuzz
