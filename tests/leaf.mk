# SPDX-License-Identifier: Apache-2.0
if HAVE_CHECK
check_PROGRAMS += tests/unit/test_leaf
TESTS += tests/unit/test_leaf
endif
tests_unit_test_leaf_SOURCES = tests/unit/test_leaf.c
tests_unit_test_leaf_CPPFLAGS = $(unit_cppflags)
tests_unit_test_leaf_CFLAGS = $(unit_cflags)
tests_unit_test_leaf_LDADD = libhl-leaf.la $(CHECK_LIBS)
