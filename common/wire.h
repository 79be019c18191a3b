/* The wire: everything the agent (inside the target) and the injector/collector (outside) share.
 *
 * Freestanding: included by agent code that has no libc. All integers are little endian and of
 * fixed width; addresses of the target are uint64_t, never pointers.
 *
 * Trust: the agent trusts what the injector writes before `start`. The collector trusts nothing in
 * the shared memory or on the socket: it copies a value once, checks it, and uses the copy.
 */
#ifndef LIMPET_COMMON_WIRE_H
#define LIMPET_COMMON_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sample.h"

/* Raised whenever a layout or a meaning in this file changes. An injector only ever drives an
 * agent that answers with its own nonce; of any other it calls the `leave` entry, whose place and
 * meaning (struct limpet_agent_info) are frozen. */
#define LIMPET_AGENT_ABI 12u

#define LIMPET_SHM_MAGIC 0x314d48535450454cull  /* "LEPTSHM1" */
#define LIMPET_INFO_MAGIC 0x4f464e495450454cull /* "LEPTINFO" */

/* The agent's action around a call of the original function; its arguments are those of the C
 * prototype. */
enum limpet_op {
	LIMPET_OP_NONE = 0,
	LIMPET_OP_MALLOC,         /* (size) */
	LIMPET_OP_CALLOC,         /* (count, size) */
	LIMPET_OP_REALLOC,        /* (block, size) */
	LIMPET_OP_REALLOCARRAY,   /* (block, count, size) */
	LIMPET_OP_FREE,           /* (block, ...): free, free_sized, operator delete */
	LIMPET_OP_POSIX_MEMALIGN, /* (out, alignment, size) -> errno value */
	LIMPET_OP_MEMALIGN,       /* (alignment, size): memalign, aligned_alloc */
	LIMPET_OP_MMAP,           /* (address, length, protection, flags, fd, offset) */
	LIMPET_OP_MUNMAP,         /* (address, length) */
	LIMPET_OP_MREMAP,         /* (old, old length, new length, flags, [new]) */
	LIMPET_OP_LOADER, /* dlopen, dlsym...: look for new modules first, then jump there */
	LIMPET_OP_FINDER, /* _dl_find_object: answer for a mapped agent's own code, else jump there
			   */
	LIMPET_OP_INSIDE, /* the allocator's own affair: no event, nor are the calls that it makes
			   */
	LIMPET_OP_COUNT
};

/* ------------------------------------------------------------------ events, in chunks
 *
 * A record is 3 words of 64 bits, or 4 if its type has LIMPET_EVENT_WIDE. */
/* clang-format off */
/*
 *	word  bits    ordinary                         LIMPET_EVENT_WIDE
 *	0     0..7    enum limpet_event_type           the same
 *	      8..31   time                             the same
 *	      32..63  number                           the same
 *	1     0..63   address                          the same
 *	2     0..31   size, or usable size             size, all 64 bits
 *	      32..63  stack: its number, or 0
 *	3     0..31   -                                stack
 */
/* clang-format on */
/* A record of type LIMPET_EVENT_STACK is no event, takes no number of order and is of variable
 * length: 2 words, and as many as word 0 says, but at least one. */
/* clang-format off */
/*
 *	word  bits    a description                    LIMPET_STACK_OWNER
 *	0     0..7    LIMPET_EVENT_STACK               the same
 *	      8..31   words from word 2 on             1
 *	      32..63  the stack's number, from 1 on    the same
 *	1     0..31   outermost frames that it shares  number of the allocator
 *	              with the description before
 *	      32..63  LIMPET_STACK_*                   the same
 *	2...  0..63   the other frames, outermost      number of the stack without an owner
 *	              first; LIMPET_STACK_GONE: after
 *	              each what had gone from there
 */
/* clang-format on */
/* "Before": in the same chunk, of a stack without an owner; the first one of a chunk shares none.
 * A thread describes a stack before anybody can learn the number: whoever records an event with it
 * does so after the description was committed, though perhaps in another thread's chunks. A stack
 * may be described several times, under a number each. A frame is a return address; for the
 * innermost frame of a signal the interrupted pc + 1. */
#define LIMPET_STACK_TRUNCATED 1u /* the walk ended before it reached the thread's root */
#define LIMPET_STACK_OWNER 2u     /* the stack in word 2, for blocks of the allocator in word 1 */
/* Two words a frame: the second is the number of the last module that had gone from this address
 * by then (struct limpet_gone), 0: none. What comes to lie there later is not what was there
 * before. */
