/* A trace as a file.
 *
 * A batch is written whole, or cut off again if it does not fit: a full disk costs the batch
 * and hides nothing before it. Where the file system supports it, some space beyond the end stays
 * reserved for the last batch, which has the END block. The file is synced every
 * LIMPET_TRACE_SYNC_NS: a power failure costs no more than that.
 *
 * The file is locked (flock) as long as the sink exists: thereby a reader distinguishes a running
 * capture from a lost collector. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_FILE_H
#define LIMPET_COLLECTOR_RECORD_TRACE_FILE_H

#include <sys/types.h>

#include "collector/record/trace_sink.h"
#include "common/err.h"

#define LIMPET_TRACE_SYNC_NS 5000000000ull

struct limpet_trace_file_options {
	const char
		*path; /* NULL: COMM.PID.limpet in the current directory, .1, .2... if it exists */
	const char *comm;
	pid_t pid;
	uid_t owner_uid;
	gid_t owner_gid;
	uint64_t max_bytes; /* 0: no bound; else the oldest blocks are given up for the newest */
};

/* Creates the file, with mode 0600. Never opens an existing one, never follows a symbolic link. */
int limpet_trace_file_open(const struct limpet_trace_file_options *options,
			   struct limpet_trace_sink **ret_sink,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
