/* The trace's file: blocks in, whole batches out.
 *
 * A batch is written by one write() and kept out of the file altogether when it does not fit, so
 * that a full disk costs the batch and hides nothing before it. The first error sticks; later
 * batches are dropped, their numbers with them, so that a reader sees the gap. Some room beyond the
 * end stays reserved, where the file system can, for the last words after a full disk. What is
 * written is brought to the disk every LIMPET_TRACE_SYNC_NS: a loss of power costs no more than
 * that.
 *
 * The file is locked (flock) for as long as the writer lives: that is how a reader tells a running
 * capture from a lost collector. One thread. */
#ifndef LIMPET_RECORDER_TRACE_WRITER_H
#define LIMPET_RECORDER_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bytes.h"
#include "common/err.h"
#include "common/trace_block.h"

#define LIMPET_TRACE_SYNC_NS 5000000000ull

struct limpet_trace_writer;

struct limpet_trace_writer_options {
	const char *path; /* NULL: COMM.PID.limpet in the current folder, .1, .2... if it exists */
	const char *comm;
	pid_t pid;
	uid_t owner_uid;
	gid_t owner_gid;
	uint64_t max_bytes; /* 0: no bound; else the oldest blocks are given up for the newest */
};

/* Creates the file: never an existing one, never through a symbolic link; mode 0600. */
int limpet_trace_writer_open(const struct limpet_trace_writer_options *options,
			     struct limpet_trace_writer **ret_writer,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* Closes; what was not flushed is dropped. */
void limpet_trace_writer_free(struct limpet_trace_writer *writer);
/* Closes and removes the file: a capture that never began leaves none. */
void limpet_trace_writer_discard(struct limpet_trace_writer *writer);

const char *limpet_trace_writer_path(const struct limpet_trace_writer *writer);
/* Bytes that are in the file; may be asked from another thread than the one that writes. */
uint64_t limpet_trace_writer_bytes(const struct limpet_trace_writer *writer);
/* The error that stuck, or 0; likewise. */
int limpet_trace_writer_error(const struct limpet_trace_writer *writer);

/* Whether the disk has hardly room for what may come before the next look, `more` bytes at the end,
 * and what others need: 1/32 of it, at most 64 MiB. Not from the thread that writes. */
bool limpet_trace_writer_disk_is_low(struct limpet_trace_writer *writer, uint64_t more);

/* Makes a block of that content and adds it to the batch. `mark` names type, sequence number and
 * times. */
int limpet_trace_writer_put(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			    struct limpet_bytes *content);
/* Blocks with these numbers are not in the file. */
int limpet_trace_writer_put_gap(struct limpet_trace_writer *writer, uint32_t sequence,
				uint32_t count);
/* The batch takes the place of all that was written since the last that did, or since the first.
 * Not together with a bound. */
void limpet_trace_writer_replace(struct limpet_trace_writer *writer);
/* Writes the batch. */
int limpet_trace_writer_flush(struct limpet_trace_writer *writer);
/* From here on batches are tried in spite of an error, in the reserved room. */
void limpet_trace_writer_last_words(struct limpet_trace_writer *writer);
/* Gives the reserved room back, moves what is left of a bounded file together; fsync. */
int limpet_trace_writer_sync(struct limpet_trace_writer *writer);

#endif
