/* The protocol between the agent (inside the target) and the injector and collector (outside).
 *
 * Freestanding: agent code without libc includes it. All integers are little endian and of fixed
 * width; addresses of the target are uint64_t, never pointers.
 *
 * Trust: the agent trusts what the injector writes before `start`. The collector trusts nothing in
 * the shared memory: it copies a value once, checks it, and uses the copy.
 *
 * There is no other channel, and no descriptor in the target (but while its dlopen reads the
 * agent's file). Hooks make no system calls, since a program may forbid them at any time: the
 * collector looks whether they rang its bell, forty times a second or eight in an idle program, and
 * reads what they wrote then, or after half a second, or one. */
#ifndef LIMPET_COMMON_WIRE_H
#define LIMPET_COMMON_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/method.h"
#include "common/sample.h"

/* Raised whenever a layout or a meaning in this file changes. An injector only drives an agent that
 * answers with the injector's own nonce; of any other agent it only calls the `detach` entry, whose
 * place and meaning (struct limpet_agent_info) never change. */
#define LIMPET_AGENT_ABI 19u

#define LIMPET_SHM_MAGIC 0x314d4853504d494cull  /* "LIMPSHM1" */
#define LIMPET_INFO_MAGIC 0x4f464e49504d494cull /* "LIMPINFO" */

/* What the agent does around a call of the original function; arguments are those of the C
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
	LIMPET_OP_LOADER, /* dlopen, dlsym...: look for new modules first, then jump to the original
			   */
	LIMPET_OP_FINDER, /* _dl_find_object: answer for a mapped agent's own code, else jump to the
			     original */
	LIMPET_OP_INSIDE, /* internal to the allocator: neither it nor the calls that it makes are
			     events */
	LIMPET_OP_STRING, /* (...) -> a block with a string, of which it has the size: strdup */
	LIMPET_OP_REALPATH, /* (name, buffer): the same, if there is no buffer */
	LIMPET_OP_REALLOCF, /* (block, size): as realloc, and releases the block if it fails */
	LIMPET_OP_RESIZE,   /* (block, size, ...) -> usable size: in place or not at all: xallocx */
	/* Not events: that they are called is noted, in limpet_shm.noted. */
	LIMPET_OP_NOTED,
	LIMPET_OP_DESTROY = LIMPET_OP_NOTED, /* releases many blocks at once */
	LIMPET_OP_CONTROL,        /* mallctl: (name, ...); `usable_size`: mallctlnametomib */
	LIMPET_OP_CONTROL_BY_MIB, /* mallctlbymib: (mib, length, ...); the same */
	LIMPET_OP_UNFOLLOWED,     /* allocates or releases in a way of its own */
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
 *	1     0..63   LIMPET_HIDDEN(address)           the same
 *	2     0..31   size, or usable size             size, all 64 bits
 *	      32..63  stack: its number, or 0
 *	3     0..31   -                                stack
 */
/* clang-format on */
/* A record of type LIMPET_EVENT_STACK is not an event, takes no number from an order counter and
 * has a variable length: 2 words, then as many as word 0 says, but at least one. */
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
 *	              first; LIMPET_STACK_GONE: each
 *	              followed by the module gone
 */
/* clang-format on */
/* No address of a block stands in the shared memory as it is: a conservative scan of the program's
 * memory for such addresses, by a garbage collector or a heap checker, would take it for a
 * reference to the block. Its own inverse. */
#define LIMPET_HIDDEN(address) (~(uint64_t)(address))
/* "Before": in the same chunk, of a stack without an owner; the first one of a chunk shares none. A
 * thread describes a stack before any other can learn its number: every event with the number is
 * recorded after the description was committed, though perhaps in another thread's chunks. A stack
 * may be described several times, with a new number each time. A frame is a return address; for the
 * innermost frame of a signal the interrupted pc + 1. */
#define LIMPET_STACK_TRUNCATED 1u /* the walk ended before it reached the thread's root */
#define LIMPET_STACK_OWNER 2u     /* the stack in word 2, for blocks of the allocator in word 1 */
/* Two words a frame: the second is the number of the last module that had been unloaded from this
 * address by then (struct limpet_gone), 0: none. It distinguishes modules that are loaded there
 * later from earlier ones. */
#define LIMPET_STACK_GONE 4u
#define LIMPET_STACK_FRAMES 256u /* maximum */
/* How many words at the end tell the functions of frames that a runtime made: struct
 * limpet_interpreter. They are no part of the stack's identity. */
#define LIMPET_STACK_FUNCTIONS(flags) ((flags) >> 8 & 0xff)
#define LIMPET_STACK_FUNCTIONS_FLAG(count) ((uint32_t)(count) << 8)
#define LIMPET_STACK_FUNCTIONS_MAX 32u
/* Of one word: the frame, 0 is the innermost one of the stack; and what its function slot had. */
#define LIMPET_FUNCTION_WORD(frame, slot) ((uint64_t)(frame) << 56 | (slot))
#define LIMPET_FUNCTION_FRAME(word) ((uint32_t)((word) >> 56))
#define LIMPET_FUNCTION_SLOT(word) ((word) & (((uint64_t)1 << 56) - 1))
#define LIMPET_STACK_HEAD_WORDS 2u
#define LIMPET_STACK_WORDS \
	(LIMPET_STACK_HEAD_WORDS + 2 * LIMPET_STACK_FRAMES + LIMPET_STACK_FUNCTIONS_MAX)
