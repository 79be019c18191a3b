/* The trace file: the numbers that its writer (collector/record/) and its readers (analyzer/)
 * share. limpet-trace(5) describes the format in full; this header names its constants.
 * Freestanding.
 *
 * A trace is a sequence of blocks. A block is a zstd skippable frame, the mark, followed by one
 * zstd frame with a content checksum. `zstd -dc` therefore yields the concatenated contents. */
#ifndef LIMPET_COMMON_TRACE_FORMAT_H
#define LIMPET_COMMON_TRACE_FORMAT_H

#include <stdint.h>

/* Raised when an older reader would misread; new sections and block types do not raise it. */
#define LIMPET_TRACE_VERSION 1u

/* The mark: skippable frame magic, length of its payload, payload. Frozen over all versions. */
#define LIMPET_TRACE_SKIPPABLE_MAGIC 0x184D2A5Cu
#define LIMPET_TRACE_MARK_MAGIC 0x54504D4Cu    /* "LMPT" */
#define LIMPET_TRACE_CONTENT_MAGIC 0x42504D4Cu /* "LMPB": begins each content */
#define LIMPET_TRACE_MARK_PAYLOAD_BYTES 48u
#define LIMPET_TRACE_MARK_BYTES (8u + LIMPET_TRACE_MARK_PAYLOAD_BYTES)
#define LIMPET_TRACE_CONTENT_HEAD_BYTES 16u

/* A reader refuses to decompress more than this per block; a writer stays far below it. */
#define LIMPET_TRACE_CONTENT_MAX_BYTES (64u << 20)
/* Rows of an EVENTS block after which the writer starts another. */
#define LIMPET_TRACE_ROWS_PER_BLOCK 131072u
/* The limit of a reader: one munmap may add a row for each mapping it covers. */
#define LIMPET_TRACE_ROWS_MAX (1u << 21)
#define LIMPET_TRACE_LIVE_MAX (1u << 20)
#define LIMPET_TRACE_RUNS_MAX (1u << 20)
#define LIMPET_TRACE_NODES_MAX (1u << 24)
#define LIMPET_TRACE_MODULES_MAX (1u << 20)
#define LIMPET_TRACE_STRING_MAX_BYTES (1u << 20)

/* Times of events are kept in ticks since the capture's start. */
#define LIMPET_TRACE_TICK_NS 10000u

enum limpet_trace_block_type {
	LIMPET_TRACE_HEADER = 1,
	LIMPET_TRACE_MODULES = 2,
	LIMPET_TRACE_NODES = 3,
	LIMPET_TRACE_EVENTS = 4,
	LIMPET_TRACE_PERIOD = 5,
	LIMPET_TRACE_LIVE = 6,
	LIMPET_TRACE_END = 7,
	LIMPET_TRACE_SYMBOLS = 8,
	LIMPET_TRACE_SUMS = 9, /* sections of a PERIOD: since the capture's start */
	LIMPET_TRACE_GAP =
		10, /* blocks were given up here, or replaced; its frame is not checked */
	LIMPET_TRACE_THREADS = 11, /* names of threads */
	LIMPET_TRACE_RESIDENT =
		12,             /* the pages of live heap blocks that were resident at the end */
	LIMPET_TRACE_MARKS = 13 /* times that the user named; not the marks of blocks */
};
/* A GAP's frame is a zstd skippable frame: this header, and the old contents or nothing. */
#define LIMPET_TRACE_GAP_MAGIC 0x184D2A50u
#define LIMPET_TRACE_GAP_HEAD_BYTES 8u

/* Values of capture.mode and capture.end. */
enum limpet_capture_mode { LIMPET_MODE_ATTACH = 0, LIMPET_MODE_RUN = 1 };
enum limpet_end {
	LIMPET_END_RUNNING = 0,
	LIMPET_END_DURATION,
	LIMPET_END_INTERRUPT,
	LIMPET_END_STOP,
	LIMPET_END_TARGET_EXIT,
	LIMPET_END_TARGET_EXEC,
	LIMPET_END_TARGET_KILLED,
	LIMPET_END_DISK_FULL,
	LIMPET_END_SIZE_LIMIT,
	/* inferred by a reader, never written */
	LIMPET_END_COLLECTOR_LOST,
	LIMPET_END_UNKNOWN, /* another profiler recorded it */
	LIMPET_END_COUNT
};

/* ------------------------------------------------------------------ sections
 *
 * After its head a content is a sequence of sections: tag, length in bytes (both LEB128), bytes.
 * A reader skips tags it does not know. Integers in sections are unsigned LEB128. */
