/* SPDX-License-Identifier: Apache-2.0
 *
 * The message header, the table of message types, and the field reader and
 * writer that every encoder and decoder uses.  The same messages go over the
 * socket and lie in spool files, row buffers and fallback files.  Everything
 * here is pure: no allocation, no errno, no I/O; safe in any thread and in
 * signal handlers.  heapline-protocol(7) describes the bytes.
 *
 *   header, 16 bytes, little-endian:
 *     magic u16 | version u8 | type u8 | length u32 | crc32c u32 | zero u32
 *   length counts the body alone; the checksum covers the first 8 bytes of
 *   the header and the body.
 */
#ifndef HL_WIRE_H
#define HL_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
    HL_WIRE_MAGIC = 0x4c48,
    HL_WIRE_VERSION = 1,     /* version of the header and the messages written */
    HL_WIRE_VERSION_MIN = 1, /* oldest version understood */
    HL_WIRE_HEADER = 16,
    HL_WIRE_MAX_BODY = 1 << 20
};

/* Codes of the pure layer.  hl_wire_strerror has a sentence for each. */
enum hl_wire_code {
    HL_WIRE_OK = 0,
    HL_WIRE_SHORT = -1, /* not enough bytes yet */
    HL_WIRE_BAD_MAGIC = -2,
    HL_WIRE_BAD_VERSION = -3,
    HL_WIRE_BAD_TYPE = -4, /* unknown, or not for this direction or state */
    HL_WIRE_BAD_LENGTH = -5,
    HL_WIRE_BAD_CRC = -6,
    HL_WIRE_BAD_FIELD =
        -7, /* a field is missing, twice, too long or unknown and critical */
    HL_WIRE_BAD_VALUE = -8,
    HL_WIRE_NO_SPACE = -9, /* encoding: the destination is too small */
    HL_WIRE_TRAILING = -10
};

enum hl_msg_type {
    HL_MSG_HELLO = 1,      /* client: who I am */
    HL_MSG_HELLO_OK = 2,   /* collector: accepted; stream offset to resume at */
    HL_MSG_REFUSED = 3,    /* collector: no, and why; the connection ends */
    HL_MSG_CATALOG = 4,    /* stream: names of metrics and region paths */
    HL_MSG_ROWS = 5,       /* stream: committed frames */
    HL_MSG_ACK = 6,        /* collector: the stream is kept up to this offset */
    HL_MSG_BYE = 7,        /* client: regular end, rows it dropped */
    HL_MSG_RECORD = 8,     /* agent without a shared page; spool: final numbers */
    HL_MSG_ENDED = 9,      /* keeper: how a process it waited for has ended */
    HL_MSG_STATE_ASK = 10, /* keeper or gather: how does the job stand */
    HL_MSG_STATE = 11,
    HL_MSG_INDEX_ASK = 12, /* gather: which processes are there */
    HL_MSG_PROC = 13,      /* collector: one process of the index */
    HL_MSG_INDEX_END = 14,
    HL_MSG_PULL = 15, /* gather: a piece of a process's stream */
    HL_MSG_DATA = 16,
    HL_MSG_TAKEN = 17, /* gather: all was written; the data may go */
    HL_MSG_TAKEN_OK = 18,
    HL_MSG_SPOOL = 19, /* spool: first message of a file */
    HL_MSG_LOSS = 20,  /* spool: rows known to be lost */
    HL_MSG_SLOT = 21,  /* spool: where its descriptors and samples are kept */
    HL_MSG_HELD = 22,  /* collector: rows wait for the disk, or no longer */
    HL_MSG_ASK = 23,   /* heaplinectl: control.h */
    HL_MSG_STATUS = 24,
    HL_MSG_JOB = 25,
    HL_MSG_LIVE = 26,
    HL_MSG_USER = 27,
    HL_MSG_DONE = 28,
    HL_MSG_POINTS = 29, /* spool: samples of heap and resident set */
    HL_MSG_N_TYPES = 30
};

/* Who may meet a type: direction bits and state bits of the table. */
enum hl_wire_where {
    HL_TO_COLLECTOR = 1,
    HL_FROM_COLLECTOR = 2,
    HL_IN_SPOOL = 4,
    HL_IN_STREAM = 8 /* counted by stream offsets */
};

enum hl_wire_state {
    HL_STATE_NEW = 1,    /* before the hello was accepted */
    HL_STATE_CLIENT = 2, /* a heap or frames connection */
    HL_STATE_KEEPER = 4,
    HL_STATE_GATHER = 8,
    HL_STATE_FILE = 16, /* reading a spool or fallback file */
    HL_STATE_CONTROL = 32,
    HL_STATE_ANY = 63
};