#define LIMPET_STACK_GONE 4u
#define LIMPET_STACK_FRAMES 256u /* at most */
#define LIMPET_STACK_HEAD_WORDS 2u
#define LIMPET_STACK_WORDS (LIMPET_STACK_HEAD_WORDS + 2 * LIMPET_STACK_FRAMES)
/* Numbers of stacks: the bit above is LIMPET_FINGERPRINT_TRUNCATED. */
#define LIMPET_STACKS_MAX 0x7fffffffu
#define LIMPET_STACK_COUNT(word0) ((uint32_t)(word0) >> 8)
#define LIMPET_STACK_NUMBER(word0) ((uint32_t)((word0) >> 32))

static inline uint32_t limpet_stack_bytes(uint32_t words)
{
	return (LIMPET_STACK_HEAD_WORDS + (words ? words : 1)) * 8;
}

/* The number gives the events of one address their order: a counter, chosen by the address
 * (limpet_order_counter), that the thread increments before a block is freed and after it was
 * allocated. Whatever hands a block or its address from thread to thread orders the increments,
 * too. Numbers start at 0 and wrap around; a number is taken for each record, and for nothing else.
 * The time is that of `limpet_shm.time`, and gives no order.
 *
 * FREE and MUNMAP carry no stack (0). A realloc that returns a block is FREE then ALLOC.
 *
 * Between OVERLOAD and ROOM, whose address is the overload's number, allocations are samples. Calls
 * that began before ROOM may follow it. */
enum limpet_event_type {
	LIMPET_EVENT_ALLOC = 1,      /* address, requested size, stack */
	LIMPET_EVENT_FREE = 2,       /* address, usable size (0: unknown) */
	LIMPET_EVENT_MMAP = 3,       /* address, length, stack */
	LIMPET_EVENT_MUNMAP = 4,     /* address, length */
	LIMPET_EVENT_OVERLOAD = 5,   /* from here on allocations are sampled... */
	LIMPET_EVENT_ROOM = 6,       /* ...and from here on all recorded again */
	LIMPET_EVENT_VOID = 7,       /* nothing: the call for which its number was taken failed;
				      * the address is the counter's */
	LIMPET_EVENT_STACK = 8,      /* describes a stack, see above */
	LIMPET_EVENT_SAMPLED = 0x40, /* flag of ALLOC: a sample, of an overload */
	LIMPET_EVENT_WIDE = 0x80     /* flag: size is a full word, the stack follows */
};

#define LIMPET_EVENT_TYPE(word0) ((uint32_t)((word0)&0xff))
#define LIMPET_EVENT_KIND(word0) ((uint32_t)((word0)&0x3f))
#define LIMPET_EVENT_NUMBER(word0) ((uint32_t)((word0) >> 32))
#define LIMPET_EVENT_TIME(word0) ((uint32_t)((word0) >> 8) & LIMPET_TIME_MASK)
#define LIMPET_TIME_MASK 0xffffffu
/* Of a record's time, and of limpet_shm.time: ten ticks of the trace. It wraps around after 28
 * minutes: a record is read sooner. */
#define LIMPET_TIME_UNIT_NS 100000u

/* Counters of order, in the target's private memory: those of blocks, of all mappings together
 * (they are ranges, and overlap), and of overloads. Neighbouring blocks have counters in one cache
 * line, so that threads with memory of their own share few lines. */
#define LIMPET_ORDER_BLOCKS 65536u
#define LIMPET_ORDER_MAPPINGS LIMPET_ORDER_BLOCKS
#define LIMPET_ORDER_OVERLOADS (LIMPET_ORDER_BLOCKS + 16u)
#define LIMPET_ORDER_COUNTERS (LIMPET_ORDER_BLOCKS + 32u)
#define LIMPET_ORDER_BYTES (LIMPET_ORDER_COUNTERS * 4u)

/* Of a block. The bits of an address from 1 MiB on are mixed in: threads' arenas lie at multiples
 * of 64 MiB. */
static inline uint32_t limpet_order_of_block(uint64_t address)
{
	uint64_t mixed = (address >> 20) * 0x9e3779b97f4a7c15ull;

	return ((uint32_t)(address >> 4) ^ (uint32_t)(mixed >> 44)) % LIMPET_ORDER_BLOCKS;
}

/* `type`: without its flags. */
static inline uint32_t limpet_order_counter(uint32_t type, uint64_t address)
{
	switch (type) {
	case LIMPET_EVENT_ALLOC:
	case LIMPET_EVENT_FREE:
		return limpet_order_of_block(address);
	case LIMPET_EVENT_VOID:
		return address < LIMPET_ORDER_COUNTERS ? (uint32_t)address : 0;
	case LIMPET_EVENT_MMAP:
	case LIMPET_EVENT_MUNMAP:
		return LIMPET_ORDER_MAPPINGS;
	default:
		return LIMPET_ORDER_OVERLOADS;
	}
}

