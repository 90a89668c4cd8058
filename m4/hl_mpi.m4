dnl SPDX-License-Identifier: Apache-2.0
dnl HL_MPI: MPI for heapline-gather alone.  The compiler stays CC: only the
dnl flags of mpicc are taken, or those of pkg-config where there is no mpicc.
AC_DEFUN([HL_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--without-mpi],
    [build heapline-gather for jobs on one node only])], [], [with_mpi=yes])
  AC_ARG_VAR([MPICC], [MPI compiler wrapper, asked for flags only])
  AC_ARG_VAR([MPIRUN], [the launcher that starts heapline-gather on several nodes])
  have_mpi=no
  AS_IF([test "x$with_mpi" != xno], [
    AC_CHECK_PROGS([MPICC], [mpicc])
    AS_IF([test -n "$MPICC"], [
      AC_MSG_CHECKING([for the flags of $MPICC])
      AS_IF([MPI_CFLAGS=`$MPICC --showme:compile 2>/dev/null`], [
        MPI_LIBS=`$MPICC --showme:link 2>/dev/null`; have_mpi=yes
      ], [hl_show=`$MPICC -show 2>/dev/null`], [
        hl_show=`echo "$hl_show" | sed 's/^@<:@^ @:>@* //'`
        MPI_CFLAGS=$hl_show MPI_LIBS=$hl_show have_mpi=yes
      ])
      AC_MSG_RESULT([$have_mpi])
    ])
    AS_IF([test $have_mpi = no], [
      PKG_CHECK_MODULES([MPI], [ompi-c], [have_mpi=yes], [
        PKG_CHECK_MODULES([MPI], [mpich], [have_mpi=yes], [:])])
    ])
    AS_IF([test $have_mpi = yes], [
      hl_save_CFLAGS=$CFLAGS; hl_save_LIBS=$LIBS
      CFLAGS="$CFLAGS $MPI_CFLAGS"; LIBS="$MPI_LIBS $LIBS"
      AC_MSG_CHECKING([whether an MPI program links])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Finalize();]])],
        [], [have_mpi=no])
      AC_MSG_RESULT([$have_mpi])
      CFLAGS=$hl_save_CFLAGS; LIBS=$hl_save_LIBS
    ])
    AC_PATH_PROGS([MPIRUN], [mpirun mpiexec])
    AS_IF([test $have_mpi = no],
      [HL_MISSING([MPI], [libopenmpi-dev openmpi-bin], [openmpi-devel], [or --without-mpi])])
  ])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_LIBS])
  AM_CONDITIONAL([HAVE_MPI], [test $have_mpi = yes])
  AS_IF([test $have_mpi = yes], [AC_DEFINE([HAVE_MPI], [1], [heapline-gather can use MPI])])
])