struct hl_wire_type {
    const char *name;
    uint8_t where;     /* HL_TO_COLLECTOR, ... */
    uint8_t states;    /* HL_STATE_... in which a receiver takes it */
    uint32_t min, max; /* bytes of body */
};

/* The row of a type, or NULL for a type that is not in the table. */
const struct hl_wire_type *hl_wire_type(unsigned type);

struct hl_wire_header {
    uint8_t version, type;
    uint32_t length; /* of the body */
    uint32_t crc;
};

/* Take a header from p.  Checks size, magic, version and the zero word. */
int hl_wire_header_get(const uint8_t *p, size_t n, struct hl_wire_header *out);

/* Is this header acceptable to a receiver?  where: one direction bit; state:
 * one state bit.  Looks at the header alone, so no byte of a body need be
 * read or allocated before. */
int hl_wire_check(const struct hl_wire_header *h, unsigned where, unsigned state);

/* Check the body behind a header (body: h->length bytes). */
int hl_wire_crc_check(const struct hl_wire_header *h, const uint8_t *body);

/* Write the 16 bytes of a header at p for a body that is already in place. */
void hl_wire_header_put(uint8_t *p, unsigned type, const uint8_t *body, uint32_t length);

/* One whole message at p: header_get + check + crc.  On success *body points
 * into p and *used is the message's size.  HL_WIRE_SHORT when more bytes are
 * needed. */
int hl_wire_next(const uint8_t *p, size_t n, unsigned where, unsigned state,
                 struct hl_wire_header *h, const uint8_t **body, size_t *used);

/* CRC-32C (Castagnoli) of n bytes, continuing from crc (0 to begin).  Uses the
 * processor's instruction where there is one. */
uint32_t hl_crc32c(uint32_t crc, const void *data, size_t n);

const char *hl_wire_strerror(int code);

/* ---- reader: never reads past its end; after a fault all reads give 0 ---- */
struct hl_reader {
    const uint8_t *p, *end;
    int fault;
};

static inline struct hl_reader hl_reader_on(const uint8_t *p, size_t n)
{
    return (struct hl_reader){p, p + n, 0};
}
static inline size_t hl_reader_left(const struct hl_reader *r)
{
    return (size_t)(r->end - r->p);
}
uint8_t hl_get_u8(struct hl_reader *r);
uint16_t hl_get_u16(struct hl_reader *r);
uint32_t hl_get_u32(struct hl_reader *r);
uint64_t hl_get_u64(struct hl_reader *r);
/* n bytes in place, or NULL. */
const uint8_t *hl_get_bytes(struct hl_reader *r, size_t n);
/* 0 when everything was read and nothing is left, else the code. */
int hl_reader_done(const struct hl_reader *r);

/* Borrowed text: not terminated, lives as long as the buffer it lies in. */
struct hl_str {
    const char *p;
    size_t n;
};

/* A field of hello-like messages: tag u16, length u16, value.  Tags with bit
 * 15 set must be understood; others may be skipped. */
struct hl_field {
    uint16_t tag;
    uint16_t n;
    const uint8_t *p;
};
#define HL_FIELD_CRITICAL 0x8000u
/* 1: a field was read; 0: end of the body; negative: HL_WIRE_ code. */
int hl_get_field(struct hl_reader *r, struct hl_field *f);
/* Values of a field, checked for their size. */
int hl_field_u64(const struct hl_field *f, uint64_t *out);
int hl_field_i64(const struct hl_field *f, int64_t *out);
/* Text of at most max bytes without NUL bytes. */
int hl_field_str(const struct hl_field *f, size_t max, struct hl_str *out);

/* ---- writer: counts what it would need, writes what fits ---- */
struct hl_writer {
    uint8_t *p; /* may be NULL with cap 0: only the size is computed */
    size_t cap;
    size_t n; /* bytes needed so far; more than cap: nothing is valid */
};

static inline struct hl_writer hl_writer_on(uint8_t *p, size_t cap)
{
    return (struct hl_writer){p, cap, 0};
}
void hl_put_u8(struct hl_writer *w, uint8_t v);
void hl_put_u16(struct hl_writer *w, uint16_t v);
void hl_put_u32(struct hl_writer *w, uint32_t v);
void hl_put_u64(struct hl_writer *w, uint64_t v);
void hl_put_bytes(struct hl_writer *w, const void *p, size_t n);
void hl_put_field_u64(struct hl_writer *w, unsigned tag, uint64_t v);
void hl_put_field_str(struct hl_writer *w, unsigned tag, struct hl_str s);

/* Begin a message: leaves room for the header.  End it: fills the header in.
 * hl_message_end returns the whole size, or HL_WIRE_NO_SPACE. */
struct hl_writer hl_message_begin(uint8_t *p, size_t cap);
int64_t hl_message_end(struct hl_writer *w, unsigned type);

#endif
