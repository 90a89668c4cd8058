# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += heapline-run
heapline_run_SOURCES = tools/run.c tools/run_options.c tools/run_options.h tools/inner.c \
  tools/inner.h tools/session.c tools/session.h tools/launch.c tools/launch.h tools/hosts.c \
  tools/child.c tools/child.h tools/collect.c tools/collect.h
heapline_run_LDADD = libhl-model.la libhl-base.la libhl-leaf.la

bin_PROGRAMS += heapline-report
heapline_report_SOURCES = tools/report.c tools/report.h tools/report_regions.c tools/report_heap.c
heapline_report_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la

completiondir = $(datadir)/bash-completion/completions
dist_completion_DATA = completion/heapline.bash
install-data-hook:
	cd $(DESTDIR)$(completiondir) && for p in run gather report; do \
	  $(LN_S) -f heapline.bash heapline-$$p; done
uninstall-hook:
	cd $(DESTDIR)$(completiondir) && rm -f heapline-run heapline-gather heapline-report
