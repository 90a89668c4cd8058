# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/support/replay
tests_support_replay_SOURCES = tests/support/replay.c
tests_support_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
tests_support_replay_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_support_replay_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la \
  libheapline.la $(JSON_LIBS)
EXTRA_DIST += tests/support/compare_export.py

if HAVE_CHECK
check_PROGRAMS += tests/unit/test_model
TESTS += tests/unit/test_model
endif
tests_unit_test_model_SOURCES = tests/unit/test_model.c
tests_unit_test_model_CPPFLAGS = $(unit_cppflags)
tests_unit_test_model_CFLAGS = $(unit_cflags)
tests_unit_test_model_LDADD = libhl-model.la libhl-base.la libhl-leaf.la $(CHECK_LIBS) -lm
