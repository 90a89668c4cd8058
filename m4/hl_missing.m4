dnl SPDX-License-Identifier: Apache-2.0
dnl HL_MISSING(WHAT, DEBIAN-PACKAGE, FEDORA-PACKAGE, HOW-TO-DO-WITHOUT)
dnl Note a dependency that was not found; HL_MISSING_END stops with the list.
AC_DEFUN([HL_MISSING], [
  hl_missing="$hl_missing
  $1 is missing: Debian package $2, Fedora package $3 [$4]"
])
AC_DEFUN([HL_MISSING_END], [
  AS_IF([test -n "$hl_missing"], [AC_MSG_ERROR([dependencies are missing:
$hl_missing

Install them, or configure without what can be left out.])])
])