enum limpet_trace_header_section {
	LIMPET_HEADER_PID = 1,
	LIMPET_HEADER_COMM,
	LIMPET_HEADER_COMMAND,
	LIMPET_HEADER_EXECUTABLE,
	LIMPET_HEADER_MODE,
	LIMPET_HEADER_START_TICKS, /* of the target, clock ticks after boot */
	LIMPET_HEADER_WALL_NS,     /* CLOCK_REALTIME of the capture's time 0 */
	LIMPET_HEADER_SAMPLE_BYTES,
	LIMPET_HEADER_MAX_DEPTH,
	LIMPET_HEADER_UNSEEN_RSS_PPM, /* absent: not a partial capture */
	LIMPET_HEADER_ALLOCATORS,
	LIMPET_HEADER_HOST,
	LIMPET_HEADER_KERNEL,
	LIMPET_HEADER_MACHINE,
	LIMPET_HEADER_BOOT_ID,
	LIMPET_HEADER_PAGE_BYTES,
	LIMPET_HEADER_CPUS,
	LIMPET_HEADER_CONTAINER,
	LIMPET_HEADER_CGROUP_LIMIT_BYTES, /* absent: unlimited or unknown */
	LIMPET_HEADER_OVERLOAD_BYTES,  /* period of samples taken in overloads; 0: none are taken */
	LIMPET_HEADER_COMPACT,         /* 1: no EVENTS */
	LIMPET_HEADER_MAX_BYTES,       /* absent: nothing is given up */
	LIMPET_HEADER_UNFOLLOWED = 33, /* allocators that are not followed, in words */
	LIMPET_HEADER_PAGES,           /* 1: blocks are pages of memory that were touched */
	/* Of resident memory, before the agent was loaded: sum, bytes that malloc_trim(0) returns,
	 * rows; of each length and bytes of its kind and of its owner, bytes, count, free bytes + 1
	 * (0: unknown). */
	LIMPET_HEADER_ACCOUNT,
	/* Of a managed heap: rows; of each kind, length and bytes of name and script, line, number,
	 * bytes, those outside. */
	LIMPET_HEADER_OBJECTS,
	LIMPET_HEADER_OTHERS,   /* 1: other allocators than glibc's are followed */
	LIMPET_HEADER_RECORDER, /* another profiler that recorded it */
	LIMPET_HEADER_LABELS    /* common/labels.h */
};

enum limpet_trace_modules_section {
	LIMPET_MODULES_LIST = 1,
	/* count, then module, length of the rest, size, time of the last change, checksum; the last
	   is absent if it is unknown */
	LIMPET_MODULES_FILES
};
#define LIMPET_MODULE_ALLOCATOR 1u /* flag: frames in it are noise */

enum limpet_trace_threads_section {
	LIMPET_THREADS_LIST = 1 /* count, then thread id, length and bytes of each name */
};
#define LIMPET_TRACE_THREADS_MAX (1u << 20)

enum limpet_trace_marks_section {
	LIMPET_MARKS_LIST = 1 /* count, then time in ns, length and bytes of the name of each */
};

enum limpet_trace_nodes_section {
	LIMPET_NODES_LIST = 1,
	LIMPET_NODES_OWNERS /* number, length and bytes of the name of each allocator */
};
#define LIMPET_TRACE_NODE_TRUNCATED 1u
/* Not a frame: represents its parent's stack, for the blocks of the allocator that the address
 * names. */
#define LIMPET_TRACE_NODE_OWNER 2u
/* In no module, and in anonymous executable memory when the stack was recorded: JIT-compiled code.
 */
#define LIMPET_TRACE_NODE_MADE 4u
#define LIMPET_TRACE_OWNERS_MAX 4096u
/* Of a node with MADE: no address, but the number of a place in a function that an interpreter
 * runs, plus this. */
#define LIMPET_TRACE_SCRIPT_ADDRESS ((uint64_t)1 << 63)

