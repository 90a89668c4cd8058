# SPDX-License-Identifier: Apache-2.0
# The collector as a service of the system.
service_tests = tests/system/daemon-store.test
TESTS += $(service_tests)
full_tests += tests/full/systemd.test
EXTRA_DIST += $(service_tests) tests/full/systemd.test tests/support/fake_manager.py \
  tests/support/stream_frames.c tests/support/systemd_inside.sh

if HAVE_CHECK
check_PROGRAMS += tests/unit/test_service
TESTS += tests/unit/test_service
endif
tests_unit_test_service_SOURCES = tests/unit/test_service.c
tests_unit_test_service_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_service_CFLAGS = $(unit_cflags)
tests_unit_test_service_LDADD = libhl-daemon.la $(CHECK_LIBS)
