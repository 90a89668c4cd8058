# SPDX-License-Identifier: Apache-2.0
# The collector as a service: configuration, and systemd's files where wanted.
heaplineconfdir = $(sysconfdir)/heapline
dist_heaplineconf_DATA = packaging/heaplined.conf

EXTRA_DIST += packaging/systemd/heaplined.service.in packaging/systemd/heaplined.socket \
  packaging/systemd/heapline.sysusers packaging/systemd/heapline.tmpfiles

if HAVE_SYSTEMD
systemdsystemunit_DATA = packaging/systemd/heaplined.socket
nodist_systemdsystemunit_DATA = packaging/systemd/heaplined.service
nodist_sysusers_DATA = packaging/systemd/heapline.conf
nodist_tmpfiles_DATA = packaging/systemd/tmpfiles/heapline.conf
CLEANFILES += $(nodist_systemdsystemunit_DATA) $(nodist_sysusers_DATA) $(nodist_tmpfiles_DATA)
endif

packaging/systemd/heaplined.service: packaging/systemd/heaplined.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SED) -e 's|@sbindir[@]|$(sbindir)|g' \
	  -e 's|@sysconfdir[@]|$(sysconfdir)|g' $(srcdir)/packaging/systemd/heaplined.service.in >$@
packaging/systemd/heapline.conf: packaging/systemd/heapline.sysusers
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cp $(srcdir)/packaging/systemd/heapline.sysusers $@
packaging/systemd/tmpfiles/heapline.conf: packaging/systemd/heapline.tmpfiles
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cp $(srcdir)/packaging/systemd/heapline.tmpfiles $@
