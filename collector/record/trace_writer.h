/* The trace's file: takes blocks, writes whole batches.
 *
 * A batch is written whole, or cut off again if it does not fit: a full disk costs the batch
 * and hides nothing before it. The first error is permanent; later batches are dropped together
 * with their numbers, so that a reader sees the gap. Where the file system supports it, some space
 * beyond the end stays reserved for the END block after a full disk. The file is synced every
 * LIMPET_TRACE_SYNC_NS: a power failure costs no more than that.
 *
 * The file is locked (flock) as long as the writer exists: thereby a reader distinguishes a running
 * capture from a lost collector. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_WRITER_H
#define LIMPET_COLLECTOR_RECORD_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bytes.h"
#include "common/err.h"
#include "common/trace_block.h"

#define LIMPET_TRACE_SYNC_NS 5000000000ull

struct limpet_trace_writer;

struct limpet_trace_writer_options {
	const char
		*path; /* NULL: COMM.PID.limpet in the current directory, .1, .2... if it exists */
	const char *comm;
	pid_t pid;
	uid_t owner_uid;
	gid_t owner_gid;
	uint64_t max_bytes; /* 0: no bound; else the oldest blocks are given up for the newest */
};

/* Creates the file, with mode 0600. Never opens an existing one, never follows a symbolic link. */
int limpet_trace_writer_open(const struct limpet_trace_writer_options *options,
			     struct limpet_trace_writer **ret_writer,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* Closes the file; what was not flushed is dropped. */
void limpet_trace_writer_free(struct limpet_trace_writer *writer);
/* Closes and removes the file: a capture that never began leaves none. */
void limpet_trace_writer_discard(struct limpet_trace_writer *writer);

const char *limpet_trace_writer_path(const struct limpet_trace_writer *writer);
/* Bytes in the file. May be called from other threads than the writing one. */
uint64_t limpet_trace_writer_bytes(const struct limpet_trace_writer *writer);
/* The first error, or 0. May be called from other threads, too. */
int limpet_trace_writer_error(const struct limpet_trace_writer *writer);

/* Whether the disk may lack room for what is written before the next call, `more` bytes at the end,
 * and what other programs need: 1/32 of the disk, at most 64 MiB. */
bool limpet_trace_writer_disk_is_low(struct limpet_trace_writer *writer, uint64_t more);

/* Makes a block of that content and adds it to the batch. `mark` names type, sequence number and
 * times. */
int limpet_trace_writer_append(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			       struct limpet_bytes *content);
/* Adds a GAP: blocks with these numbers are not in the file. */
int limpet_trace_writer_append_gap(struct limpet_trace_writer *writer, uint32_t sequence,
				   uint32_t count);
/* The batch replaces all that was written since the last replacement, or since the first batch. Not
 * together with a bound. */
void limpet_trace_writer_replace(struct limpet_trace_writer *writer);
/* Writes the batch. */
int limpet_trace_writer_flush(struct limpet_trace_writer *writer);
/* From here on batches are written in spite of an error, into the reserved space. */
void limpet_trace_writer_use_reserve(struct limpet_trace_writer *writer);
/* Frees the reserved space, compacts a bounded file, and calls fsync(). */
int limpet_trace_writer_sync(struct limpet_trace_writer *writer);

#endif
