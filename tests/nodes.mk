# SPDX-License-Identifier: Apache-2.0
# Runs on several nodes.
TESTS += tests/system/gather-retry.test
EXTRA_DIST += tests/system/gather-retry.test
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

# On nodes that are made of namespaces; part of check-full.
check_PROGRAMS += nodes_app
nodes_app_SOURCES = tests/support/nodes_app.c
nodes_app_CPPFLAGS = -I$(top_srcdir)/libclient
nodes_app_CFLAGS = $(AM_CFLAGS)
nodes_app_LDFLAGS = -no-install
nodes_app_LDADD = libheapline.la
nodes_tests = tests/full/nodes-conformance.test tests/full/nodes-collectors.test \
  tests/full/nodes-odd.test tests/full/nodes-faults.test tests/full/nodes-kills.test \
  tests/full/nodes-launchers.test tests/full/nodes-slurm.test
full_tests += $(nodes_tests)
EXTRA_DIST += $(nodes_tests) tests/support/cluster.sh tests/support/nodes.sh \
  tests/support/slurm.sh tests/support/wire_replay.py tests/support/check_nodes.py

.PHONY: check-nodes
check-nodes: all $(check_PROGRAMS)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(nodes_tests)'