/* Numbers of stacks: the bit above is LIMPET_FINGERPRINT_TRUNCATED. */
#define LIMPET_STACKS_MAX 0x7fffffffu
#define LIMPET_STACK_COUNT(word0) ((uint32_t)(word0) >> 8)
#define LIMPET_STACK_NUMBER(word0) ((uint32_t)((word0) >> 32))

static inline uint32_t limpet_stack_bytes(uint32_t words)
{
	return (LIMPET_STACK_HEAD_WORDS + (words ? words : 1)) * 8;
}

/* The numbers order the events of one address: a counter, selected by the address
 * (limpet_order_counter), that the thread increments before a block is freed and after it was
 * allocated. Whatever passes a block or its address from thread to thread orders the increments,
 * too. Numbers start at 0 and wrap around; each record takes one (two with LIMPET_EVENT_FREED),
 * and nothing else does. The time is that of `limpet_shm.time`, and orders nothing.
 *
 * FREE and MUNMAP have no stack (0). A realloc that returns a block is FREE then ALLOC, both with
 * LIMPET_EVENT_REALLOC where the stack is; under sampling either may not be recorded.
 *
 * Between OVERLOAD and ROOM, whose address is the overload's number, allocations are sampled. Calls
 * that began before ROOM may follow it. */
enum limpet_event_type {
	LIMPET_EVENT_ALLOC = 1,    /* address, requested size, stack */
	LIMPET_EVENT_FREE = 2,     /* address, usable size (0: unknown) */
	LIMPET_EVENT_MMAP = 3,     /* address, length, stack */
	LIMPET_EVENT_MUNMAP = 4,   /* address, length */
	LIMPET_EVENT_OVERLOAD = 5, /* from here on allocations are sampled... */
	LIMPET_EVENT_ROOM = 6,     /* ...and from here on all are recorded again */
	LIMPET_EVENT_VOID = 7,  /* nothing: the number was taken for a call that failed; the address
				   is the index of the counter */
	LIMPET_EVENT_STACK = 8, /* describes a stack, see above */
	/* flag of a narrow ALLOC: the thread's next event was the free of this block, with the next
	   number and the same time; it has no record of its own. Set until the thread writes its
	   next record, perhaps after the collector has read this one. */
	LIMPET_EVENT_FREED = 0x20,
	LIMPET_EVENT_SAMPLED = 0x40, /* flag of ALLOC: a sample, taken in an overload */
	/* flag of FREE: by a realloc that was under way at the end of the capture, and so did not
	   happen, unless another thread has got the block before the end */
	LIMPET_EVENT_IF_REUSED = 0x40,
	LIMPET_EVENT_WIDE = 0x80 /* flag: size is a full word, the stack follows */
};

/* The highest bit of the stack of an ALLOC or FREE: half of a realloc that returned a block, which
 * continues the one that it released. */
#define LIMPET_EVENT_REALLOC (1u << 31)

#define LIMPET_EVENT_TYPE(word0) ((uint32_t)((word0)&0xff))
#define LIMPET_EVENT_KIND(word0) ((uint32_t)((word0)&0x1f))
#define LIMPET_EVENT_NUMBER(word0) ((uint32_t)((word0) >> 32))
#define LIMPET_EVENT_TIME(word0) ((uint32_t)((word0) >> 8) & LIMPET_TIME_MASK)
#define LIMPET_TIME_MASK 0xffffffu
/* Unit of a record's time and of limpet_shm.time: ten ticks of the trace. The time wraps around
 * after 28 minutes; a record is read sooner. */
#define LIMPET_TIME_UNIT_NS 100000u

/* Order counters, in the target's private memory: for blocks, for all mappings together (they are
 * ranges, and overlap), and for overloads. Neighbouring blocks have counters in one cache line, so
 * that threads with separate memory share few lines. */
#define LIMPET_ORDER_BLOCKS 65536u
#define LIMPET_ORDER_MAPPINGS LIMPET_ORDER_BLOCKS
#define LIMPET_ORDER_OVERLOADS (LIMPET_ORDER_BLOCKS + 16u)
#define LIMPET_ORDER_COUNTERS (LIMPET_ORDER_BLOCKS + 32u)
#define LIMPET_ORDER_BYTES (LIMPET_ORDER_COUNTERS * 4u)

/* The counter of a block. The bits of an address from 1 MiB up are mixed in, since threads' arenas
 * are at multiples of 64 MiB. */
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

/* Header of a chunk, directly followed by records. A chunk belongs to one thread until it is full
 * or the thread is gone; then the collector returns it to the free map. */
struct limpet_chunk {
	uint32_t thread;     /* index into the thread table */
	uint32_t generation; /* of that thread's claim */
	uint64_t sequence;   /* counts from 0 for each claim */
	uint32_t committed; /* bytes of whole records after this head; store-release by the owner */
	uint32_t next;      /* the following chunk or LIMPET_CHUNK_NONE; store-release when full */
	uint64_t lost_before; /* events dropped by this thread between the previous chunk and this
				 one */
	uint32_t tid;         /* of the writer: a reused thread pointer starts a new chunk */
	uint32_t describes;   /* 1: it has descriptions; set before they are committed */
	uint64_t reserved[3];
};
#define LIMPET_CHUNK_DATA_BYTES (LIMPET_CHUNK_BYTES - (uint32_t)sizeof(struct limpet_chunk))

/* State of a thread of the target that has called a hook. 128 bytes: no two share a pair of cache
 * lines. Threads that share a thread pointer (a bare clone) share a state: libc's allocator cannot
 * distinguish them either. */