enum limpet_trace_events_section {
	LIMPET_EVENTS_COUNTS = 1, /* rows, events, first tick */
	LIMPET_EVENTS_OPS,        /* one byte per row */
	LIMPET_EVENTS_TIMES,      /* ticks since the row before */
	LIMPET_EVENTS_PAIR_NODES, /* the dictionary of (node, size), in order of first use */
	LIMPET_EVENTS_PAIR_SIZES,
	LIMPET_EVENTS_PAIRS, /* index into the dictionary */
	LIMPET_EVENTS_AGES,  /* ticks since the block's allocation */
	LIMPET_EVENTS_TIDS,  /* the thread table */
	LIMPET_EVENTS_SWITCHES,
	LIMPET_EVENTS_SIZES,     /* of rows without a pair */
	LIMPET_EVENTS_ADDRESSES, /* if they are kept: signed difference to the row before */
	LIMPET_EVENTS_OWNERS, /* of rows with an age: 0: the row's thread allocated the block, else
				 the allocating thread's index into the thread table + 1 */
	/* If pairs are scattered, these replace PAIR_NODES, PAIR_SIZES, PAIRS and AGES. Each WIDE
	 * has three sections: the lowest bytes, the second ones, and the rest. */
	LIMPET_EVENTS_NODES = 13,
	LIMPET_EVENTS_WIDE_PAIR_NODES = 14, /* index into NODES */
	LIMPET_EVENTS_WIDE_PAIR_SIZES = 17,
	LIMPET_EVENTS_WIDE_MADE = 20, /* of rows without an age: number of pairs known so far minus
					 the pair's index; 0: the next one */
	LIMPET_EVENTS_WIDE_GONE = 23, /* the same, of rows with an age */
	LIMPET_EVENTS_PAIR_NIBBLES = 26, /* the second bytes of both WIDE_PAIR columns, if all are
					    below 16: low four bits the node's, high the size's */
	LIMPET_EVENTS_AGE_STEPS = 27, /* signed difference to the time since the last row without an
					 age that had this pair; if the block has none, the age */
	LIMPET_EVENTS_SECTIONS = 28
};
/* Signed numbers as unsigned ones: the lowest bit is the sign. */
static inline uint64_t limpet_trace_zigzag(uint64_t difference)
{
	return difference << 1 ^ (0 - (difference >> 63));
}
static inline uint64_t limpet_trace_unzigzag(uint64_t number)
{
	return number >> 1 ^ (0 - (number & 1));
}
/* The op byte: kind, and four flags. */
enum limpet_trace_row {
	LIMPET_ROW_ALLOC = 1,        /* pair */
	LIMPET_ROW_FREE = 2,         /* pair of the block, age */
	LIMPET_ROW_FOREIGN_FREE = 3, /* size: usable bytes, 0 unknown */
	LIMPET_ROW_MMAP = 4,         /* pair */
	LIMPET_ROW_MUNMAP = 5,       /* size: length of the call */
	LIMPET_ROW_UNMAPPED = 6,  /* pair (its mapping's node, bytes of this part), age; before the
				     MUNMAP, or the MMAP over it, that caused it. No event */
	LIMPET_ROW_UNTRACKED = 7, /* pair: an allocation that did not fit the live table */
	LIMPET_ROW_INFERRED_FREE = 8 /* pair, age: its address was allocated again, so the free was
					not seen. No event */
};
#define LIMPET_ROW_KIND(op) ((op)&0x0fu)
static inline int limpet_row_has_age(unsigned kind)
{
	return kind == LIMPET_ROW_FREE || kind == LIMPET_ROW_UNMAPPED ||
	       kind == LIMPET_ROW_INFERRED_FREE;
}
static inline int limpet_row_has_pair(unsigned kind)
{
	return kind != LIMPET_ROW_FOREIGN_FREE && kind != LIMPET_ROW_MUNMAP;
}
#define LIMPET_ROW_TEMPORARY 0x10u
#define LIMPET_ROW_SWITCH 0x20u  /* the thread differs from the row before: index in SWITCHES */
#define LIMPET_ROW_SAMPLED 0x40u /* of a block that was sampled in an overload */
#define LIMPET_ROW_REALLOC 0x80u /* of an allocation or a free: half of a realloc */

