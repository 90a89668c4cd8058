# SPDX-License-Identifier: Apache-2.0
lib_LTLIBRARIES += libheapline.la
include_HEADERS += libclient/heapline.h libclient/heapline.hpp
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = libclient/heapline.pc
EXTRA_DIST += libclient/libheapline.map

libclient_sources = \
  libclient/catalog.c libclient/conn.c libclient/conn.h libclient/fallback.c \
  libclient/fallback.h libclient/frame.c libclient/image.c libclient/image.h \
  libclient/memory.c libclient/memory.h libclient/metric.c libclient/names.c \
  libclient/names.h libclient/region.c libclient/resume.c libclient/resume.h \
  libclient/ring.c libclient/ring.h libclient/sender.c libclient/sender.h \
  libclient/session.c libclient/session.h libclient/setup.c libclient/setup.h \
  libclient/sys.h libclient/timer.c libclient/timer.h

libheapline_la_SOURCES = $(libclient_sources)
libheapline_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/libclient
libheapline_la_CFLAGS = $(AM_CFLAGS) -pthread
# Never unloaded: threads and children come back to it when they end or begin.
libheapline_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -pthread \
  -Wl,-z,defs,-z,now,-z,nodelete \
  -Wl,--version-script=$(top_srcdir)/libclient/libheapline.map
libheapline_la_LIBADD = libhl-leaf.la
EXTRA_libheapline_la_DEPENDENCIES = libclient/libheapline.map