struct limpet_thread {
	uint64_t thread_pointer; /* fs base; 0: free entry; claimed by compare and exchange */
	uint32_t tid;            /* as the target sees it */
	uint32_t generation;     /* +1 at each claim */
	/* Order counters + 1 (intents), stored before a number is taken and cleared after its
	 * record was published; 0: none. `held`: during the call of an original. */
	uint32_t intent, held_intent;
	uint64_t dropped;  /* events lost since the claim */
	uint64_t entry_sp; /* stack pointer of the outermost unfinished hook */
	uint32_t depth; /* number of the unfinished hook + 1, 0: none; stale if the hook was left by
			   longjmp or an exception (limpet_entry_witness) */
	uint32_t phase; /* enum limpet_phase */
	uint32_t first_chunk; /* of this claim; store-release */
	uint32_t truncated;   /* stacks that were truncated */
	uint64_t stack_low;  /* stored by the agent or the collector, low first; readable range that
			      */
	uint64_t stack_high; /* contains this thread's stack; 0: unknown */
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct limpet_thread) == 128, "two threads would write to one cache line");

/* What only the agent uses of a thread's state, in private memory at LIMPET_OWN_BYTES before it:
 * where the target maps the shared memory, that range is private. A forked child has a copy. */
struct limpet_own {
	uint64_t at, end;  /* place of the next record in the current chunk, and its end; equal: a
			      new chunk is needed */
	uint64_t last;     /* the thread's last record, if it may be marked LIMPET_EVENT_FREED */
	uint64_t sequence; /* of the next chunk */
	uint32_t chunk;    /* current chunk */
	uint32_t stack_cache; /* page << 8 | number of stacks in it */
	struct limpet_sample_state sample;
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct limpet_own) == sizeof(struct limpet_thread), "at a fixed distance");

enum limpet_phase {
	LIMPET_PHASE_OUTSIDE = 0, /* not in a hook, or in the original function */
	LIMPET_PHASE_RECORDING =
		1 /* in the agent's own code; a hook called now comes from a signal handler */
};

/* Offsets from entry_sp at which an unfinished hook has a return address into the agent: below the
 * frame of its path; below that of a path that keeps registers (one that copies arguments has the
 * address of its first call there); and, for a hook in the middle of a function, in the frame. If
 * none of these words points into the agent, the hook is finished. The stack pointer proves
 * nothing: a signal handler, or a coroutine, may run on memory at higher addresses. */
#define LIMPET_ENTRY_WITNESSES 3
static const int32_t limpet_entry_witness[LIMPET_ENTRY_WITNESSES] = {-8, -88, 104};
/* Another tool may ask the kernel for the return of the original (uretprobe): the kernel then
 * replaces that address by the start of a page of its own. */
static inline bool limpet_may_be_return_probe(uint64_t address)
{
	const uint64_t page = 4096;

	return address && address % page == 0;
}

/* A stack that was described before, found by the fingerprint of the words that the walk read, or
 * by that of its frames: an entry of one of two tables. */
struct limpet_fingerprint {
	uint64_t fingerprint;
	uint64_t state; /* low half: its number, with LIMPET_FINGERPRINT_TRUNCATED, or 0: empty;
			 * high half: +1 at each change, odd while it lasts */
};
#define LIMPET_FINGERPRINT_TRUNCATED (1u << 31) /* the same as LIMPET_STACK_TRUNCATED */
enum limpet_fingerprint_table { LIMPET_BY_FRAMES, LIMPET_BY_WORDS, LIMPET_FINGERPRINT_TABLES };
/* How much of a table is in use: the first fingerprint_count >> shift entries. The collector lowers
 * the shift when many entries were evicted, after it has populated the memory; the table's contents
 * are then lost. */
struct limpet_fingerprint_use {
	uint32_t shift;
	uint32_t evicted; /* evicted entries, counted by the agent */
};

/* ------------------------------------------------------------------ hooks and slots */

#define LIMPET_MAX_HOOKS 256u /* a page of thunks */
/* Thunk 0 is where a mapping begins, a number that the program may hold as such, for example in a
 * list of its mappings: no hook has it. */
#define LIMPET_FIRST_HOOK 1u
#define LIMPET_MAX_FAMILY 64u

/* A function that is hooked. Thunk i of the agent is for hook i. */
struct limpet_hook {
	uint64_t original;    /* 0: free entry */
	uint64_t usable_size; /* malloc_usable_size of the same allocator, or what the op needs
				 instead; 0: none */
	uint16_t op;          /* enum limpet_op */
	uint16_t flags;       /* LIMPET_HOOK_* */
	uint32_t symbol;      /* index into the list of names in common/family.h */
};
/* The original calls no hooks: after recording, jump to it. */
#define LIMPET_HOOK_LEAF 1u
/* Its blocks are in Nim's chunks, whose headers show where blocks start and how large they are.
 * Such hooks are not inner calls of one another: each stands for code of its own function. */
#define LIMPET_HOOK_NIM 2u
/* In the middle of a function, with LIMPET_OP_FREE: the block is in a register, given by the
 * processor's number, and all registers are preserved. */
#define LIMPET_HOOK_PROBE 0x40u
#define LIMPET_HOOK_REGISTER(flags) ((flags) >> 2 & 15u)
#define LIMPET_HOOK_REGISTER_FLAG(number) ((uint16_t)((number) << 2))
/* At a function's entry, not in a slot: the original gets all registers unchanged. */
#define LIMPET_HOOK_ENTRY 4u /* never with PROBE, which has its register's number here */
/* It may have arguments on the stack, above its return address: so its original is called with a
 * copy of them. Never with PROBE, as above. */
