# SPDX-License-Identifier: Apache-2.0
# Runs on several nodes.
if HAVE_CHECK
check_PROGRAMS += tests/unit/test_launch
TESTS += tests/unit/test_launch
endif
tests_unit_test_launch_SOURCES = tests/unit/test_launch.c tools/hosts.c tools/launch.c
tests_unit_test_launch_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/tools
tests_unit_test_launch_CFLAGS = $(unit_cflags)
tests_unit_test_launch_LDADD = libhl-base.la libhl-leaf.la $(CHECK_LIBS)
