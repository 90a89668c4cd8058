# SPDX-License-Identifier: Apache-2.0
# Built by make, not installed as a program; the source goes to the documentation.
exampledir = $(docdir)/examples
dist_example_DATA = examples/cahn_hilliard.c
if HAVE_MPI
noinst_PROGRAMS += cahn-hilliard
cahn_hilliard_SOURCES = examples/cahn_hilliard.c
cahn_hilliard_CPPFLAGS = -I$(top_srcdir)/libclient
cahn_hilliard_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
# The build folder's library, without libtool's wrapper script in between.
cahn_hilliard_LDFLAGS = -no-install
cahn_hilliard_LDADD = libheapline.la $(MPI_LIBS) -lm
endif
