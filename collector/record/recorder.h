/* The recorder: takes the ordered stream of events of one capture, does the heap accounting (pairs
 * each free with its allocation, sites, totals, peak) and writes the trace.
 *
 * Only the collector calls it, from one thread, with events in order of time. Never prints. The
 * first error of the file (-ENOSPC, -EIO...) is permanent: later calls return it, while the
 * accounting continues. */
#ifndef LIMPET_COLLECTOR_RECORD_RECORDER_H
#define LIMPET_COLLECTOR_RECORD_RECORDER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/record/event_record.h"
#include "common/err.h"
#include "common/file_identity.h"
#include "common/leak_counts.h"
#include "common/losses.h"
#include "common/object_counts.h"
#include "common/resident_account.h"
#include "common/sample.h"
#include "common/trace_format.h"

struct limpet_recorder;
struct limpet_trace_sink;

struct limpet_recorder_options {
	const char
		*path; /* NULL: COMM.PID.limpet in the current directory, .1, .2... if it exists */
	struct limpet_trace_sink *sink; /* in place of the file; borrowed. NULL: a file */
	uid_t owner_uid; /* of the new file: the user who called sudo, else the caller */
	gid_t owner_gid;
	uint64_t memory_bytes; /* bound for the live table; what does not fit is counted */
	/* identity of the target */
	enum limpet_capture_mode mode;
	pid_t pid;
	const char *comm;
	const char *command; /* argv[0], or the whole command line if requested */
	const char *executable;
	uint64_t start_ticks; /* /proc/PID/stat field 22 */
	uint64_t wall_ns;     /* CLOCK_REALTIME of the capture's time 0 */
	struct limpet_sampling sampling;
	uint32_t max_depth;
	double unseen_rss_share; /* --partial: share of RSS out of reach, 0..1; < 0: not partial */
	bool addresses;          /* keep the address of each row */
	bool compact;            /* sums of time spans instead of single events */
	bool pages;              /* blocks are pages of memory that were touched */
	uint64_t max_bytes;     /* of the file: the oldest events are given up for the newest; 0: no
				   bound */
	const char *allocators; /* for display: "glibc 2.36", "glibc 2.36, jemalloc" */
				/* host, kernel... are found by the recorder itself */
	const char *container;  /* its id; NULL: in none, or unknown */
	uint64_t cgroup_limit_bytes;                   /* 0: unlimited or unknown */
	const struct limpet_resident_account *account; /* before the capture; NULL: not known */
	const struct limpet_object_counts *objects;    /* of a managed heap; NULL: not known */
	bool other_allocators;                         /* others than glibc's are followed */
	const char *labels;     /* as limpet_labels_add() made them; NULL or "": none */
	const char *unfollowed; /* possible owners of the unknown part; NULL or "": not known */
};

/* Creates the file (O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode 0600) and writes the HEADER. */
int limpet_recorder_open(const struct limpet_recorder_options *options,
			 struct limpet_recorder **ret, struct limpet_err *err) LIMPET_MUST_CHECK;
/* Path of the trace as opened; valid as long as the recorder. */
const char *limpet_recorder_path(const struct limpet_recorder *recorder);

/* Call before the first event: events of different threads are added in no order between two calls
 * of _end_pass(), and the peak has bounds. `place`: no event's; all with a place before it were
 * read by now, and those that were read before the last call have been added. Without, they are
 * added in the order of time. 0 or -ENOMEM. */
int limpet_recorder_take_passes(struct limpet_recorder *recorder);
void limpet_recorder_end_pass(struct limpet_recorder *recorder, uint32_t place);

struct limpet_recorder_module {
	uint64_t start, end; /* lowest and highest mapped address */
	uint64_t bias;       /* address in memory minus address in the file's headers */
	const char *path;    /* as the target sees it, "[vdso]" for the vDSO */
	const uint8_t *build_id;
	uint32_t build_id_bytes;
	bool allocator; /* frames in it are noise: an allocator's library or libc's malloc */
};
/* Returns the module's number (from 1), to which nodes refer. An unloaded module keeps its
 * number. */
