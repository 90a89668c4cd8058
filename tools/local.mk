# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += heapline-run
heapline_run_SOURCES = tools/run.c tools/run_options.c tools/run_options.h tools/inner.c \
  tools/inner.h tools/session.c tools/session.h tools/launch.c tools/launch.h tools/hosts.c \
  tools/child.c tools/child.h tools/collect.c tools/collect.h
heapline_run_LDADD = libhl-model.la libhl-base.la libhl-leaf.la
