# SPDX-License-Identifier: Apache-2.0
confexampledir = $(docdir)/examples
dist_confexample_DATA = packaging/heaplined.conf

EXTRA_DIST += packaging/systemd/heaplined.service.in packaging/systemd/heaplined.socket.in \
  packaging/systemd/heapline-metrics.service.in packaging/systemd/heapline-metrics.timer \
  packaging/systemd/heapline.sysusers packaging/systemd/heapline.tmpfiles
CLEANFILES += packaging/systemd/heaplined.service packaging/systemd/heaplined.socket \
  packaging/systemd/heapline.conf packaging/systemd/heapline-metrics.service

if HAVE_SYSTEMD
systemdsystemunit_DATA = packaging/systemd/heaplined.service packaging/systemd/heaplined.socket \
  packaging/systemd/heapline-metrics.service packaging/systemd/heapline-metrics.timer
packaging/systemd/%: $(top_srcdir)/packaging/systemd/%.in Makefile
	$(AM_V_GEN)$(MKDIR_P) packaging/systemd && $(SED) -e 's#[@]sbindir[@]#$(sbindir)#' \
	  -e 's#[@]bindir[@]#$(bindir)#' $< >$@
# Both kinds of file are called heapline.conf where they are installed.
install-data-local:
	$(MKDIR_P) $(DESTDIR)$(sysusersdir) $(DESTDIR)$(tmpfilesdir)
	$(INSTALL_DATA) $(srcdir)/packaging/systemd/heapline.sysusers \
	  $(DESTDIR)$(sysusersdir)/heapline.conf
	$(INSTALL_DATA) $(srcdir)/packaging/systemd/heapline.tmpfiles \
	  $(DESTDIR)$(tmpfilesdir)/heapline.conf
uninstall-local:
	rm -f $(DESTDIR)$(sysusersdir)/heapline.conf $(DESTDIR)$(tmpfilesdir)/heapline.conf
endif
