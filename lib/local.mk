# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libhl-leaf.la libhl-base.la libhl-model.la libhl-io.la

libhl_leaf_la_SOURCES = \
  lib/leaf/bound.h lib/leaf/control.c lib/leaf/control.h lib/leaf/crc32c.c lib/leaf/heap_page.c lib/leaf/heap_page.h \
  lib/leaf/ident.c lib/leaf/ident.h lib/leaf/messages.c lib/leaf/messages.h \
  lib/leaf/record.c lib/leaf/record.h lib/leaf/region_name.c lib/leaf/region_name.h \
  lib/leaf/row_buffer.h lib/leaf/wire.c lib/leaf/wire.h

libhl_base_la_SOURCES = \
  lib/base/buf.c lib/base/buf.h lib/base/err.c lib/base/err.h lib/base/path.c lib/base/path.h lib/base/wire_link.c lib/base/wire_link.h \
  lib/base/fds.c lib/base/fds.h lib/base/ulimits.c lib/base/ulimits.h \
  lib/base/install.c lib/base/install.h lib/base/outputs.c lib/base/outputs.h \
  lib/base/private.c lib/base/private.h lib/base/utf8.c lib/base/utf8.h
libhl_base_la_LIBADD = libhl-leaf.la
libhl_base_la_SOURCES += \
  lib/base/clock.c lib/base/clock.h lib/base/conf.c lib/base/conf.h lib/base/log.c \
  lib/base/log.h lib/base/table.c lib/base/table.h

libhl_model_la_SOURCES = \
  lib/model/catalog.c lib/model/catalog.h lib/model/csv_out.c lib/model/sink.h \
  lib/model/number.c lib/model/number.h lib/model/region_tree.c lib/model/region_tree.h lib/model/stream.c lib/model/stream.h \
  lib/model/stats.c lib/model/stats.h lib/model/profile.c lib/model/profile.h \
  lib/model/csv_in.c lib/model/csv_in.h
libhl_model_la_LIBADD = libhl-base.la -lm
libhl_model_la_SOURCES += lib/model/spool.c lib/model/spool.h lib/model/points.c lib/model/points.h lib/model/samples.c \
  lib/model/samples.h

libhl_io_la_SOURCES = lib/io/json_out.c lib/io/meta.c lib/io/meta.h lib/io/json_in.c lib/io/readers.h
libhl_io_la_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
libhl_io_la_LIBADD = libhl-model.la $(JSON_LIBS)
if HAVE_HDF5
libhl_io_la_SOURCES += lib/io/h5_out.c lib/io/h5_file.c lib/io/h5_rows.c lib/io/h5_timeline.c lib/io/h5_heap.c lib/io/h5_priv.h lib/io/h5_in.c lib/io/h5_in.h lib/io/h5_flat_in.c
libhl_io_la_CFLAGS += $(HDF5_CFLAGS)
libhl_io_la_LIBADD += $(HDF5_LIBS)
endif