#define LIMPET_CHUNK_BYTES 8192u
#define LIMPET_CHUNK_NONE 0u /* chunk indices start at 1 */

/* Head of a chunk; records follow at once. A chunk belongs to one thread until it is full or the
 * thread is gone; then the collector returns it to the free map. */
struct limpet_chunk {
	uint32_t thread;     /* index into the thread table */
	uint32_t generation; /* of that thread's claim */
	uint64_t sequence;   /* numbered per claim from 0 */
	uint32_t committed; /* bytes of whole records after this head; store-release by the owner */
	uint32_t next;      /* the following chunk or LIMPET_CHUNK_NONE; store-release when full */
	uint64_t lost_before; /* events dropped by this thread between the chunk before and this */
	uint32_t tid;         /* who wrote it: a re-used thread pointer starts a new chunk */
	uint32_t describes;   /* 1: there are descriptions in it; before they are committed */
	uint64_t reserved[3];
};

/* One thread of the target that has called a hook. 128 bytes: no two share a cache line pair.
 * Threads that share a thread pointer (a bare clone) are one here, and are not told apart: libc's
 * allocator cannot tell them apart either. */
struct limpet_thread {
	uint64_t thread_pointer; /* fs base; 0: free entry; claimed by compare and exchange */
	uint32_t tid;            /* as the target sees it */
	uint32_t generation;     /* +1 at each claim */
	/* Counters of order + 1, stored before a number is taken and cleared after its record was
	 * published; 0: none. `held`: across the call of an original. */
	uint32_t intent, held_intent;
	uint64_t pad;
	uint64_t entry_sp; /* stack pointer of the outermost unfinished hook */
	uint32_t depth; /* of the unfinished hook: its number + 1, 0: none; stale once it was left
			 * by longjmp or an exception (limpet_entry_witness) */
	uint32_t phase; /* enum limpet_phase */
	uint32_t first_chunk; /* of this claim; store-release */
	uint32_t chunk;       /* current chunk */
	uint64_t at, end;     /* in the target: the next record's place in it, and its end; owner
			       * only; equal: a new chunk is needed */
	uint64_t dropped;     /* events lost since the claim */
	uint64_t stack_low;   /* published by the collector, low first; readable range that */
	uint64_t stack_high;  /*   holds this thread's stack; 0: unknown */
	uint64_t sequence;    /* of the next chunk */
	uint32_t truncated;   /* stacks cut short */
	uint32_t stack_cache; /* the agent's own: page << 8 | count of what it remembers */
	struct limpet_sample_state sample;
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct limpet_thread) == 128, "two threads would write to one cache line");

enum limpet_phase {
	LIMPET_PHASE_OUTSIDE = 0, /* not in a hook, or in the original function */
	LIMPET_PHASE_RECORDING =
		1 /* in the agent's own code; a hook now comes from a signal handler */
};

/* Where an unfinished hook has a return address into the agent, counted from entry_sp: below the
 * frame of its way, below that of a way that keeps registers (one that copies arguments leaves that
 * of its first call there), and, of a hook in the midst of a function, in the frame. While none of
 * these words leads there, the hook is over. Where the stack pointer is proves nothing: a signal
 * handler, or a coroutine, may run on memory above. */
#define LIMPET_ENTRY_WITNESSES 3
static const int32_t limpet_entry_witness[LIMPET_ENTRY_WITNESSES] = {-8, -88, 104};

/* A stack that was described before, by the fingerprint of the words that the walk read, or by that
 * of its frames: an entry of one of two tables. */
struct limpet_fingerprint {
	uint64_t fingerprint;
	uint64_t state; /* low half: its number, with LIMPET_FINGERPRINT_TRUNCATED, or 0: empty;
			 * high half: +1 at each change, odd while it lasts */
};
#define LIMPET_FINGERPRINT_TRUNCATED (1u << 31) /* as of LIMPET_STACK_TRUNCATED */

/* ------------------------------------------------------------------ hooks and slots */

#define LIMPET_MAX_HOOKS 128u
#define LIMPET_MAX_FAMILY 64u