#define LIMPET_HOOK_STACK 8u
/* The arguments do not tell the size: use the block's usable size. */
#define LIMPET_HOOK_SIZELESS 0x80u
/* Number of arguments before those of the op, such as a heap or a context. */
#define LIMPET_HOOK_SKIP_MAX 3u
#define LIMPET_HOOK_SKIP(flags) ((flags) >> 8 & LIMPET_HOOK_SKIP_MAX)
#define LIMPET_HOOK_SKIP_FLAG(count) ((uint16_t)((count) << 8))
/* Number of its allocator, if there are several; 0: unnamed. */
#define LIMPET_HOOK_OWNERS 63u
#define LIMPET_HOOK_OWNER(flags) ((flags) >> 10 & LIMPET_HOOK_OWNERS)
#define LIMPET_HOOK_OWNER_FLAG(number) ((uint16_t)((number) << 10))

enum limpet_slot_state {
	LIMPET_SLOT_PLANNED = 0,
	LIMPET_SLOT_PATCHED,
	LIMPET_SLOT_RESTORED,
	LIMPET_SLOT_GONE,    /* its module was unloaded */
	LIMPET_SLOT_FOREIGN, /* changed by others after limpet: it was left alone */
	LIMPET_SLOT_FAILED   /* could not be written */
};

enum limpet_slot_kind {
	LIMPET_SLOT_OF_CALLS = 0, /* holds an address: calls go through it */
	LIMPET_SLOT_OF_ADDRESS,   /* the same, and code may load it as the function's address */
	LIMPET_SLOT_OF_SYMBOL, /* a symbol's value, relative to its module's bias: whatever is bound
				  to the symbol from then on is bound to the thunk */
	LIMPET_SLOT_OF_VARIABLE /* holds an address that the program may call, compare and copy */
};

/* A word in the target's memory that contains (or will contain, when it is bound) an allocator
 * function's address, or tells the dynamic linker that address. */
struct limpet_slot {
	uint64_t address;
	uint64_t old_value;
	uint64_t module;      /* load bias of its module */
	uint64_t module_phdr; /* address of its program headers: shows when a bias was reused */
	uint32_t hook;
	uint16_t state; /* enum limpet_slot_state */
	uint16_t kind;  /* enum limpet_slot_kind */
};
#define LIMPET_MAX_SLOTS 16384u

/* Calls through it are not seen, although it should be hooked: it could not be written, or it holds
 * an address that others wrote. A symbol's value that others changed hides no call. */
static inline bool limpet_slot_is_unhooked(const struct limpet_slot *slot)
{
	return slot->state == LIMPET_SLOT_FAILED ||
	       (slot->state == LIMPET_SLOT_FOREIGN && slot->kind != LIMPET_SLOT_OF_SYMBOL);
}

/* Its value while it leads to its hook's thunk. */
static inline uint64_t limpet_slot_value_ours(const struct limpet_slot *slot, uint64_t thunk)
{
	return slot->kind == LIMPET_SLOT_OF_SYMBOL ? thunk - slot->module : thunk;
}

/* The value with which a slot is restored if it leads to its hook, whatever its state: the child of
 * a fork has slots of its own, but shares the table with a parent that may have restored its slots.
 * The stub of a lazy binding is right only for the module that had it: a module that was loaded at
 * the same address since, and was bound at once, has no resolver. The function behind the hook,
 * `original`, is right for both. A symbol has one value. */
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

/* Addresses from which modules were unloaded: each range once, with the number of the last unloaded
 * module, from 1. If there is no room for another range, the last entry is extended to include it:
 * a module that is still there then counts as a new one, which costs one examination and mixes up
 * nothing. */
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

/* A module that was loaded during the capture. The agent writes the entries in turn. */
#define LIMPET_LATE_PATH 192u
#define LIMPET_LATE_BUILD_ID 32u
#define LIMPET_LATE_MODULES 64u
struct limpet_late_module {
	uint64_t start, end, bias;
	uint32_t gone;   /* number of the last module that had been unloaded from `start` */
	uint32_t number; /* from 1; 0: being written; store-release */
	uint32_t build_id_bytes;
	uint8_t build_id[LIMPET_LATE_BUILD_ID];
	char path[LIMPET_LATE_PATH]; /* as the loader has it; terminated */
};

/* ------------------------------------------------------------------ unwind tables
 *
 * One arena, a part of the shared file, which the target maps shared: limpet keeps and reads a copy
 * of its own. Modules are appended by the collector and published through
 * limpet_shm.unwind_modules. See common/unwind_table.h. */
struct limpet_unwind_module {
	uint64_t start, end; /* covered pc range in the target */
	uint64_t table;      /* offset in the arena; 0: no table, walk by frame pointer */
	uint64_t table_bytes;
	uint32_t live; /* 0 once unloaded */
	uint32_t pad;
};
#define LIMPET_MAX_UNWIND_MODULES 4096u

/* ------------------------------------------------------------------ interpreted functions
 *
 * All functions that V8 interprets run in frames with the same return address. What tells them
 * apart are two slots of the frame: the function's bytecode, an object that rarely moves, and how
 * far it got. Such a frame is described by one word of these, in place of the return address. The
 * object of the function itself, in a third slot, is another one for each closure, and moves: the
 * collector reads by it whose bytecode that is, while the stack is fresh. */
