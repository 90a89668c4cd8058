# SPDX-License-Identifier: Apache-2.0
# Runs on several nodes.
nodes_tests = tests/system/gather-retry.test
TESTS += $(nodes_tests)
EXTRA_DIST += $(nodes_tests)
if HAVE_CHECK
check_PROGRAMS += tests/unit/test_launch tests/unit/test_attempt
TESTS += tests/unit/test_launch tests/unit/test_attempt
endif
tests_unit_test_launch_SOURCES = tests/unit/test_launch.c tools/hosts.c tools/launch.c \
  tools/rank_hosts.c
tests_unit_test_launch_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/tools
tests_unit_test_launch_CFLAGS = $(unit_cflags)
tests_unit_test_launch_LDADD = libhl-base.la libhl-leaf.la $(CHECK_LIBS)

tests_unit_test_attempt_SOURCES = tests/unit/test_attempt.c tools/attempt.c tools/child.c \
  tools/command.c tools/hosts.c tools/launch.c tools/watch.c tools/words.c
tests_unit_test_attempt_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/tools
tests_unit_test_attempt_CFLAGS = $(unit_cflags)
tests_unit_test_attempt_LDADD = libhl-base.la libhl-leaf.la $(CHECK_LIBS)