/* A distinct original function. Thunk i of the agent serves hook i. */
struct limpet_hook {
	uint64_t original;    /* 0: free entry */
	uint64_t usable_size; /* malloc_usable_size of the same allocator; 0: none */
	uint16_t op;          /* enum limpet_op */
	uint16_t flags;       /* LIMPET_HOOK_* */
	uint32_t symbol;      /* index into the list of names in common/family.h */
};
/* The original calls none of our hooks: it can be jumped to after the record. */
#define LIMPET_HOOK_LEAF 1u
/* Its blocks lie in Nim's chunks, whose heads tell their beginnings and sizes. Such hooks are not
 * inner calls of one another: each stands for what is done in its own function's code. */
#define LIMPET_HOOK_NIM 2u
/* In the midst of a function, by LIMPET_OP_FREE: the block is in a register, as the processor
 * counts them, and all registers stay as they are. */
#define LIMPET_HOOK_PROBE 0x40u
#define LIMPET_HOOK_REGISTER(flags) ((flags) >> 2 & 15u)
#define LIMPET_HOOK_REGISTER_FLAG(number) ((uint16_t)((number) << 2))
/* At a function's entry, not in a slot: all registers are as they would be without us. */
#define LIMPET_HOOK_ENTRY 4u /* not of a PROBE, which has the number of its register there */
/* It may have arguments on the stack: they stand above its return address, and so its original is
 * called with a copy of them. Not of a PROBE, likewise. */
#define LIMPET_HOOK_STACK 8u
/* Unknown from its arguments: the size is the block's usable size. */
#define LIMPET_HOOK_SIZELESS 0x80u
/* Arguments before those of the op: a heap, a context. */
#define LIMPET_HOOK_SKIP_MAX 3u
#define LIMPET_HOOK_SKIP(flags) ((flags) >> 8 & LIMPET_HOOK_SKIP_MAX)
#define LIMPET_HOOK_SKIP_FLAG(count) ((uint16_t)((count) << 8))
/* Its allocator, if there are several: 0: unnamed. */
#define LIMPET_HOOK_OWNERS 63u
#define LIMPET_HOOK_OWNER(flags) ((flags) >> 10 & LIMPET_HOOK_OWNERS)
#define LIMPET_HOOK_OWNER_FLAG(number) ((uint16_t)((number) << 10))

enum limpet_slot_state {
	LIMPET_SLOT_PLANNED = 0,
	LIMPET_SLOT_PATCHED,
	LIMPET_SLOT_RESTORED,
	LIMPET_SLOT_GONE,    /* its module was unloaded */
	LIMPET_SLOT_FOREIGN, /* somebody else changed it after us: left alone */
	LIMPET_SLOT_FAILED   /* could not be written */
};

enum limpet_slot_kind {
	LIMPET_SLOT_OF_CALLS = 0, /* holds an address: calls go through it */
	LIMPET_SLOT_OF_SYMBOL     /* a symbol's value, counted from its module's bias: what is bound
				   * to the symbol from then on is bound to the thunk */
};

/* A word in the target's memory that holds (or will hold, lazily) an allocator's address, or says
 * where the dynamic linker finds it. */
struct limpet_slot {
	uint64_t address;
	uint64_t old_value;
	uint64_t module;      /* load bias of its module */
	uint64_t module_phdr; /* address of its program headers: tells a re-used bias apart */
	uint32_t hook;
	uint16_t state; /* enum limpet_slot_state */
	uint16_t kind;  /* enum limpet_slot_kind */
};
#define LIMPET_MAX_SLOTS 16384u

/* Calls through it are not seen, though it was to be ours: it could not be written, or another's
 * address stands there. What another made of a symbol's value takes no call past us. */
static inline bool limpet_slot_not_taken(const struct limpet_slot *slot)
{
	return slot->state == LIMPET_SLOT_FAILED ||
	       (slot->state == LIMPET_SLOT_FOREIGN && slot->kind == LIMPET_SLOT_OF_CALLS);
}

/* Its value while it leads to its hook's thunk. */
static inline uint64_t limpet_slot_value_ours(const struct limpet_slot *slot, uint64_t thunk)
{
	return slot->kind == LIMPET_SLOT_OF_SYMBOL ? thunk - slot->module : thunk;
}

/* What a slot goes back to where its hook's address stands, whatever its state: the child of a fork
 * has slots of its own, and shares the table with a parent that may have put its own back. But the
 * stub of a lazy binding is for the module only that had it: one that has come to the same place
 * since, and was bound at once, has no resolver. What the hook stands for, `original`, is right for
 * both. A symbol has one value. */
static inline uint64_t limpet_slot_value_before(const struct limpet_slot *slot, uint64_t original)
{
	return slot->kind == LIMPET_SLOT_OF_SYMBOL || slot->state == LIMPET_SLOT_PATCHED
		       ? slot->old_value
		       : original;
}