#define LIMPET_INTERPRETER_RANGES 32u
struct limpet_interpreter {
	/* Code that such frames return to: it may be mapped once for each isolate. Those from the
	 * first on up to one with the end 0; more may come. */
	uint64_t start[LIMPET_INTERPRETER_RANGES], end[LIMPET_INTERPRETER_RANGES];
	int32_t function, bytecode, offset; /* slots, from the frame pointer; bytes */
	uint32_t is_known; /* 1: there is an interpreter; written before the program is touched */
};
#define LIMPET_FRAME_INTERPRETED ((uint64_t)1 << 63)
#define LIMPET_FRAME_BYTECODE_BITS 44u
#define LIMPET_FRAME_BYTECODE(word) \
	(((word) & (((uint64_t)1 << LIMPET_FRAME_BYTECODE_BITS) - 1)) << 3)
#define LIMPET_FRAME_OFFSET_MAX 0x7ffffu
#define LIMPET_FRAME_OFFSET(word) \
	((uint32_t)((word) >> LIMPET_FRAME_BYTECODE_BITS) & LIMPET_FRAME_OFFSET_MAX)

/* The word for a frame with these slots; 0: they are not those of an interpreted function. A
 * reference has the lowest bit set, a number is in the upper half of its word. */
static inline uint64_t limpet_frame_interpreted(uint64_t bytecode, uint64_t offset)
{
	const uint64_t number = offset >> 32;

	if ((bytecode & 7) != 1 || bytecode >> 47 || (uint32_t)offset || !number ||
	    number > LIMPET_FRAME_OFFSET_MAX)
		return 0;
	return LIMPET_FRAME_INTERPRETED | number << LIMPET_FRAME_BYTECODE_BITS | bytecode >> 3;
}

/* Objects of a runtime move, and code that it compiled is dropped; others take their places. Then
 * the collector raises the number of the page (256 KiB) where one was; a page shares its number
 * with others. */
#define LIMPET_MOVED_PAGES 1024u
/* In place of the number of an unloaded module, of an interpreted function or code that is in no
 * module: this and the number of its page; 0 before that is raised. */
#define LIMPET_GONE_MOVED 0x800000u
static inline uint32_t limpet_moved_page(uint64_t address)
{
	return (uint32_t)(address >> 18) % LIMPET_MOVED_PAGES;
}

/* ------------------------------------------------------------------ the shared memory */

/* How many threads can have a state at the same time. */
#define LIMPET_THREADS 4096u
/* The agent's private memory: for each state at its first claim, and shared by all. */
#define LIMPET_SCRATCH_BYTES 4096u
#define LIMPET_RULE_CACHE 8192u /* entries; a power of 2 */
#define LIMPET_RULE_CACHE_BYTES (LIMPET_RULE_CACHE * 16u)
/* ...and the order counters. */
#define LIMPET_PRIVATE_TABLES_BYTES (LIMPET_RULE_CACHE_BYTES + LIMPET_ORDER_BYTES)
/* Address space that the agent reserves in addition to --memory; nearly all of it is never
 * touched. */
#define LIMPET_AGENT_PRIVATE_BYTES (LIMPET_THREADS * LIMPET_SCRATCH_BYTES + (2u << 20))

#define LIMPET_OVERLOAD_SHARE 4u
#define LIMPET_TURN_PAUSES 256u

/* Bits of a word of life: the kernel sets the first when limpet has died, and wakes one who waits
 * for that if the second is set. FUTEX_OWNER_DIED, FUTEX_WAITERS. */
#define LIMPET_COLLECTOR_DIED 0x40000000u
#define LIMPET_LIFE_WAITED_FOR 0x80000000u

/* Readable memory for a walk that starts in it: a mapping, as the collector saw it last. */
struct limpet_stack_range {
	uint64_t low, high; /* high 0: free */
	uint32_t version;   /* +1 before and after each change: odd while it lasts */
	uint32_t pad;
};
#define LIMPET_STACK_RANGES 64u
#define LIMPET_UNKNOWN_STACKS 16u /* a power of 2 */

#define LIMPET_OWN_BYTES (LIMPET_THREADS * 128u)

/* What hooks write lies from the thread states on, up to the end of the segment: states, free map,
 * tables of sampling, chunks. A child may be forked in the middle of a hook, by a signal handler
 * that returns into it. The agent therefore excludes this part from forks (MADV_DONTFORK), and
 * makes the last page of each window of it private memory that grows downwards, which a child
 * inherits: what the child still touches of the window below becomes private memory of zeros. The
 * kernel maps nothing else there: it keeps 1 MiB free below memory that may grow. */
#define LIMPET_WINDOW_BYTES (1u << 20)
/* Of more than this there are no windows: each takes two mappings. */
#define LIMPET_WINDOWS_MAX_BYTES (UINT64_C(1) << 30)
#define LIMPET_WINDOW_PAGE 4096u

/* The layout: offsets from the start of the header, and counts. It is made before the memory is
 * shared. The agent uses the layout in the shared memory; limpet uses only its own copy (struct
 * limpet_segment), since the target can write to this one. */
struct limpet_shm_layout {
	uint64_t threads_offset; /* what hooks write, from here to the end: see LIMPET_WINDOW_BYTES
				  */
	uint64_t chunks_offset, slots_offset;
	uint64_t unwind_modules_offset; /* two arrays of LIMPET_MAX_UNWIND_MODULES */
	uint64_t free_chunks_offset;    /* bit map, 1: free; 64-bit words */
	uint64_t modules_offset;        /* struct limpet_known_module[LIMPET_MAX_KNOWN_MODULES] */
	uint64_t fingerprints_offset[LIMPET_FINGERPRINT_TABLES];
	/* thread_count, fingerprint_count: powers of 2 */
	uint32_t thread_count, chunk_count;
	uint32_t fingerprint_count[LIMPET_FINGERPRINT_TABLES]; /* most entries of a table */
	uint32_t thread_limit;                                 /* maximum number of states */
	uint32_t room_pages; /* for threads that have more stacks to cache */
	/* of sampling; see agent/sampled.h */
	uint32_t sample_table_count;   /* a power of 2 */
	uint32_t sample_filter_shift;  /* reduces a 64-bit hash to a counter's number */
	uint64_t sample_table_offset;  /* LIMPET_HIDDEN addresses of the sampled blocks that are
					  live; 0: free */
	uint64_t sample_filter_offset; /* one byte per counter */
};

