#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peak.py FILE COMMAND...: run it, write its peak resident set in KiB to FILE, and
end as it ended."""
import os
import sys

pid = os.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w", encoding="ascii") as f:
    f.write("%d\n" % usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