/* A module whose slots were examined, planned by the injector or found by the agent. */
struct limpet_known_module {
	uint64_t bias, phdr; /* phdr 0: gone */
};
#define LIMPET_MAX_KNOWN_MODULES 4096u

/* Where modules lay that were unloaded: each place once, with the number of the last one, from 1.
 * When there is no room for another place, the last entry grows to hold it, too: a module that is
 * still there then counts as another one, which costs a look at it and mixes nothing. */
struct limpet_gone {
	uint64_t start, end;
	uint32_t number; /* written before limpet_shm.gone_count */
	uint32_t pad;
};
#define LIMPET_MAX_GONE 255u
#define LIMPET_MAX_GONE_NUMBER 0xffffffu

/* The number of the last of `count` ranges that contains the address; 0: none. */
static inline uint32_t limpet_gone_find(const struct limpet_gone *gone, uint32_t count,
					uint64_t address)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < count && i < LIMPET_MAX_GONE; i++) {
		uint32_t number = __atomic_load_n(&gone[i].number, __ATOMIC_ACQUIRE);

		if (address >= gone[i].start && address < gone[i].end && number > last)
			last = number;
	}
	return last;
}

/* ------------------------------------------------------------------ unwind tables
 *
 * One arena, a memfd of its own, mapped read-only into the target. Modules are appended by the
 * collector and published through limpet_shm.unwind_modules. See common/unwind_table.h. */
struct limpet_unwind_module {
	uint64_t start, end; /* covered pc range in the target */
	uint64_t table;      /* offset in the arena; 0: no table, walk by frame pointer */
	uint64_t table_bytes;
	uint32_t live; /* 0 once unloaded */
	uint32_t pad;
};
#define LIMPET_MAX_UNWIND_MODULES 4096u

/* ------------------------------------------------------------------ the shared memory */

/* Threads of which the agent can keep a state at a time. */
#define LIMPET_THREADS 4096u
/* Of the agent's private memory: what each state takes at its first claim, and what all share. */
#define LIMPET_SCRATCH_BYTES 4096u
#define LIMPET_RULE_CACHE 8192u /* entries; a power of 2 */
#define LIMPET_RULE_CACHE_BYTES (LIMPET_RULE_CACHE * 16u)
/* ...with the counters of order. */
#define LIMPET_PRIVATE_TABLES_BYTES (LIMPET_RULE_CACHE_BYTES + LIMPET_ORDER_BYTES)
/* Address space that it takes beside --agent-memory, next to nothing of which is ever touched. */
#define LIMPET_AGENT_PRIVATE_BYTES (LIMPET_THREADS * LIMPET_SCRATCH_BYTES + (2u << 20))

enum limpet_switch {
	LIMPET_SWITCH_OFF = 0, /* hooks pass through */
	LIMPET_SWITCH_ON = 1
};

#define LIMPET_OVERLOAD_SHARE 4u
#define LIMPET_TURN_PAUSES 256u

#define LIMPET_COLLECTOR_DIED 0x40000000u /* FUTEX_OWNER_DIED */

/* Memory that is readable for a walk that starts in it: a mapping, as the collector saw it last. */
struct limpet_stack_range {
	uint64_t low, high; /* high 0: free */
	uint32_t version;   /* +1 before and after each change: odd while it lasts */
	uint32_t pad;
};
#define LIMPET_STACK_RANGES 64u
#define LIMPET_UNKNOWN_STACKS 16u /* a power of 2 */

/* Where what lies, as offsets from the start of the header, and how much of it there is. Made
 * before the memory is shared. The agent goes by what stands in the shared memory; limpet by its
 * own copy (struct limpet_segment) alone, for the target can write to this one. */
struct limpet_shm_layout {
	uint64_t threads_offset, chunks_offset, slots_offset;
	uint64_t unwind_modules_offset; /* two arrays of LIMPET_MAX_UNWIND_MODULES */
	uint64_t free_chunks_offset;    /* bit map, 1: free; 64-bit words */
	uint64_t modules_offset;        /* struct limpet_known_module[LIMPET_MAX_KNOWN_MODULES] */
	uint64_t stacks_offset;         /* struct limpet_fingerprint[stack_count]: by frames */
	uint64_t fingerprints_offset;   /* the same [fingerprint_count]: by words */
	/* thread_count, stack_count, fingerprint_count: powers of 2 */
	uint32_t thread_count, chunk_count, stack_count, fingerprint_count;
	uint32_t thread_limit; /* states that may ever be claimed */
	uint32_t room_pages;   /* for threads that have more to remember */
	/* of sampling; see agent/sampled.h */
	uint32_t sample_table_count;   /* a power of 2 */
	uint32_t sample_filter_shift;  /* of a 64-bit hash down to a counter's number */
	uint64_t sample_table_offset;  /* addresses of the sampled blocks that are live; 0: free */
	uint64_t sample_filter_offset; /* a counter a byte */
};

