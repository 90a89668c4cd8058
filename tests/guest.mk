# SPDX-License-Identifier: Apache-2.0
# The heap agent as a guest: the life and death of processes that are not ours.
check_PROGRAMS += tests/support/preload_guest tests/support/preload_guest_own
tests_support_preload_guest_SOURCES = tests/support/preload_guest.c \
  tests/support/preload_guest.h tests/support/preload_guest_cage.c \
  tests/support/preload_guest_process.c
tests_support_preload_guest_CFLAGS = $(AM_CFLAGS) -fno-builtin -pthread
tests_support_preload_guest_LDADD = -lm
tests_support_preload_guest_own_SOURCES = tests/support/preload_guest_own.c
tests_support_preload_guest_own_CFLAGS = $(AM_CFLAGS) -fno-builtin
tests_support_preload_guest_own_LDFLAGS = -rdynamic

guest_tests = tests/system/preload-allocators.test tests/system/preload-cages.test \
  tests/system/preload-ends.test tests/system/preload-filters.test \
  tests/system/preload-guest.test \
  tests/system/preload-names.test tests/system/preload-outside.test \
  tests/system/preload-streams.test
TESTS += $(guest_tests)
EXTRA_DIST += $(guest_tests) tests/support/guest.sh
