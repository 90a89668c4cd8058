# SPDX-License-Identifier: Apache-2.0
# Unit tests (Check) and system tests (shell, TAP).  Each room has its part in
# tests/<room>.mk, so that rooms can be built side by side.
TEST_EXTENSIONS = .test
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' TMPDIR="$${TMPDIR:-/tmp}" $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_TESTS_ENVIRONMENT = top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)'; \
  export top_srcdir top_builddir;
unit_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/support
unit_cflags = $(AM_CFLAGS) $(CHECK_CFLAGS)

include tests/leaf.mk
include tests/preload.mk
include tests/guest.mk
include tests/truth.mk
include tests/libclient.mk
include tests/daemon.mk
include tests/ctl.mk
include tests/io.mk
include tests/system.mk
include tests/full.mk
include tests/load.mk
include tests/fuzz.mk
include tests/real.mk
include tests/service.mk
include tests/nodes.mk
