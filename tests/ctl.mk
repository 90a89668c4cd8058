# SPDX-License-Identifier: Apache-2.0
# heaplinectl, both sides.
ctl_tests = tests/system/ctl.test
TESTS += $(ctl_tests)
EXTRA_DIST += $(ctl_tests) tests/support/ctl_peer.py tests/support/ctl_screen.py

if HAVE_CHECK
check_PROGRAMS += tests/unit/test_ctl
TESTS += tests/unit/test_ctl
endif
tests_unit_test_ctl_SOURCES = tests/unit/test_ctl.c
tests_unit_test_ctl_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon -I$(top_srcdir)/tools
tests_unit_test_ctl_CFLAGS = $(unit_cflags)
tests_unit_test_ctl_LDADD = libhl-ctl.la libhl-daemon.la $(CHECK_LIBS)
