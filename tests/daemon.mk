# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += fake_client
fake_client_SOURCES = tests/support/fake_client.c
fake_client_LDADD = libhl-base.la

daemon_tests = tests/system/daemon-deaths.test tests/system/daemon-hostile.test \
  tests/system/daemon-private.test tests/system/daemon-restart.test \
  tests/system/daemon-service.test tests/system/daemon-users.test
TESTS += $(daemon_tests)
EXTRA_DIST += $(daemon_tests) tests/support/collector.sh
