# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += heapline-gather
heapline_gather_SOURCES = daemon/gather.c daemon/gather_options.c daemon/gather_options.h \
  daemon/gather_tell.c daemon/gather_tell.h daemon/gather_index.c daemon/gather_index.h daemon/plan.c daemon/plan.h daemon/pour.c \
  daemon/pour.h daemon/pull.c daemon/pull.h daemon/heap_rows.c daemon/heap_rows.h \
  daemon/outlets.c daemon/outlets.h daemon/entry.h daemon/images.c daemon/images.h \
  daemon/records.c daemon/records.h daemon/source.c daemon/source.h daemon/source_files.c daemon/comm.h \
  daemon/comm_local.c
if HAVE_MPI
heapline_gather_SOURCES += daemon/comm_mpi.c
else
heapline_gather_SOURCES += daemon/comm_none.c
endif
EXTRA_DIST += daemon/comm_mpi.c daemon/comm_none.c
heapline_gather_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
heapline_gather_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la $(MPI_LIBS) -lpthread
