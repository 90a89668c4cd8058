# SPDX-License-Identifier: Apache-2.0
system_tests = tests/system/man.test
TESTS += $(system_tests)
EXTRA_DIST += $(system_tests)
