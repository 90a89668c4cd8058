# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += fake_client
fake_client_SOURCES = tests/support/fake_client.c
fake_client_LDADD = libhl-base.la

check_LTLIBRARIES += hang_disk.la
hang_disk_la_SOURCES = tests/support/hang_disk.c
hang_disk_la_LDFLAGS = -module -avoid-version -rpath /nowhere

daemon_tests = tests/system/daemon-hung.test tests/system/daemon-deaths.test tests/system/daemon-hostile.test \
  tests/system/daemon-private.test tests/system/daemon-restart.test \
  tests/system/daemon-service.test tests/system/daemon-space.test \
  tests/system/daemon-users.test tests/system/private-space.test \
  tests/system/timeline.test
TESTS += $(daemon_tests)
EXTRA_DIST += $(daemon_tests) tests/support/collector.sh

if HAVE_CHECK
daemon_units = tests/unit/test_session tests/unit/test_conf tests/unit/test_daemon_tally tests/unit/test_log \
  tests/unit/test_spool tests/unit/test_timeline
check_PROGRAMS += $(daemon_units)
TESTS += $(daemon_units)
endif
tests_unit_test_conf_SOURCES = tests/unit/test_conf.c
tests_unit_test_conf_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_conf_CFLAGS = $(unit_cflags)
tests_unit_test_conf_LDADD = libhl-daemon.la $(CHECK_LIBS)
tests_unit_test_session_SOURCES = tests/unit/test_session.c
tests_unit_test_session_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_session_CFLAGS = $(unit_cflags)
tests_unit_test_session_LDADD = libhl-daemon.la $(CHECK_LIBS)
tests_unit_test_daemon_tally_SOURCES = tests/unit/test_daemon_tally.c
tests_unit_test_daemon_tally_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/daemon
tests_unit_test_daemon_tally_CFLAGS = $(unit_cflags)
tests_unit_test_daemon_tally_LDADD = libhl-daemon.la $(CHECK_LIBS)
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_CPPFLAGS = $(unit_cppflags)
tests_unit_test_log_CFLAGS = $(unit_cflags)
tests_unit_test_log_LDADD = libhl-base.la $(CHECK_LIBS)
tests_unit_test_spool_SOURCES = tests/unit/test_spool.c
tests_unit_test_spool_CPPFLAGS = $(unit_cppflags)
tests_unit_test_spool_CFLAGS = $(unit_cflags)
tests_unit_test_spool_LDADD = libhl-model.la $(CHECK_LIBS)
tests_unit_test_timeline_SOURCES = tests/unit/test_timeline.c
tests_unit_test_timeline_CPPFLAGS = -I$(top_srcdir)/daemon $(unit_cppflags)
tests_unit_test_timeline_CFLAGS = $(unit_cflags)
tests_unit_test_timeline_LDADD = libhl-daemon.la $(CHECK_LIBS)