enum limpet_trace_period_section {
	LIMPET_PERIOD_EVENTS = 1, /* sequence number of the EVENTS block (0: none), rows */
	LIMPET_PERIOD_TOTALS, /* since the capture's start, in the order of limpet_trace_total */
	LIMPET_PERIOD_GAUGES, /* time in ns, RSS, charged to the cgroup, threads, upper bound of
				 limpet's own part of RSS, pages of files and shared ones in RSS
				 without limpet's own (0: unknown) */
	LIMPET_PERIOD_LOSSES, /* since the start: dropped events, truncated stacks, unseen calls;
				 the dropped by kind, see limpet_dropped; inferred frees and their
				 bytes since there were losses */
	LIMPET_PERIOD_PEAK, /* of the period: live bytes, rows up to it, time in ns; of the capture:
			       live bytes, time in ns */
	LIMPET_PERIOD_SIZES, /* bucket, allocations, bytes */
	LIMPET_PERIOD_SITES,
	LIMPET_PERIOD_MAPS,
	LIMPET_PERIOD_OVERLOADS, /* from, ns since the capture's start, and length of each; or of
				   the part of it that was known since the period before */
	LIMPET_PERIOD_HELD,      /* what sites held at the capture's peak: blocks, bytes */
	LIMPET_PERIOD_TIMELINE,  /* of SUMS: earlier points of time */
	LIMPET_PERIOD_REASONS,   /* a bit for each enum limpet_loss that is known to apply so far;
				    absent: none */
	LIMPET_PERIOD_REALLOCS   /* of SITES, those with any: frees that were a realloc's */
};
enum limpet_trace_total {
	LIMPET_TOTAL_EVENTS,
	LIMPET_TOTAL_ALLOCATIONS,
	LIMPET_TOTAL_ALLOCATED_BYTES,
	LIMPET_TOTAL_FREES,
	LIMPET_TOTAL_FREED_BYTES,
	LIMPET_TOTAL_TEMPORARY,
	LIMPET_TOTAL_FOREIGN_FREES,
	LIMPET_TOTAL_FOREIGN_FREED_BYTES,
	LIMPET_TOTAL_INFERRED_FREES, /* part of the frees */
	LIMPET_TOTAL_UNTRACKED,      /* part of the allocations, never live */
	LIMPET_TOTAL_UNTRACKED_BYTES,
	LIMPET_TOTAL_MMAPS,
	LIMPET_TOTAL_MMAP_BYTES,
	LIMPET_TOTAL_MUNMAPS,
	LIMPET_TOTAL_UNMAPPED_BYTES,         /* of mappings that the capture saw made */
	LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES, /* the rest of what munmap calls covered */
	LIMPET_TOTAL_REALLOCATIONS, /* part of the frees: by a realloc that returned a block */
	LIMPET_TOTAL_COUNT
};
/* Bucket of a size: 0 for 0, else n for [2^(n-1), 2^n). */
#define LIMPET_TRACE_SIZE_BUCKETS 65u

static inline unsigned limpet_trace_size_bucket(uint64_t size)
{
	return size ? 64u - (unsigned)__builtin_clzll(size) : 0;
}

enum limpet_trace_live_section {
	LIMPET_LIVE_COUNTS = 1, /* entries, kind: 0 heap blocks, 1 mappings */
	LIMPET_LIVE_ADDRESSES,  /* since the entry before; ascending */
	LIMPET_LIVE_SIZES,
	LIMPET_LIVE_NODES,
	LIMPET_LIVE_TICKS, /* of the allocation */
	LIMPET_LIVE_TIDS,
	LIMPET_LIVE_SAMPLED /* if there are any: a byte for each entry, 1: sampled in an overload */
};

/* Numbers of pages are addresses divided by the size of a page. */
enum limpet_trace_resident_section {
	LIMPET_RESIDENT_COUNTS = 1, /* runs, size of a page, first page looked at, the one after the
				       last */
	LIMPET_RESIDENT_RUNS        /* of each: pages since the run before or the first page looked
				       at, pages of it */
};

enum limpet_trace_end_section {
	LIMPET_ENDING_REASON = 1,
	LIMPET_ENDING_TIME_NS,
	LIMPET_ENDING_COMPLETE,
	LIMPET_ENDING_AGENT_UNLOADED,
	LIMPET_ENDING_ATTACH_STOP_US,
	LIMPET_ENDING_DETACH_STOP_US,
	LIMPET_ENDING_AGENT_MEMORY_BYTES,
	LIMPET_ENDING_LIVE_ENTRIES, /* heap blocks in the LIVE blocks; absent: not written */
	LIMPET_ENDING_BECAUSE,      /* why it is not complete, if no count shows it */
	LIMPET_ENDING_LOSSES,       /* a bit for each enum limpet_loss that applies */
	LIMPET_ENDING_AGENT_RESIDENT_BYTES, /* the most of its memory that was resident */
	LIMPET_ENDING_UNFOLLOWED = 33,      /* as in the HEADER, at the end */
	LIMPET_ENDING_ACCOUNT,              /* the same */
	LIMPET_ENDING_OBJECTS,              /* the same */
	LIMPET_ENDING_LEAKS,                /* which live blocks were lost, by site */
	LIMPET_ENDING_PEAK /* its bounds; absent: the one of the PERIODs is exact */
};

enum limpet_trace_symbols_section {
	LIMPET_SYMBOLS_STRINGS = 1, /* count, then length and bytes of each; index 0 is "none" */
	LIMPET_SYMBOLS_FILES,       /* count, then module, string of the file read, build-id */
	LIMPET_SYMBOLS_ADDRESSES,   /* count, then module, address, number of frames */
	LIMPET_SYMBOLS_FRAMES,      /* function, file, line, flags; innermost first */
	LIMPET_SYMBOLS_FINISHED     /* 1: every address was looked up */
};
#define LIMPET_SYMBOL_INLINED 1u
#define LIMPET_SYMBOL_COLUMN_SHIFT 1 /* above: the column, from 1; 0: unknown */

#endif
