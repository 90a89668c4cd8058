# SPDX-License-Identifier: Apache-2.0
sbin_PROGRAMS += heaplined
noinst_LTLIBRARIES += libhl-daemon.la

# All but main, so that unit tests can link it.
libhl_daemon_la_SOURCES = \
  daemon/answer.c daemon/ctl.c daemon/ctl.h daemon/delay.c daemon/delay.h daemon/rights.c daemon/rights.h daemon/append.c daemon/append.h daemon/daemon.h daemon/disk.c daemon/disk.h daemon/files.c daemon/folder.c daemon/load.c daemon/load.h daemon/sampling.c daemon/sampling.h daemon/scan.c daemon/scan.h daemon/session.c daemon/session.h daemon/stop.c daemon/stop.h daemon/death.c daemon/hello.c daemon/job.c daemon/job.h \
  daemon/listen.c daemon/listen.h daemon/loop.c daemon/loop.h daemon/notify.c \
  daemon/notify.h daemon/peer.c daemon/peer.h daemon/lifetime.c daemon/lifetime.h \
  daemon/process.c daemon/process.h daemon/procfs.c daemon/procfs.h daemon/quota.c \
  daemon/quota.h daemon/settings.c daemon/settings.h daemon/store.c daemon/store.h \
  daemon/tally.c daemon/tally.h daemon/timeline.c daemon/timeline.h daemon/upkeep.c \
  daemon/due.c daemon/due.h
libhl_daemon_la_SOURCES += daemon/fdstore.c daemon/fdstore.h daemon/keep.c daemon/keep.h \
  daemon/passed.c daemon/passed.h daemon/slots.c daemon/slots.h
libhl_daemon_la_CFLAGS = $(AM_CFLAGS) $(UV_CFLAGS)
libhl_daemon_la_LIBADD = libhl-model.la $(UV_LIBS)

heaplined_SOURCES = daemon/main.c
heaplined_LDADD = libhl-daemon.la