/* Whether the chunk is used: not the one with the last page of a window, or of the segment. Its bit
 * in the free map is never set. */
static inline bool limpet_chunk_is_usable(const struct limpet_shm_layout *layout, uint32_t index)
{
	const uint64_t end = layout->chunks_offset - layout->threads_offset +
			     (uint64_t)index * LIMPET_CHUNK_BYTES;

	return end % LIMPET_WINDOW_BYTES && index != layout->chunk_count;
}

/* Events of one kind for which there was no room. */
struct limpet_drops {
	uint64_t count, bytes; /* as in the records that were dropped */
	uint64_t unsized;      /* of these, frees whose size is unknown */
};
#define LIMPET_DROPS_KINDS (LIMPET_EVENT_MUNMAP + 1u) /* by enum limpet_event_type */

/* What was called of the functions that are only noted. */
#define LIMPET_NOTED_DESTROY 1u    /* blocks were released at once */
#define LIMPET_NOTED_UNFOLLOWED 2u /* blocks were allocated or released unseen */

static inline bool limpet_op_reallocates(uint32_t op)
{
	return op == LIMPET_OP_REALLOC || op == LIMPET_OP_REALLOCARRAY ||
	       op == LIMPET_OP_REALLOCF || op == LIMPET_OP_RESIZE;
}

/* Whether a block's usable size is needed: it may be released. */
static inline bool limpet_op_releases(uint32_t op)
{
	return op == LIMPET_OP_FREE || limpet_op_reallocates(op);
}

/* Whether the size is known only from the block. */
static inline bool limpet_op_is_string(uint32_t op)
{
	return op == LIMPET_OP_STRING || op == LIMPET_OP_REALPATH;
}

struct limpet_shm {
	uint64_t magic;
	uint32_t abi;
	uint32_t header_bytes;
	uint64_t nonce;
	uint64_t bytes; /* of the whole segment */
	struct limpet_shm_layout layout;

	/* written by the collector */
	uint32_t ended;           /* 1: the capture has ended, no event is missed any more */
	uint32_t unwind_count[2]; /* entries of the two arrays, each sorted by start */
	uint32_t unwind_gone[2];  /* gone_count before the modules of each were read */
	uint32_t unwind_current;  /* +1 at each change, or +2; bit 0: the valid array; store-release
				   */
	uint32_t max_depth;       /* how many frames of a stack are kept */
	uint32_t time; /* since the capture began, in LIMPET_TIME_UNIT_NS; set at each poll of the
			  collector */
	uint32_t tid_offset; /* of the tid, from the thread pointer; 0: unknown */
	/* Offset in glibc's struct pthread of the thread's stack (start, bytes, guard bytes), from
	 * the thread pointer; 0: unknown. Not for the main thread, whose tid and stack follow. */
	uint32_t stack_offset;
	uint32_t main_tid; /* as the target sees it; 0: its stack is unknown */
	uint64_t main_stack_low, main_stack_high;
	/* The collector's tid in its own pid namespace. When the collector dies, in whatever way,
	 * the kernel sets LIMPET_COLLECTOR_DIED here: the word is in its list of robust futexes,
	 * get_robust_list(2). */
	uint32_t collector;
	/* --on-overload wait: a thread without room waits for the collector, and looks this many
	 * times for a sign of life. 0: it does not wait. */
	uint64_t wait_turns; /* each is LIMPET_TURN_PAUSES pause instructions */
	uint64_t beats;      /* sign of life: incremented each time the chunks are read */
	/* sampling; see common/sample.h and agent/sampled.h */
	uint64_t sample_bytes; /* period; 0: every event is recorded, and there is no table */
	uint64_t sample_seed;
	/* --on-overload sample: when fewer chunks are free than `overload_below`, the agent starts
	 * to sample with this period (0: never) until the collector says that there is room. The
	 * table then contains the blocks that were not recorded, and there is no filter. */
	uint64_t overload_bytes;
	uint32_t overload_below; /* a LIMPET_OVERLOAD_SHARE of the chunks that are free when
				    everything is read */
	uint32_t overload_room;  /* 1: there is room; the agent sets it to 0 when an overload begins
				  */
	struct limpet_interpreter interpreter;
	uint32_t moved_count; /* +1 at each change of `moved`, before unwind_current changes, too */

