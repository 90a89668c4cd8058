# SPDX-License-Identifier: Apache-2.0
# The whole path, as users walk it.
check_PROGRAMS += victim
victim_SOURCES = tests/system/victim.c
victim_CPPFLAGS = -I$(top_srcdir)/libclient
victim_CFLAGS = $(AM_CFLAGS) -fno-builtin
victim_LDFLAGS = -no-install
victim_LDADD = libheapline.la

check_PROGRAMS += odd_values
odd_values_SOURCES = tests/support/odd_values.c
odd_values_CPPFLAGS = -I$(top_srcdir)/libclient
odd_values_CFLAGS = $(AM_CFLAGS)
odd_values_LDFLAGS = -no-install
odd_values_LDADD = libheapline.la

system_tests = tests/system/man.test tests/system/house.test tests/system/streams.test \
  tests/system/bad-input.test tests/system/conformance.test tests/system/deaths.test \
  tests/system/ranks.test tests/system/python.test tests/system/odd-values.test tests/system/run-inherits.test \
  tests/system/private-folder.test tests/system/surroundings.test tests/system/gather-stopped.test
TESTS += $(system_tests)
EXTRA_DIST += $(system_tests) tests/support/tap.sh tests/support/check_export.py
