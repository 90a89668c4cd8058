# SPDX-License-Identifier: Apache-2.0
# Long or privileged cases, apart from make check.
# One by one, at first: they need every core for themselves.
alone_tests = tests/full/preload-model.test
full_tests = tests/full/configurations.test tests/full/sanitizers.test \
  tests/full/valgrind.test tests/full/real-programs.test tests/full/distcheck.test tests/full/export.test \
  tests/full/gather.test
EXTRA_DIST += $(alone_tests) $(full_tests) tests/support/full.sh

.PHONY: check-full check-units bench
check-full: all $(check_PROGRAMS)
	$(MAKE) $(AM_MAKEFLAGS) -j1 check-TESTS TESTS='$(alone_tests)'
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(full_tests)'

# The units alone.
check-units: all $(filter tests/unit/%,$(check_PROGRAMS))
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(filter tests/unit/%,$(TESTS))'

# Ratios to what the machine allows; never pass or fail.
bench: bench-preload bench-regions bench-export bench-gather
