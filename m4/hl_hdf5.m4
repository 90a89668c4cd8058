dnl SPDX-License-Identifier: Apache-2.0
dnl HL_HDF5: the serial HDF5 library: pkg-config hdf5-serial, hdf5, then h5cc.
AC_DEFUN([HL_HDF5], [
  AC_ARG_WITH([hdf5], [AS_HELP_STRING([--without-hdf5],
    [build without the HDF5 output and reader])], [], [with_hdf5=yes])
  have_hdf5=no
  AS_IF([test "x$with_hdf5" != xno], [
    PKG_CHECK_MODULES([HDF5], [hdf5-serial], [have_hdf5=yes], [
      PKG_CHECK_MODULES([HDF5], [hdf5], [have_hdf5=yes], [:])])
    AS_IF([test $have_hdf5 = no], [
      AC_CHECK_PROGS([H5CC], [h5cc])
      AS_IF([test -n "$H5CC"], [
        hl_show=`$H5CC -show 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
        HDF5_CFLAGS=`for w in $hl_show; do case $w in -I*|-D*) printf '%s ' $w;; esac; done`
        HDF5_LIBS="`for w in $hl_show; do case $w in -L*) printf '%s ' $w;; esac; done` -lhdf5"
        have_hdf5=yes
      ])
    ])
    AS_IF([test $have_hdf5 = yes], [
      hl_save_CFLAGS=$CFLAGS; hl_save_LIBS=$LIBS
      CFLAGS="$CFLAGS $HDF5_CFLAGS"; LIBS="$HDF5_LIBS $LIBS"
      AC_MSG_CHECKING([whether an HDF5 program links])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>]], [[return H5open();]])],
        [], [have_hdf5=no])
      AC_MSG_RESULT([$have_hdf5])
      CFLAGS=$hl_save_CFLAGS; LIBS=$hl_save_LIBS
    ])
    AS_IF([test $have_hdf5 = no],
      [HL_MISSING([HDF5], [libhdf5-dev], [hdf5-devel], [or --without-hdf5])])
  ])
  AC_SUBST([HDF5_CFLAGS])
  AC_SUBST([HDF5_LIBS])
  AM_CONDITIONAL([HAVE_HDF5], [test $have_hdf5 = yes])
  AS_IF([test $have_hdf5 = yes], [AC_DEFINE([HAVE_HDF5], [1], [HDF5 output and reader])])
])
