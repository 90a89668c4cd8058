# SPDX-License-Identifier: Apache-2.0
# The collector under load and under attack, from outside alone.
check_PROGRAMS += tests/support/collector_load
tests_support_collector_load_SOURCES = tests/support/collector_load.c tests/support/load.c \
  tests/support/load.h tests/support/load_gather.c tests/support/load_kill.c \
  tests/support/load_modes.h tests/support/load_stream.c
tests_support_collector_load_LDADD = libhl-base.la

load_tests = tests/system/daemon-kill.test
TESTS += $(load_tests)
EXTRA_DIST += $(load_tests) tests/support/kills.sh