/* Events of one kind for which there was no room. */
struct limpet_drops {
	uint64_t count, bytes; /* as the records would have had them */
	uint64_t unsized;      /* of these, frees whose size is unknown */
};
#define LIMPET_DROPS_KINDS (LIMPET_EVENT_MUNMAP + 1u) /* by enum limpet_event_type */

struct limpet_shm {
	uint64_t magic;
	uint32_t abi;
	uint32_t header_bytes;
	uint64_t nonce;
	uint64_t bytes; /* of the whole segment */
	struct limpet_shm_layout layout;

	/* written by the collector */
	uint32_t recording;       /* enum limpet_switch, cleared on leaving */
	uint32_t unwind_count[2]; /* entries of the two arrays, each sorted by start */
	uint32_t unwind_gone[2];  /* gone_count before the modules of each were looked at */
	uint32_t unwind_current;  /* +1 at each change; bit 0: the array in force; store-release */
	uint32_t max_depth;       /* frames kept per stack */
	uint32_t time; /* since the capture began, in LIMPET_TIME_UNIT_NS: as of the last poll */
	uint32_t tid_offset; /* of the tid behind the thread pointer; 0: unknown */
	/* Of glibc's struct pthread: where its stack lies, as (start, bytes, guard bytes), counted
	 * from the thread pointer; 0: unknown. Not of the main thread, whose tid and stack follow.
	 */
	uint32_t stack_offset;
	uint32_t main_tid; /* as the target sees it; 0: its stack is unknown */
	uint64_t main_stack_low, main_stack_high;
	/* The collector's tid, as it sees itself. When it dies, however that may be, the kernel
	 * sets LIMPET_COLLECTOR_DIED here: a word of its list of robust futexes,
	 * get_robust_list(2). */
	uint32_t collector;
	/* --on-overload wait: a full thread waits for the collector, and looks so many times for a
	 * sign of its life. 0: not at all. */
	uint64_t wait_turns; /* each LIMPET_TURN_PAUSES of the processor's */
	uint64_t beats;      /* sign of life: rises each time that the chunks are read */
	/* sampling; see common/sample.h and agent/sampled.h */
	uint64_t sample_bytes; /* period; 0: every event is recorded, and there is no table */
	uint64_t sample_seed;
	/* --on-overload sample: when fewer chunks are free than so many, the agent goes over to
	 * sampling with this period (0: never) until the collector says that there is room. The
	 * table then holds what was not recorded, and there is no filter. */
	uint64_t overload_bytes;
	uint32_t overload_below; /* a LIMPET_OVERLOAD_SHARE of those that are when all is read */
	uint32_t overload_room;  /* 1: there is; set to 0 by the agent as an overload begins */

	/* written by the agent */
	uint64_t agent_fields __attribute__((aligned(128)));
	uint32_t slot_count;      /* including those of modules found later; store-release */
	uint32_t module_count;    /* known modules, likewise */
	uint32_t slots_not_taken; /* slots left alone for want of a hook or of room */
	uint32_t late_modules;    /* that came meanwhile, and may have called allocators before
				   * their slots were hooked */
	uint32_t addresses_asked; /* 1: the program has asked dlsym for one that is hooked */
	uint32_t gone_count;      /* +1 with each module that goes; store-release */
	uint32_t gone_places;     /* entries of the table below; store-release */
	uint32_t states_claimed;  /* distinct ones, so far */
	uint32_t room_pages_taken;
	uint32_t modules_seen;   /* times a loader hook found new modules */
	uint32_t bell;           /* changes when there is something for the collector to do */
	uint32_t unknown_count;  /* stack pointers written to `unknown`, so far */
	uint32_t ranges_used;    /* 1: `ranges` have been gone by; set to 0 by the collector */
	uint64_t lost_no_thread; /* calls passed through: no room for a thread's state */
	uint64_t lost_stacks;    /* events kept with stack 0: no room to describe it, or no number
				  */
	/* Calls that could not be recorded: the thread's state was an unfinished call's, which a
	 * signal handler had interrupted or which stands on another stack; or a fibre ended a call
	 * in another thread than it had begun it in. */
	uint64_t lost_state_in_use;
	/* The same, of functions that the user named: how far their arguments reach on the stack is
	 * not known, or too far; or an argument is not what its signature says. */
	uint64_t lost_arguments;
	uint64_t lost_no_sample; /* sampled allocations that found no room in the table */
	struct limpet_drops drops[LIMPET_DROPS_KINDS]; /* of all threads: they are few */
	/* Stack pointers on other stacks than the thread's own, which the collector is to look for
	 * in the maps: fibres, alternate signal stacks. A ring. */
	uint64_t unknown[LIMPET_UNKNOWN_STACKS];
	/* A bit per state, set before it is claimed and never cleared: the others need no check. */
	uint64_t states_used[LIMPET_THREADS / 64];
	struct limpet_gone gone[LIMPET_MAX_GONE];
	/* What the collector found there. */
	struct limpet_stack_range ranges[LIMPET_STACK_RANGES];
	uint32_t next_stack __attribute__((aligned(128))); /* the next number to be taken */
};

