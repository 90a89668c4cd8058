dnl SPDX-License-Identifier: Apache-2.0
dnl HL_SYSTEMD: where unit, sysusers and tmpfiles files go.  heaplined itself
dnl speaks the notify and activation protocols without any library.
AC_DEFUN([HL_SYSTEMD], [
  AC_ARG_WITH([systemd], [AS_HELP_STRING([--without-systemd],
    [do not install units, sysusers and tmpfiles])], [], [with_systemd=yes])
  AC_ARG_WITH([systemdsystemunitdir], [AS_HELP_STRING([--with-systemdsystemunitdir=DIR],
    [folder of the units])], [systemdsystemunitdir=$withval], [systemdsystemunitdir=])
  AS_IF([test "x$with_systemd" != xno && test -z "$systemdsystemunitdir"], [
    AS_IF([test "x$prefix" = xNONE || test "x$prefix" = x/usr/local || test "x$prefix" = x/usr],
      [systemdsystemunitdir=`$PKG_CONFIG --variable=systemdsystemunitdir systemd 2>/dev/null`])
    AS_IF([test -z "$systemdsystemunitdir"], [systemdsystemunitdir='${prefix}/lib/systemd/system'])
  ])
  AC_SUBST([systemdsystemunitdir])
  AC_SUBST([sysusersdir], ['${prefix}/lib/sysusers.d'])
  AC_SUBST([tmpfilesdir], ['${prefix}/lib/tmpfiles.d'])
  AM_CONDITIONAL([HAVE_SYSTEMD], [test "x$with_systemd" != xno])
])
