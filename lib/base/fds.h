/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors that come from, and go to, other programs.
 */
#ifndef HL_FDS_H
#define HL_FDS_H

/* Who started us may have closed some of 0, 1 and 2: nothing else may get these
 * numbers.  They stay of no use: reading or writing them fails as before, and they are
 * closed again for what is executed. */
void hl_fds_hold_std(void);
/* In a child before exec: close all from 3 on but keep (-1 none). */
void hl_fds_close_others(int keep);

#endif
