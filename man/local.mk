# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += man/heapline.7 man/heapline-run.1 man/heapline-gather.1 man/heapline-report.1 \
  man/heapline-export.5 man/heapline-record.5 man/heapline.3 \
  man/heapline_frame.3 man/heapline_region.3 man/heapline_get_stats.3 man/heaplinectl.8 man/heaplined.8 \
  man/heaplined.conf.5 man/heapline-protocol.7 man/heapline-admin.7 man/heapline-security.7
