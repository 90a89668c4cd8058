/* SPDX-License-Identifier: Apache-2.0
 *
 * What shall outlive this run of the collector: a process's descriptors, at the
 * service manager, and its last sample, in the file `samples`.  A SLOT message
 * in the process's spool says where they are.  All functions do nothing for
 * what has no slot.
 */
#ifndef HL_KEEP_H
#define HL_KEEP_H

#include "daemon.h"
#include "messages.h"

/* At start, behind the spool's lock: the store, what was passed, the samples.
 * What is missing is done without, and said where it matters. */
void hl_keep_open(struct hl_daemon *d);
/* The file of samples, in the root as it is now. */
void hl_keep_open_samples(struct hl_daemon *d);
/* Send what waits for the manager, for a bounded time; free all. */
void hl_keep_close(struct hl_daemon *d);

/* The process has a hello's descriptors and, if it can have one, its pidfd. */
void hl_keep_descriptors(struct hl_process *p);
/* Nothing is needed any more: its record is in the spool, or its spool goes.
 * While the daemon stops only the memory is given back. */
void hl_keep_end(struct hl_process *p);

/* A spool was read whole, its last SLOT says m, and no end is known: with its
 * descriptors the process is alive again (or dies now); without, its last
 * sample is its record. */
void hl_keep_restore(struct hl_process *p, const struct hl_slot *m);
/* The same for a process that came back before its spool was met: it takes what it
 * has not brought itself. */
void hl_keep_claim(struct hl_process *p, const struct hl_slot *m);
/* All spools are read: let go of what nobody claimed. */
void hl_keep_restored(struct hl_daemon *d);

/* Descriptors at the service manager. */
size_t hl_keep_n_stored(const struct hl_daemon *d);

/* Samples were taken (sample_due): note them in the file. */
void hl_keep_samples(struct hl_daemon *d);

#endif
