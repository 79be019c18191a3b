/* Reads a trace, block by block. The file is hostile input: every count and length is checked
 * before memory is allocated for it, a decompressed block is bounded, and damage costs only the
 * block it hits. Works on a trace that is still being written.
 *
 * Functions return 0, a count, or -errno; -EBADMSG: damaged block. A reader is for one thread. What
 * they hand out by pointer belongs to the reader and lives as long as it. Strings are as the target
 * had them: any byte but NUL. */
#ifndef LIMPET_ANALYZER_TRACE_TRACE_READER_H
#define LIMPET_ANALYZER_TRACE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/counts.h"
#include "common/err.h"
#include "common/file_identity.h"
#include "common/leak_counts.h"
#include "common/losses.h"
#include "common/object_counts.h"
#include "common/resident_account.h"
#include "common/trace_format.h"
#include "common/varint.h"

struct limpet_trace_reader;

/* Indexes the blocks, checks the frame of each, reads head, modules, nodes and end. Errors, each
 * with its own message: -ENOENT, -EACCES... (cannot open), -ENODATA (empty, or without a whole
 * block), -ENOMSG (not a trace), -EPROTONOSUPPORT (written by a newer limpet). Damage is no error
 * if a whole block is left. */
/* A file of heaptrack is recognized by its contents, and read as a compact trace that heaptrack
 * recorded. */
