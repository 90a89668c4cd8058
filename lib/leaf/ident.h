/* SPDX-License-Identifier: Apache-2.0
 *
 * Who a process is, from its environment: rank, size, job, the key of its run;
 * and the names that are built from a key.  The agents, heapline-run and
 * heapline-gather must agree on these to the byte, so they are here and
 * nowhere else.  Pure: the environment is asked through a function that the
 * caller hands over; no allocation, no errno; safe in any thread.
 */
#ifndef HL_IDENT_H
#define HL_IDENT_H

#include <stddef.h>
#include <stdint.h>

/* Value of an environment variable or NULL; usually a wrapper of getenv. */
typedef const char *hl_getenv_fn(const char *name);

enum {
    HL_KEY_MAX = 255,      /* bytes of a run's key, without NUL */
    HL_KEY_NAME_MAX = 100, /* longer escaped keys are hashed in file names */
    HL_KEY_DIR_MAX = 40,   /* longer escaped keys are hashed in socket paths */
    HL_NAME_CAP = 192      /* suffices for every name built here */
};

/* Rank by OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, MV2_COMM_WORLD_RANK,
 * SLURM_PROCID, in this order; the first that is set to a number counts; -1
 * outside MPI. */
int32_t hl_ident_rank(hl_getenv_fn *env);

/* Number of ranks by the size variable of the family that hl_ident_rank used;
 * -1 unknown.  PMIX_RANK and SLURM_PROCID take SLURM_STEP_NUM_TASKS, and only
 * inside a step of its own (SLURM_STEP_ID below 4294967280). */
int32_t hl_ident_size(hl_getenv_fn *env);

/* Is SLURM_STEP_ID set to the number of a step that srun started? */
int hl_ident_in_slurm_step(hl_getenv_fn *env);

/* SLURM_JOB_ID or "" (borrowed from the environment). */
const char *hl_ident_job(hl_getenv_fn *env);

/* The run's key: HEAPLINE_JOB, SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, FLUX_JOB_ID,
 * else "uid-" and the session id.  Returns its length (cut to HL_KEY_MAX);
 * out holds HL_KEY_MAX + 1 bytes and is terminated. */
size_t hl_ident_key(hl_getenv_fn *env, int64_t session_id, char *out);

/* Whole decimal number in [lo, hi]; 0, or -1 and *out untouched. */
int hl_parse_i64(const char *s, int64_t lo, int64_t hi, int64_t *out);

/* Bytes with an optional suffix K, M or G (powers of 1024). */
int hl_parse_size(const char *s, uint64_t lo, uint64_t hi, uint64_t *out);

/* Seconds with an optional fraction, to nanoseconds. */
int hl_parse_seconds(const char *s, int64_t lo_ns, int64_t hi_ns, int64_t *out);

/* Seconds between two samples of a process, 0.01 to 86400: what HEAPLINE_INTERVAL
 * and heapline-run's --interval take. */
int hl_parse_interval(const char *s, int64_t *ns);

/* Key as a file name: letters, digits, '-', '_', '.' stay, others become %XX
 * (lower-case); a leading '.' is escaped as well, so neither "." nor ".." can be made.
 * When the result is longer than max, it is "h" and 16 hexadecimal digits of the key's
 * hash.  out: HL_NAME_CAP bytes.  Returns the length. */
size_t hl_escape_key(const char *key, size_t max, char *out);

/* "ESCAPED-KEY.PID.IMAGE" + suffix (".page", ".rows", ".spool"); IMAGE is the
 * image id as 16 hexadecimal digits.  out: HL_NAME_CAP bytes. */
size_t hl_process_file_name(const char *key, int64_t pid, uint64_t image,
                            const char *suffix, char *out);

/* The other way: what a file of that name (without its folder) is of.  key:
 * HL_KEY_MAX + 1 bytes; of one that is too long for a name, "h" and its hash.  -1: no
 * process's file is named so. */
int hl_process_of_file_name(const char *name, const char *suffix, char *key, int64_t *pid,
                            uint64_t *image);

/* "/tmp/heapline-UID" and "/tmp/heapline-UID/ESCAPED-KEY": the folder of a
 * user's private collectors, and that of one run in it.  out: HL_NAME_CAP. */
size_t hl_private_base(uint32_t uid, char *out);
size_t hl_private_dir(uint32_t uid, const char *key, char *out);

/* "FALLBACK_DIR/heapline-UID": where agents without a collector put files.
 * Returns 0 when it does not fit into cap. */
size_t hl_fallback_dir(const char *fallback_dir, uint32_t uid, char *out, size_t cap);

#endif