/* ------------------------------------------------------------------ start, leave, rescan */

/* Frozen: exported as `limpet_agent_info` in the agent's dynamic symbol table. Function addresses
 * are absolute. Each entry is called on a thread at a safe point, as int fn(struct *). */
struct limpet_agent_info {
	uint64_t magic; /* LIMPET_INFO_MAGIC */
	uint32_t abi;
	uint32_t bytes;   /* of this struct */
	uint64_t nonce;   /* of the attach; 0 before start */
	uint64_t state;   /* enum limpet_agent_state */
	uint64_t handle;  /* of dlopen, for dlclose; 0: mapped without it */
	uint64_t start;   /* int (struct limpet_start *) */
	uint64_t leave;   /* int (void): pass through, restore slots; answers slots not restored */
	uint64_t release; /* int (void): unmap what start mapped, close the channel; last call */
	uint64_t rescan;  /* int (void): patch slots of new modules; answers slots patched */
	uint64_t shm;     /* address of struct limpet_shm in the target */
	uint64_t channel; /* descriptor in the target, or -1 */
	uint64_t thunks,
		thunk_bytes;     /* address of thunk 0 (limpet_boot.thunks), distance of the next */
	uint64_t hooks;          /* address of struct limpet_hook[LIMPET_MAX_HOOKS] */
	uint64_t map, map_bytes; /* where the stub mapped it, for munmap; 0: by dlopen */
	uint64_t reserved[1];
};

enum limpet_agent_state {
	LIMPET_AGENT_LOADED = 0,
	LIMPET_AGENT_ACTIVE = 1,
	LIMPET_AGENT_PASSING = 2, /* switched off: slots back or being put back */
	LIMPET_AGENT_RELEASED = 3
};

/* The dynamic linker's own, in the target: what loader hooks go by (agent/loaded.c). */
struct limpet_loader {
	uint64_t lock; /* glibc's load lock, struct limpet_loader_mutex; 0: what is here is not
			* known, but for is_musl */
	uint64_t adds; /* uint64_t: modules that were ever loaded */
	uint64_t spaces, space_bytes; /* its table of namespaces, and what one takes */
	uint64_t space_count;         /* uint64_t: how many are used */
	uint64_t program_head;        /* the program's ELF head */
	uint64_t is_musl;
};

/* Argument of `start`, in the scratch page of the remote call. */
struct limpet_start {
	uint32_t abi;
	uint32_t bytes;
	uint64_t nonce;
	int32_t channel; /* descriptor in the target */
	int32_t shm_fd;  /* out of the channel by SCM_RIGHTS: filled in by the agent */
	uint64_t shm_bytes;
	uint64_t unwind_bytes;
	uint64_t page_bytes;
	uint64_t dl_iterate_phdr; /* in the target; 0: none */
	uint64_t r_debug;         /* struct r_debug of the dynamic linker; 0: none */
	struct limpet_loader loader;
	uint64_t handle;
	uint64_t map, map_bytes;
	uint64_t control_page; /* answered: the private page that fork wipes */
	uint32_t hook_count;
	uint32_t slot_count;   /* in the shared memory's slot table, state PLANNED */
	uint32_t from_outside; /* the injector puts slots in and back: no loader call is made for it
				*/
	uint32_t unlock; /* what is mapped may be locked at once (mlockall): it is not to stay so */
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	/* for modules that come later: what an unbound slot of this name would resolve to */
	uint64_t default_original[LIMPET_MAX_FAMILY];
	uint64_t default_usable_size;
	/* answers */
	int32_t result; /* 0 or -errno */
	uint32_t patched;
};

/* The thunks lie in a mapping of their own, a page of code and one of addresses, where each of them
 * goes on. It can outlive the agent: then they go on at the originals. The page of code is in the
 * image's file at an offset by which the mapping is known. */
