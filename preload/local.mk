# SPDX-License-Identifier: Apache-2.0
pkglib_LTLIBRARIES += libheapline-preload.la

libheapline_preload_la_SOURCES = \
  preload/agent.h preload/count.c preload/count.h preload/interpose.c preload/leave.c \
  preload/page.c preload/peak.c preload/peak.h preload/real.c preload/sandbox.c \
  preload/send.c preload/start.c preload/sys.c preload/sys.h
# Only lib/leaf can be included.  -fno-builtin: the compiler must not make a malloc of ours call itself, or take
# it that allocation functions do nothing else.
libheapline_preload_la_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir)/lib/leaf
libheapline_preload_la_CFLAGS = $(AM_CFLAGS) -ftls-model=initial-exec -fno-builtin
libheapline_preload_la_LIBADD = libhl-leaf.la
libheapline_preload_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete \
  -Wl,--version-script=$(top_srcdir)/preload/preload.map
libheapline_preload_la_DEPENDENCIES = libhl-leaf.la preload/preload.map
EXTRA_DIST += preload/preload.map
