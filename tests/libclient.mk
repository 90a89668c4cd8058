# SPDX-License-Identifier: Apache-2.0
# The client library's sources once more, with seams in place of system calls.
check_LTLIBRARIES += libclient-seams.la
libclient_seams_la_SOURCES = $(libclient_sources) tests/unit/test_client.c \
  tests/unit/test_client.h tests/unit/test_client_fake.c
libclient_seams_la_CPPFLAGS = $(unit_cppflags) -DHL_CLIENT_SEAMS -I$(top_srcdir)/libclient
libclient_seams_la_CFLAGS = $(unit_cflags) -pthread
libclient_seams_la_LIBADD = libhl-leaf.la

client_test_cppflags = $(libclient_seams_la_CPPFLAGS)
client_test_cflags = $(unit_cflags) -pthread
client_test_ldadd = libclient-seams.la libhl-leaf.la $(CHECK_LIBS) -lm

if HAVE_CHECK
client_tests = tests/unit/test_client_frames tests/unit/test_client_sender \
  tests/unit/test_client_threads
check_PROGRAMS += $(client_tests)
TESTS += $(client_tests)
endif
tests_unit_test_client_frames_SOURCES = tests/unit/test_client_frames.c
tests_unit_test_client_frames_CPPFLAGS = $(client_test_cppflags)
tests_unit_test_client_frames_CFLAGS = $(client_test_cflags)
tests_unit_test_client_frames_LDADD = $(client_test_ldadd)
tests_unit_test_client_sender_SOURCES = tests/unit/test_client_sender.c
tests_unit_test_client_sender_CPPFLAGS = $(client_test_cppflags)
tests_unit_test_client_sender_CFLAGS = $(client_test_cflags)
tests_unit_test_client_sender_LDADD = $(client_test_ldadd)
tests_unit_test_client_threads_SOURCES = tests/unit/test_client_threads.c
tests_unit_test_client_threads_CPPFLAGS = $(client_test_cppflags)
tests_unit_test_client_threads_CFLAGS = $(client_test_cflags)
tests_unit_test_client_threads_LDADD = $(client_test_ldadd)

# make bench-regions: ratios, never a verdict.
EXTRA_PROGRAMS = tests/bench/regions
tests_bench_regions_SOURCES = tests/bench/regions.c
tests_bench_regions_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
tests_bench_regions_LDADD = libheapline.la
EXTRA_DIST += tests/bench/regions.sh
CLEANFILES += tests/bench/regions
bench-regions: tests/bench/regions
	$(LIBTOOL) --mode=execute -dlopen libheapline.la \
	  $(SHELL) $(srcdir)/tests/bench/regions.sh tests/bench/regions
.PHONY: bench-regions

check_PROGRAMS += tests/support/deaf_frames
tests_support_deaf_frames_SOURCES = tests/support/deaf_frames.c
tests_support_deaf_frames_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
tests_support_deaf_frames_LDADD = libheapline.la

client_scripts = tests/system/libclient-symbols.test tests/system/libclient-use.test \
  tests/system/fallback-full.test
TESTS += $(client_scripts)
EXTRA_DIST += $(client_scripts)