int limpet_recorder_add_module(struct limpet_recorder *recorder,
			       const struct limpet_recorder_module *module);

/* What tells the builds of a module apart that has no build-id. A later one replaces the one
 * before.
 */
void limpet_recorder_identify_module(struct limpet_recorder *recorder, uint32_t module,
				     const struct limpet_file_identity *identity);

/* Adds a node of the tree of stacks. Numbers are the agent's, from 1, in any order, but the parent
 * (0: root) always before the child. `module` 0: none (JIT code); `flags`: LIMPET_TRACE_NODE_*.
 * Call before the first event that uses the node. */
int limpet_recorder_add_node(struct limpet_recorder *recorder, uint32_t node, uint32_t parent,
			     uint64_t address, uint32_t module, uint32_t flags);
/* Names a place of a script (LIMPET_TRACE_SCRIPT_ADDRESS): the functions there, innermost first, of
 * which each is inlined into the next. A later name replaces the one before. */
struct limpet_recorder_frame {
	const char *function, *file; /* file NULL, line or column 0: not known */
	uint32_t line, column;
};
void limpet_recorder_name_script(struct limpet_recorder *recorder, uint64_t address,
				 const struct limpet_recorder_frame *frames, uint32_t count);
/* Names an allocator (`number`: 1 to LIMPET_TRACE_OWNERS_MAX - 1). Call before its first node is
 * added: one with LIMPET_TRACE_NODE_OWNER, whose address is that number. */
void limpet_recorder_name_owner(struct limpet_recorder *recorder, uint32_t number,
				const char *name);

/* Names a thread, by the id that its events have; "": none. A later name replaces the one before.
 */
void limpet_recorder_name_thread(struct limpet_recorder *recorder, uint32_t tid, const char *name);

/* Adds an event, in order of time. An event that no program can cause (an unknown kind, address 0,
 * a range that wraps) counts as dropped, and is no error. A stack that was not described is
 * unknown, and counts as truncated. -ENOMEM: the accounting is not exact from here on, and the END
 * block says so (LIMPET_LOSS_MEMORY). */
int limpet_recorder_add_event(struct limpet_recorder *recorder, const struct limpet_record *record);
/* The index of the first record from `from` on whose stack was not added; `count`: there is none.
 * Unknown stacks (0) need not be. */
size_t limpet_recorder_find_unknown(const struct limpet_recorder *recorder,
				    const struct limpet_record *records, size_t from, size_t count);
/* Adds many events, in order of time: cheaper, as the accounting prefetches what they touch.
 * Replaces their nodes by the trace's. */
int limpet_recorder_add_events(struct limpet_recorder *recorder, struct limpet_record *records,
			       size_t count);
/* Keeps the first error of the file among the results of the two functions above. -ENOMEM
 * is none, and does not end a capture. If it is the file's, limpet_recorder_tick() returns it. */
static inline void limpet_recorder_keep_error(int *first, int64_t result)
{
	if (result < 0 && result != -ENOMEM && !*first)
		*first = (int)result;
}

/* Figures from the collector, at least once a second, and at every flush. Closes the current
 * period: events and sums up to `time_ns` go to the file as whole frames, so that only later events
 * can be lost after this call. */
struct limpet_recorder_tick {
	uint64_t time_ns;
	uint64_t rss_bytes;
	uint64_t cgroup_bytes; /* charged to the target's cgroup; 0: unknown */
	uint32_t threads;      /* of the process; 0: unknown */
	uint64_t agent_bytes;  /* limpet's own part of rss_bytes; 0: unknown */
	uint64_t file_bytes; /* its pages of files, and shared ones, without limpet's; 0: unknown */
	uint64_t dropped_events; /* all of these since the start */
	uint64_t truncated_stacks;
	uint64_t unseen_calls; /* calls that could not be recorded for lack of thread state... */
	struct limpet_dropped dropped; /* of the dropped events, by kind */
	uint64_t losses; /* LIMPET_LOSS_BIT: losses that the recorder cannot determine itself, as
			    far as known; they are in the trace even if no END block is written */
};
int limpet_recorder_tick(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick);