	/* written by the agent */
	uint64_t agent_fields __attribute__((aligned(128)));
	uint32_t slot_count;     /* including those of modules found later; store-release */
	uint32_t module_count;   /* known modules, likewise */
	uint32_t slots_unhooked; /* slots that were not patched for lack of a hook or of room */
	uint32_t late_modules;   /* modules loaded meanwhile that may have called allocators before
				    their slots were hooked */
	uint32_t noted;          /* LIMPET_NOTED_* */
	uint32_t addresses_requested; /* 1: the program has asked dlsym for a hooked function */
	uint32_t gone_count;          /* +1 for each module that is unloaded; store-release */
	uint32_t gone_places;         /* entries of the table below; store-release */
	uint32_t late_count;          /* modules told of in `late`, so far; store-release */
	uint32_t states_claimed;      /* distinct ones, so far */
	uint32_t room_pages_used;
	uint32_t modules_seen;   /* times a loader hook found new modules */
	uint32_t bell;           /* changes when there is something for the collector to do */
	uint32_t unknown_count;  /* stack pointers written to `unknown`, so far */
	uint32_t ranges_used;    /* 1: an entry of `ranges` was used; the collector sets it to 0 */
	uint64_t lost_no_thread; /* calls passed through: no room for a thread's state, or not
				   libc's thread */
	/* Calls that could not be recorded: the thread's state belonged to an unfinished call,
	 * which a signal handler had interrupted or which is on another stack; or a fibre ended a
	 * call in another thread than the one in which it began. */
	uint64_t lost_state_in_use;
	/* The same for functions that the user named: it is unknown how far their arguments reach
	 * on the stack, or it is too far; or an argument does not fit the signature. */
	uint64_t lost_arguments;
	struct limpet_fingerprint_use fingerprint_use[LIMPET_FINGERPRINT_TABLES];
	uint64_t lost_no_sample; /* sampled allocations for which the table had no room */
	struct limpet_drops drops[LIMPET_DROPS_KINDS]; /* of all threads: drops are rare */
	/* A ring of stack pointers outside the threads' own stacks (fibres, alternate signal
	 * stacks): the collector looks for their stacks in the maps. */
	uint64_t unknown[LIMPET_UNKNOWN_STACKS];
	/* One bit per state, set before the state is claimed and never cleared: states without it
	 * need no check. */
	uint64_t states_used[LIMPET_THREADS / 64];
	struct limpet_gone gone[LIMPET_MAX_GONE];
	/* The stacks that the collector found for them. */
	struct limpet_stack_range ranges[LIMPET_STACK_RANGES];
	uint32_t next_stack __attribute__((aligned(128))); /* the next number to be taken */
	/* Large and rarely touched: after what each start of the agent touches. */
	struct limpet_late_module late[LIMPET_LATE_MODULES] __attribute__((aligned(128)));
	/* By limpet_moved_page(); written by the collector. */
	uint32_t moved[LIMPET_MOVED_PAGES];
};

/* ------------------------------------------------------------------ protections
 *
 * A program may list its mappings, and later read what was listed as readable: by then limpet's may
 * be gone. So none of them is, unless limpet itself could not read it then (limpet_start.readable).
 * On x86-64 memory that can be written can be read as well, and so can code, except on a processor
 * with protection keys, where the kernel gives code that is nothing else a key of its own: code
 * reads no data from pages of code. */
#define LIMPET_PROT_DATA 2u /* PROT_WRITE */
#define LIMPET_PROT_CODE 4u /* PROT_EXEC */

/* ------------------------------------------------------------------ start, detach, rescan */

/* Never changes: exported as `limpet_agent_info` in the agent's dynamic symbol table. Function
 * addresses are absolute. Each entry is called on a thread at a safe point, as int fn(struct *). */
struct limpet_agent_info {
	uint64_t magic; /* LIMPET_INFO_MAGIC */
	uint32_t abi;
	uint32_t bytes;   /* of this struct */
	uint64_t nonce;   /* of the attach; 0 before start */
	uint64_t state;   /* enum limpet_agent_state */
	uint64_t handle;  /* of dlopen, for dlclose; 0: mapped without it */
	uint64_t start;   /* int (struct limpet_start *) */
	uint64_t detach;  /* int (void): pass through, restore slots; returns slots not restored */
	uint64_t release; /* int (void): unmap the agent's memory; last call */
	uint64_t rescan;  /* int (void): patch slots of new modules; returns slots patched */
	uint64_t shm;     /* address of struct limpet_shm in the target */
	uint64_t channel; /* -1; of older agents a descriptor in the target */
	uint64_t thunks,
		thunk_bytes;     /* address of thunk 0 (limpet_boot.thunks), distance of the next */
	uint64_t hooks;          /* address of struct limpet_hook[LIMPET_MAX_HOOKS] */
	uint64_t map, map_bytes; /* where the stub mapped it, for munmap; 0: by dlopen */
	uint64_t scratch; /* address of its private memory; 0: none yet, or an older agent's */
	/* 1: `detach` restores the slots, by a walk of the dynamic linker's; 0: the injector does.
	 * An older agent, whose `bytes` end before this, does so unless it is mapped. */
	uint64_t restores;
};

enum limpet_agent_state {
	LIMPET_AGENT_LOADED = 0,
	LIMPET_AGENT_ACTIVE = 1,
	LIMPET_AGENT_PASSING = 2, /* switched off: slots are restored or being restored */
	LIMPET_AGENT_RELEASED = 3
};

/* The dynamic linker's data in the target that loader hooks use (agent/loaded.c). */
struct limpet_loader {
	uint64_t lock; /* glibc's load lock, struct limpet_loader_mutex; 0: only is_musl is known */
	uint64_t adds; /* uint64_t: modules that were ever loaded */
	uint64_t spaces, space_bytes; /* its table of namespaces, and the size of an entry */
	uint64_t space_count;         /* uint64_t: how many are used */
	uint64_t program_head;        /* the program's ELF header */
	uint64_t is_musl;
};

/* How the registers that no code of the agent uses are saved around a call of the program's code.
 * The agent does not ask the processor: the program may have forbidden that (arch_prctl). */