int limpet_trace_reader_open(const char *path, struct limpet_trace_reader **ret_reader,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_trace_reader_free(struct limpet_trace_reader *reader);

/* Reads what was appended to the file since it was opened or last followed; all pointers handed out
 * before become invalid. Returns the number of new blocks; -ESTALE: what was read has changed (a
 * bounded or compact trace), open it again. */
int64_t limpet_trace_reader_follow(struct limpet_trace_reader *reader) LIMPET_MUST_CHECK;
/* Whether a writer held the lock on the file when it was opened or last followed. */
bool limpet_trace_reader_writer_alive(const struct limpet_trace_reader *reader);

/* ------------------------------------------------------------------ tables and damage */

struct limpet_trace_target {
	bool known; /* false: the head is damaged; all below is zero, "" */
	uint32_t pid;
	const char *comm, *command, *executable; /* "" when unknown */
	uint64_t start_ticks;                    /* /proc/PID/stat field 22 */
	enum limpet_capture_mode mode;
	uint64_t wall_ns; /* CLOCK_REALTIME of time 0 */
	uint64_t sample_bytes;
	uint64_t overload_bytes; /* the period of samples in overloads; 0: none are taken */
	uint32_t max_depth;
	double unseen_rss_share; /* < 0: not a partial capture */
	const char *allocators;  /* "glibc 2.36" */
	const char *recorder;    /* another profiler that recorded it: "heaptrack"; "": limpet */
	const char *host, *kernel, *machine, *boot_id;
	const char *container;       /* its id; "": in none, or unknown */
	uint64_t cgroup_limit_bytes; /* 0: unlimited or unknown */
	bool compact;                /* sums of time spans, no single events */
	bool pages;                  /* blocks are pages of memory that were touched */
	bool other_allocators;       /* others than glibc's are followed */
	uint64_t max_bytes; /* the oldest events were discarded to stay within it; 0: none were */
	uint64_t page_bytes;
	uint32_t cpus;
	struct limpet_resident_account account; /* before the capture; of the reader */
	struct limpet_object_counts objects;    /* of a managed heap; of the reader */
	const char *labels;                     /* the user's: for limpet_labels_next() */
	const char *unfollowed; /* allocators that may own its unknown part; "": not known */
};
const struct limpet_trace_target *limpet_trace_reader_target(
	const struct limpet_trace_reader *reader);

struct limpet_trace_module {
	uint32_t number; /* from 1; 0: an entry that was lost */
	uint64_t start, end, bias;
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_bytes;
	struct limpet_file_identity identity; /* of a module without build-id */
	bool allocator;
};
/* Entry n is module number n; entry 0 is a dummy. Returns the number of entries. */
uint32_t limpet_trace_reader_modules(const struct limpet_trace_reader *reader,
				     const struct limpet_trace_module **ret_modules);

struct limpet_trace_node {
	uint64_t address; /* return address in the target; look up address - 1 */
	uint32_t parent;  /* < own number; 0: root */
	uint32_t module;  /* number, always valid as an index; 0: none known */
	bool truncated;   /* the walk ended here */
	bool made;        /* JIT-compiled code */
	bool lost;        /* its block is damaged: nothing is known */
	uint16_t owner;   /* number of the allocator of this stack's blocks; 0: not recorded */
};
/* Entry n is node n; entry 0 is the root. Returns the number of entries. */
uint32_t limpet_trace_reader_nodes(const struct limpet_trace_reader *reader,
				   const struct limpet_trace_node **ret_nodes);

/* Names of allocators, if there were several: entry n is that of owner n; entry 0 is a dummy, and
 * "" one that was lost. Returns the number of entries. */
uint32_t limpet_trace_reader_owners(const struct limpet_trace_reader *reader,
				    char *const **ret_names);

/* The last name that the trace has of a thread; "": none. */
const char *limpet_trace_reader_thread_name(const struct limpet_trace_reader *reader, uint32_t tid);

/* A time that the user named: `limpet mark`. */
struct limpet_trace_user_mark {
	char *name; /* not empty; limpet_mark_name_refuse() need not accept it */
	uint64_t time_ns;
};
/* By time. Returns their number. */
size_t limpet_trace_reader_marks(const struct limpet_trace_reader *reader,
				 const struct limpet_trace_user_mark **ret_marks);

struct limpet_trace_end {
	bool known;          /* there is an END record */
	enum limpet_end end; /* !known: RUNNING if a writer holds the lock, else COLLECTOR_LOST */
	uint64_t time_ns;    /* of the end; without a record: of the last whole period */
	uint64_t losses;     /* LIMPET_LOSS_BIT, as recorded */
	bool agent_unloaded;
	int64_t attach_stop_us, detach_stop_us;            /* < 0: unknown */
	uint64_t agent_memory_bytes, agent_resident_bytes; /* the latter is a maximum; 0: unknown */
	const char *because;    /* why it is not complete, in addition to the losses; "": none */
	const char *unfollowed; /* allocators that may own the unknown memory; "": not known */
	struct limpet_resident_account account; /* resident memory at the end; of the reader */
	struct limpet_object_counts objects;    /* the same of a managed heap */
	struct limpet_leak_counts leaks;        /* of the reader */
	bool has_peak; /* the capture's peak is only known to be between these, in bytes */
	uint64_t peak_min, peak_max;
};
const struct limpet_trace_end *limpet_trace_reader_end(const struct limpet_trace_reader *reader);

struct limpet_trace_damage {
	uint64_t blocks_damaged; /* with a readable mark, but not whole */
	uint64_t blocks_lost;    /* missing numbers */
	uint64_t bytes_ignored;  /* that belong to no whole block, including an unfinished tail */
	bool truncated;          /* it ends within a block, without a writer or an END */
	bool gone; /* some of these blocks belonged to the capture, not only to symbols */
	/* of another profiler's file: lines that could be read, those of them that made no sense,
	 * and the number of the first such line */
	uint64_t lines, bad_lines, first_bad_line;
};
const struct limpet_trace_damage *limpet_trace_reader_damage(
	const struct limpet_trace_reader *reader);

uint64_t limpet_trace_reader_file_bytes(const struct limpet_trace_reader *reader);
/* `capture.end` as reports spell it. */
const char *limpet_trace_end_word(enum limpet_end end);

/* ------------------------------------------------------------------ blocks */

struct limpet_trace_block {
	uint16_t type; /* enum limpet_trace_block_type; skip unknown types */
	bool damaged;  /* or replaced by another, but not yet removed */
	uint32_t sequence;
	uint32_t frame_bytes, content_bytes;
	uint64_t first_ns, last_ns; /* time it covers */
	uint64_t offset;            /* of the mark */
};
/* In the order of the file. Returns their number. */
size_t limpet_trace_reader_blocks(const struct limpet_trace_reader *reader,
				  const struct limpet_trace_block **ret_blocks);
/* Index of the block with that sequence number, or -1. */
long limpet_trace_reader_find(const struct limpet_trace_reader *reader, uint32_t sequence);

/* Decompresses a block. *ret_buffer contains the sections; the caller must free it. */
int limpet_trace_reader_load(struct limpet_trace_reader *reader, size_t block, uint8_t **ret_buffer,
			     struct limpet_cursor *ret_sections);

/* ------------------------------------------------------------------ events of one EVENTS block */

struct limpet_trace_event {
	uint64_t time_ns; /* a multiple of the tick */
	uint64_t size;
	uint64_t address; /* 0: not kept */
	uint64_t age_ns;  /* FREE, UNMAPPED, INFERRED_FREE: lifetime, in whole ticks */
	uint32_t node; /* ALLOC, MMAP: the stack; FREE...: stack of the allocation; always valid */
	uint32_t tid;
	uint16_t kind; /* enum limpet_trace_row */
	bool temporary;
	bool sampled; /* its block was sampled in an overload: it represents more than itself */
	bool realloc; /* half of a realloc: the block that it releases, or the one that continues it
		       */
	bool counted; /* an event: a call of the target, not an effect of one */
};
struct limpet_trace_events;

int limpet_trace_events_open(struct limpet_trace_reader *reader, size_t block,
			     struct limpet_trace_events **ret_events);
/* 1: filled in; 0: no more; -EBADMSG: the rest is damaged. */
int limpet_trace_events_next(struct limpet_trace_events *events,
			     struct limpet_trace_event *ret_event);
void limpet_trace_events_free(struct limpet_trace_events *events);

/* The same, several rows at a time and one array per field, for reading a whole trace. */
#define LIMPET_TRACE_SOME_ROWS 256u
struct limpet_trace_rows {
	uint32_t count;
	uint8_t ops[LIMPET_TRACE_SOME_ROWS]; /* their LIMPET_ROW_KIND is a known kind */
	uint64_t ticks[LIMPET_TRACE_SOME_ROWS];
	uint32_t threads[LIMPET_TRACE_SOME_ROWS]; /* index into the block's threads */
	uint32_t pairs[LIMPET_TRACE_SOME_ROWS];   /* index into its pairs; kinds without one:
						     undefined */
	uint64_t ages[LIMPET_TRACE_SOME_ROWS];    /* ticks; kinds without one: undefined */
	uint32_t owners[LIMPET_TRACE_SOME_ROWS]; /* as threads: the thread that allocated the block;
						    kinds without an age: undefined */
	uint64_t sizes[LIMPET_TRACE_SOME_ROWS];  /* of kinds without a pair; others: undefined */
	uint64_t addresses[LIMPET_TRACE_SOME_ROWS]; /* undefined if they are not kept */
};
/* 1: the next rows, at least one, valid until the next call; 0: no more; -EBADMSG: the rest is
 * damaged. */
int limpet_trace_events_rows(struct limpet_trace_events *events,
			     const struct limpet_trace_rows **ret_rows);
/* Stack (always valid) and size of each pair. Returns their number. */
uint32_t limpet_trace_events_pairs(const struct limpet_trace_events *events,
				   const uint32_t **ret_nodes, const uint64_t **ret_sizes);
/* The thread ids of the rows, followed by a 0 for an unknown thread. Returns their number,
 * including the 0. */
uint32_t limpet_trace_events_threads(const struct limpet_trace_events *events,
				     const uint32_t **ret_tids);

/* ------------------------------------------------------------------ one PERIOD block */

struct limpet_trace_site {
	uint32_t node;
	struct limpet_counts counts;
};
struct limpet_trace_map_site {
	uint32_t node;
	struct limpet_map_counts counts;
};
/* A time in which allocations were sampled; a later period may continue it. */
struct limpet_trace_overload {
	uint64_t from_ns, to_ns;
};
struct limpet_trace_held {
	uint32_t node;
	uint64_t allocations, bytes;
};
struct limpet_trace_point {
	uint64_t time_ns, live_bytes, rss_bytes, cgroup_bytes, mapped_bytes, allocations;
};
/* Of a PERIOD, or of the whole capture so far: SUMS. */
struct limpet_trace_period {
	bool is_sums;
	uint32_t events_sequence; /* its EVENTS block; 0: none */
	uint32_t rows;
	uint64_t first_ns, last_ns;
	struct limpet_totals totals;
	uint64_t rss_bytes, cgroup_bytes;                        /* at its end; 0: unknown */
	uint64_t threads, agent_bytes;                           /* the same */
	uint64_t file_bytes;                                     /* the same */
	uint64_t dropped_events, truncated_stacks, unseen_calls; /* since the start */
	struct limpet_dropped dropped;                           /* of the dropped events */
	uint64_t inferred_frees, inferred_bytes;                 /* since there were losses */
	uint64_t losses;     /* LIMPET_LOSS_BIT, as far as known at its end */
	uint64_t peak_bytes; /* within the period */
	uint32_t peak_row;   /* rows of the block up to it */
	uint64_t peak_ns;
	uint64_t capture_peak_bytes, capture_peak_ns; /* so far */
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS];
	const struct limpet_trace_site *sites; /* of this period alone, by node */
	uint32_t site_count;
	const struct limpet_trace_map_site *maps;
	uint32_t map_count;
	const struct limpet_trace_overload *overloads; /* by time; may reach back before it */
	uint32_t overload_count;
	const struct limpet_trace_held *held; /* at the capture's peak; NULL: not recorded */
	uint32_t held_count;
	const struct limpet_trace_point *points; /* SUMS: of the time before */
	uint32_t point_count;
};
/* A PERIOD or SUMS block. */
int limpet_trace_period_load(struct limpet_trace_reader *reader, size_t block,
			     struct limpet_trace_period **ret_period);