/* A tick whose time the user has named: all events before it are added. The mark is in the file
 * when this returns. -EINVAL: not a name of a mark; -EEXIST: there is such a mark; -E2BIG: there
 * are LIMPET_MARKS_MAX. */
int limpet_recorder_add_mark(struct limpet_recorder *recorder, const char *name,
			     const struct limpet_recorder_tick *tick);

/* Whether to end the capture, since the disk is nearly full: all that is known still fits. Call
 * once per tick. */
bool limpet_recorder_disk_is_low(struct limpet_recorder *recorder);

/* Resident memory at the end: [start, end), whole pages. */
struct limpet_recorder_run {
	uint64_t start, end;
};
/* Of the pages in [from, to) on which live heap blocks lie, those in the runs were resident and the
 * others were not; of others nothing is said. The runs are ascending, apart, and within [from, to).
 */
struct limpet_recorder_resident {
	uint64_t from, to; /* whole pages */
	uint64_t page_bytes;
	const struct limpet_recorder_run *runs;
	size_t count;
};

struct limpet_recorder_end {
	enum limpet_end end;
	uint64_t time_ns;
	uint64_t losses; /* LIMPET_LOSS_BIT: those of the last tick, and those known only at the end
			  */
	bool agent_unloaded;
	int64_t attach_stop_us; /* < 0: unknown */
	int64_t detach_stop_us;
	uint64_t agent_memory_bytes;   /* that was mapped */
	uint64_t agent_resident_bytes; /* the most of it that was resident; 0: unknown */
	const char *because; /* why it is not complete, in more detail than its losses; NULL or "":
				none */
	const char *unfollowed; /* as in the options; NULL or "": nothing new is known */
	const struct limpet_recorder_resident *resident; /* NULL: not known */
	const struct limpet_resident_account *account;   /* at the end; NULL: not known */
	const struct limpet_object_counts *objects;      /* the same */
	const struct limpet_leak_counts *leaks;          /* the same */
};
/* Last tick, END block, fsync. The file is whole from here on; sealing may append symbols. */
int limpet_recorder_finish(struct limpet_recorder *recorder,
			   const struct limpet_recorder_tick *tick,
			   const struct limpet_recorder_end *end);
/* The live heap blocks in order of address, and the node of a site of theirs. No event may be added
 * afterwards. */
struct limpet_live_entry;
const struct limpet_live_entry *limpet_recorder_live(struct limpet_recorder *recorder,
						     size_t *ret_count);
uint32_t limpet_recorder_site_node(const struct limpet_recorder *recorder, uint32_t site);
/* Reports the live heap blocks in order of address, until `each` returns false. No event may be
 * added afterwards. */
void limpet_recorder_walk_blocks(struct limpet_recorder *recorder,
				 bool (*each)(void *context, uint64_t address, uint64_t size),
				 void *context);
/* The losses in the END block, LIMPET_LOSS_BIT: those passed to the recorder, and its own. Call
 * after _finish(); if that failed, the file may have fewer, but never more. */
uint64_t limpet_recorder_losses(const struct limpet_recorder *recorder);
void limpet_recorder_free(struct limpet_recorder *recorder);

/* For the live line and `limpet status`: cheap. */
struct limpet_recorder_stats {
	uint64_t events, file_bytes;
	uint64_t allocations, frees, live_bytes, live_allocations, peak_bytes;
	bool estimated;                       /* live figures are estimated from samples */
	uint64_t foreign_frees, mapped_bytes; /* mapped: by the mmap family, live since the start */
	uint64_t events_given_up;             /* single ones: the reader of a stream was too slow */
	uint64_t inferred_frees;              /* frees not seen: the address was allocated again */
	uint64_t unmatched_table_full;
	uint32_t growing_node; /* site whose live bytes grew most since the capture's start; 0 none
				*/
	uint64_t growing_bytes;
};
void limpet_recorder_stats_read(const struct limpet_recorder *recorder,
				struct limpet_recorder_stats *ret_stats);
/* Sealing reads every distinct (module, address) of the nodes back from the trace. */

#endif
