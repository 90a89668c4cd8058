# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += heapline-run
heapline_run_SOURCES = tools/run.c tools/run_options.c tools/run_options.h tools/inner.c \
  tools/inner.h tools/session.c tools/session.h tools/launch.c tools/launch.h tools/hosts.c tools/rank_hosts.c \
  tools/child.c tools/child.h tools/collect.c tools/collect.h tools/later.c tools/command.c tools/command.h \
  tools/attempt.c tools/attempt.h tools/watch.c tools/watch.h tools/words.c tools/words.h
heapline_run_LDADD = libhl-model.la libhl-base.la libhl-leaf.la

bin_PROGRAMS += heapline-report
heapline_report_SOURCES = tools/report.c tools/report.h tools/report_regions.c tools/report_heap.c
heapline_report_LDADD = libhl-io.la libhl-model.la libhl-base.la libhl-leaf.la

completiondir = $(datadir)/bash-completion/completions
dist_completion_DATA = completion/heapline.bash
install-data-hook:
	cd $(DESTDIR)$(completiondir) && for p in run gather report; do \
	  $(LN_S) -f heapline.bash heapline-$$p; done; $(LN_S) -f heapline.bash heaplinectl
uninstall-hook:
	cd $(DESTDIR)$(completiondir) && rm -f heapline-run heapline-gather heapline-report heaplinectl

# All but main, so that unit tests can link it.
noinst_LTLIBRARIES += libhl-ctl.la
libhl_ctl_la_SOURCES = tools/heaplinectl.h tools/ctl_link.c tools/ctl_text.c tools/ctl_json.c \
  tools/ctl_metrics.c tools/top.c tools/top_view.c
libhl_ctl_la_LIBADD = libhl-model.la
bin_PROGRAMS += heaplinectl
heaplinectl_SOURCES = tools/ctl.c
heaplinectl_LDADD = libhl-ctl.la
