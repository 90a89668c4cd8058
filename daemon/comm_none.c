/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands for comm_mpi.c in a build without MPI.
 */
#include "comm.h"

#include <string.h>

struct hl_comm *hl_comm_mpi(int *argc, char ***argv, const char *host, struct hl_err *e)
{
    (void)argc, (void)argv, (void)host;
    hl_fail(e, HL_ERR_FORMAT,
            "this heapline-gather was built --without-mpi and gathers one node only");
    return NULL;
}

const char *hl_comm_mpi_name(char *out, size_t cap)
{
    strncpy(out, "no MPI", cap - 1);
    out[cap - 1] = 0;
    return out;
}
