# SPDX-License-Identifier: Apache-2.0
# The heap agent against the truth.
truth_programs = tests/support/preload_calls tests/support/preload_races \
  tests/support/preload_truth
check_PROGRAMS += $(truth_programs)
truth_cflags = $(AM_CFLAGS) -fno-builtin -pthread
tests_support_preload_calls_SOURCES = tests/support/preload_calls.c tests/support/preload_truth.h
tests_support_preload_calls_CFLAGS = $(truth_cflags)
tests_support_preload_races_SOURCES = tests/support/preload_races.c tests/support/preload_truth.h
tests_support_preload_races_CFLAGS = $(truth_cflags)
tests_support_preload_truth_SOURCES = tests/support/preload_truth.c tests/support/preload_truth.h
tests_support_preload_truth_CFLAGS = $(truth_cflags)

truth_tests = tests/system/preload-calls.test tests/system/preload-races.test \
  tests/system/preload-truth.test
TESTS += $(truth_tests)
EXTRA_DIST += $(truth_tests) tests/support/truth.sh