struct limpet_vectors {
	uint32_t mask;    /* features of the extended state; 0: there is no xsave */
	uint32_t bytes;   /* room for them */
	uint32_t by_hand; /* 1: the processor tells what is in use, and nothing else has to be saved
			     than the agent knows; 0: by xsave */
};

/* Argument of `start`, in the shared file. */
struct limpet_start {
	uint32_t abi;
	uint32_t bytes;
	uint64_t nonce;
	uint64_t shm, shm_bytes; /* mapped by the injector, without access; the arena follows it */
	uint64_t unwind_bytes;
	uint64_t private_end; /* below it there is room for the agent's private memory */
	uint64_t page_bytes;
	uint64_t dl_iterate_phdr; /* in the target; 0: none */
	uint64_t r_debug;         /* struct r_debug of the dynamic linker; 0: none */
	struct limpet_loader loader;
	uint64_t handle;
	uint64_t map, map_bytes;
	uint64_t control_page; /* result: the private page that fork wipes; hooks record from when
				  the injector sets its first word to 1 */
	uint32_t hook_count;
	uint32_t slot_count; /* in the shared memory's slot table, state PLANNED */
	uint32_t method;     /* enum limpet_method */
	uint32_t unlock;     /* the process may lock new mappings (mlockall): unlock the agent's */
	uint32_t windows;    /* memory may grow by a window: keep forked children out of what hooks
				write */
	uint32_t readable;   /* PROT_READ: map everything as readable, too */
	struct limpet_vectors vectors;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	/* for modules that are loaded later: what an unbound slot of this name would resolve to */
	uint64_t default_original[LIMPET_MAX_FAMILY];
	/* results */
	int32_t result; /* 0 or -errno */
	uint32_t patched;
};

/* The thunks are in a separate mapping, a page of code and a page of addresses, at which each thunk
 * continues. The mapping can outlive the agent: then thunks continue at the originals. The page of
 * code has a fixed offset in the image's file, by which the mapping is recognized. */
#define LIMPET_THUNKS_OFFSET (1u << 20)
#define LIMPET_THUNKS_BYTES 4096u

/* Argument of the boot stub, in the remote call's scratch memory together with the stack: memory
 * shared with the injector. The stub that attaches runs in the agent, if that is mapped; any other
 * runs from a mapping of its own, so that it can unload the agent. When it has finished it sets
 * `ready`, and waits for the injector, which stops the thread there and restores its registers. If
 * the injector dies instead, or lets go, the stub switches the agent off, unmaps itself and returns
 * through the sigreturn frame. */
enum limpet_boot_operation {
	LIMPET_BOOT_ATTACH = 1, /* relocate or dlopen, start */
	LIMPET_BOOT_CALL = 2,   /* result = call(argument) */
	LIMPET_BOOT_UNLOAD = 3  /* release, dlclose or unmap */
};
/* Without a dynamic linker the injector has the agent mapped as a whole, all of it as code; the
 * stub gives each mapping its protection, also if the dynamic linker has mapped it. */
#define LIMPET_BOOT_MAPPINGS_MAX 8u
struct limpet_boot_mapping {
	uint64_t offset, bytes; /* whole pages */
	uint32_t protection, pad;
};
struct limpet_boot_map {
	uint64_t bytes; /* of all together */
	uint32_t mapping_count, pad;
	struct limpet_boot_mapping mappings[LIMPET_BOOT_MAPPINGS_MAX];
};
struct limpet_boot {
	uint32_t operation;
	int32_t result;            /* 0, or -errno, or the result of CALL */
	uint32_t stage;            /* how far it got: enum limpet_boot_stage */
	uint32_t may_protect_code; /* mprotect(2) may be called with LIMPET_PROT_CODE */
	uint32_t ready; /* futex: 1 when the stub has finished; of another value it is a wake of the
			  injector's own */
	uint32_t released; /* 1: the injector does not wait any more */
	uint32_t own_life; /* a word of life, for calls that the agent may not survive */
	uint64_t life;     /* address of the word that counts: like limpet_shm.collector */
	uint64_t dlopen, dlclose, dlerror; /* dlerror 0: none */
	uint64_t message; /* where the thread's message for dlerror() is; 0: unknown */
	uint64_t dlopen_mode;
	uint64_t info_offset;        /* of limpet_agent_info from the load bias, for ATTACH */
	uint64_t info;               /* its address: result of ATTACH, argument of UNLOAD */
	uint64_t handle;             /* of dlopen, the same; 0: mapped */
	uint64_t agent, agent_bytes; /* where it is mapped, the same */
	uint64_t thunks;             /* the same; UNLOAD with 0 leaves them mapped */
	uint64_t image, image_bytes; /* the agent's file, for dlopen */
	char file_name[16];
	struct limpet_boot_map layout;
	uint64_t call;
	uint64_t argument;
	uint64_t exit_sp;      /* of the sigreturn frame on the thread's own stack */
	uint64_t exit_syscall; /* a `syscall; ret` outside of limpet's code */
	/* What is unmapped when the injector is gone: everything that was mapped for this call;
	 * once the agent has started, the stub. */
	uint64_t map, map_bytes;
	uint64_t stub, stub_bytes;
	char path[160]; /* /proc/thread-self/fd/N in a spelling unique to this attach */
	char error[256];
	struct limpet_start start;
};
enum limpet_boot_stage { LIMPET_STAGE_LOADED = 1, LIMPET_STAGE_STARTED, LIMPET_STAGE_DONE };

/* No program has memory below (vm.mmap_min_addr) or above, even with five-level page tables. */
#define LIMPET_LOWEST_ADDRESS 65536u
#define LIMPET_HIGHEST_ADDRESS (1ull << 56)

#endif