void limpet_trace_period_free(struct limpet_trace_period *period);

/* ------------------------------------------------------------------ one LIVE block */

struct limpet_trace_live {
	uint64_t address, size, time_ns; /* time of the allocation */
	uint32_t node, tid;
	bool mapping; /* by the mmap family */
	bool sampled; /* in an overload */
};
/* The caller must free *ret_list. Returns the number of entries. */
int64_t limpet_trace_live_load(struct limpet_trace_reader *reader, size_t block,
			       struct limpet_trace_live **ret_list);

/* ------------------------------------------------------------------ one RESIDENT block */

/* [start, end), whole pages. */
struct limpet_trace_run {
	uint64_t start, end;
};
/* Of the pages in [from, to) on which live heap blocks lie, those in the runs were resident when
 * the capture ended, and the others were not. */
struct limpet_trace_resident {
	uint64_t page_bytes; /* a power of two */
	uint64_t from, to;
	struct limpet_trace_run *runs; /* ascending, apart, not empty, within [from, to) */
	size_t count;
};
/* The caller must free *ret_resident with _free(). */
int limpet_trace_resident_load(struct limpet_trace_reader *reader, size_t block,
			       struct limpet_trace_resident **ret_resident);
void limpet_trace_resident_free(struct limpet_trace_resident *resident);

#endif