#define LIMPET_THUNKS_OFFSET (1u << 20)
#define LIMPET_THUNKS_BYTES 4096u

/* Argument of the boot stub: it lies in the remote call's scratch memory together with the stack.
 * The stub runs from a mapping of its own, so that it can load and unload the agent. When it has
 * finished it says LIMPET_MSG_READY and waits on the channel for the injector, which stops the
 * thread there and puts its registers back. If instead the channel ends, the injector is gone: the
 * stub switches the agent off, unmaps itself and returns through the prepared signal frame. */
enum limpet_boot_operation {
	LIMPET_BOOT_ENTER = 1, /* move descriptors up, dlopen or map, start */
	LIMPET_BOOT_CALL = 2,  /* result = call(argument) */
	LIMPET_BOOT_UNLOAD = 3 /* release, dlclose or unmap */
};
/* Without a dynamic linker the stub maps the agent itself: pieces of the image's file, counted from
 * where the kernel finds room for all of them. */
#define LIMPET_MAX_PIECES 8u
struct limpet_boot_piece {
	uint64_t offset, bytes; /* from the first one; whole pages */
	uint64_t file_offset;
	uint64_t zero, zero_bytes; /* what belongs to no section of the file; offset as above */
	uint32_t protection, pad;
};
struct limpet_boot_map {
	uint64_t bytes;                         /* of all together; 0: by dlopen */
	uint64_t relocations, relocation_bytes; /* Elf64_Rela, relative ones; offset */
	uint64_t sealed, sealed_bytes;          /* read-only once they are relocated */
	uint32_t piece_count, pad;
	struct limpet_boot_piece pieces[LIMPET_MAX_PIECES];
};
struct limpet_boot {
	uint32_t operation;
	/* The pair of socketpair, created by the stub's first system call, after which the injector
	 * stops the thread and copies its end. */
	int32_t channel;      /* ENTER answers the number it was moved to */
	int32_t injector_end; /* closed at once; -1 then */
	int32_t image;        /* memfd with the agent; closed as soon as it can be; -1 then */
	int32_t floor;        /* lowest number that the channel may be moved to */
	int32_t result;       /* 0, or -errno, or the answer of CALL */
	uint32_t stage;       /* how far it got: enum limpet_boot_stage */
	uint32_t pad;
	uint64_t dlopen, dlclose, dlerror; /* dlerror 0: none */
	uint64_t message; /* where the thread has what dlerror() is to say; 0: not known */
	uint64_t dlopen_mode;
	uint64_t info_offset;        /* of limpet_agent_info behind the load bias, for ENTER */
	uint64_t info;               /* its address: answered by ENTER, given to UNLOAD */
	uint64_t handle;             /* of dlopen, likewise; 0: mapped */
	uint64_t agent, agent_bytes; /* where it is mapped, likewise */
	uint64_t thunks;             /* likewise; UNLOAD with 0 leaves them where they are */
	struct limpet_boot_map layout;
	uint64_t call;
	uint64_t argument;
	uint64_t exit_sp;      /* of the prepared signal frame on the thread's own stack */
	uint64_t exit_syscall; /* a `syscall; ret` outside of everything of ours */
	uint64_t map, map_bytes;
	char path[160]; /* /proc/thread-self/fd/N in a spelling unique to this attach */
	char error[256];
	struct limpet_start start;
};
enum limpet_boot_stage {
	LIMPET_STAGE_BEGUN = 1,
	LIMPET_STAGE_MOVED,
	LIMPET_STAGE_LOADED,
	LIMPET_STAGE_STARTED,
	LIMPET_STAGE_DONE
};

/* No program has memory below (vm.mmap_min_addr) or above, even with five levels of tables. */
#define LIMPET_LOWEST_ADDRESS 65536u
#define LIMPET_HIGHEST_ADDRESS (1ull << 56)

/* ------------------------------------------------------------------ the socket
 *
 * SOCK_SEQPACKET. From the injector: one LIMPET_MSG_FDS with the two memfds (shared memory, unwind
 * arena) by SCM_RIGHTS. From the boot stub: struct limpet_msg. Hooks make no system call: programs
 * forbid themselves calls at any time. What they have to say stands in the shared memory, where the
 * collector looks some forty times a second or more. */
enum limpet_msg_type {
	LIMPET_MSG_FDS = 1,
	LIMPET_MSG_READY, /* finished, value = result */
	LIMPET_MSG_BEGUN  /* is anybody there? */
};

struct limpet_msg {
	uint32_t type;
	uint32_t pad;
	uint64_t value;
};

#endif
