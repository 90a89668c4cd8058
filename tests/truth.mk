# SPDX-License-Identifier: Apache-2.0
# The heap agent against the truth.
check_PROGRAMS += tests/support/preload_truth
tests_support_preload_truth_SOURCES = tests/support/preload_truth.c \
  tests/support/preload_truth.h
tests_support_preload_truth_CFLAGS = $(AM_CFLAGS) -fno-builtin -pthread
