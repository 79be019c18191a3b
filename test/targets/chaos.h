/* chaos: an interpreter of small programs that are drawn at random, and that check themselves. What
 * its parts share; chaos.c says how it is used.
 *
 * A program is a list of lines "MACHINE [@PHASE] OPERATION [NUMBER...]". Each machine is a thread,
 * the first is the main thread. It does its operations in turn, again and again; those with a phase
 * once, when that phase is told. Any line can be left out of a program and it stays a good one: by
 * that a program that fails is made smaller.
 *
 * An operation checks its own results, and ends the process by chaos_broken when one is wrong. All
 * of them keep SIGUSR1, SIGUSR2 and SIGRTMIN blocked but where they say otherwise, so that no
 * handler ever interrupts the allocator. */
#ifndef LIMPET_TEST_TARGETS_CHAOS_H
#define LIMPET_TEST_TARGETS_CHAOS_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

enum {
	CHAOS_MACHINES = 6,
	CHAOS_OPERATIONS = 64, /* of one machine */
	CHAOS_NUMBERS = 3,     /* of one operation, at most */
	CHAOS_BLOCKS = 16,
	CHAOS_AREAS = 4,
	CHAOS_POINTERS = 4,
	CHAOS_PHASES = 3, /* before, during and after a capture */
	CHAOS_STACK = 256 << 10,
	CHAOS_SIGNAL_STACK = 64 << 10
};

enum chaos_flag {
	CHAOS_ONCE = 1,  /* drawn with a phase: it changes the process for good, or takes long */
	CHAOS_EARLY = 2, /* and in the first phase only */
	CHAOS_MORE = 4,  /* the C library may allocate for itself: what is recorded may be more */
	CHAOS_LESS = 8   /* calls may go round what limpet hooks: it may be less */
};

struct chaos_machine;

/* What can be done. One that is known to fail says why, and is drawn when it is asked for by name.
 */
struct chaos_kind {
	const char *name;
	void (*run)(struct chaos_machine *machine, const unsigned long *numbers);
	struct {
		unsigned long least, most;
	} ranges[CHAOS_NUMBERS]; /* most 0: no such number */
	unsigned weight;
	unsigned flags;
	const char *known;
};

struct chaos_operation {
	const struct chaos_kind *kind;
	int phase; /* -1: again and again */
	unsigned long numbers[CHAOS_NUMBERS];
};

struct chaos_block {
	unsigned char *address;
	size_t bytes;
	unsigned char pattern;
};

struct chaos_machine {
	unsigned index;
	pthread_t thread;
	uint64_t random;
	struct chaos_operation operations[CHAOS_OPERATIONS];
	unsigned count, at;
	_Atomic int phase; /* whose operations it has done */
	struct chaos_block blocks[CHAOS_BLOCKS], areas[CHAOS_AREAS];
	void *(*allocators[CHAOS_POINTERS])(size_t);
	void (*releases[CHAOS_POINTERS])(void *);
	/* What a handler does, and what it did. */
	volatile unsigned handled;
	volatile unsigned manner; /* enum chaos_manner */
	sigjmp_buf back;
	ucontext_t coroutine, resumer;
	void *coroutine_stack;
	unsigned long coroutine_task;
	void *signal_stack;
	unsigned char *frame_stack; /* within main's frame */
};

enum chaos_manner {
	CHAOS_RETURNS,
	CHAOS_ALLOCATES,
	CHAOS_LEAVES, /* by siglongjmp to `back` */
	CHAOS_ALLOCATES_AND_LEAVES,
	CHAOS_MANNERS
};

/* Each is counted when the call has returned. A realloc is an allocation and a free. */
struct chaos_counts {
	atomic_ulong allocations, frees, bytes, maps, unmaps, steps;
};

extern struct chaos_counts chaos_counts;
extern struct chaos_machine chaos_machines[CHAOS_MACHINES];
extern unsigned chaos_machine_count;
/* Threads that nobody joins. */
extern atomic_int chaos_detached;
/* Held for reading by whoever has descriptors of its own, for writing by who closes all. */
extern pthread_rwlock_t chaos_descriptors;
/* Of this thread. */
extern _Thread_local struct chaos_machine *chaos_self;
extern const char *chaos_module_path;

extern const struct chaos_kind chaos_kinds[];
extern const unsigned chaos_kind_count;

/* chaos.c: with the machine and its operation at hand; status TARGET_EXIT_BROKEN. */
__attribute__((format(printf, 1, 2), noreturn)) void chaos_broken(const char *format, ...);
uint64_t chaos_random(struct chaos_machine *machine, uint64_t most);

/* chaos_program.c */
void chaos_program_draw(uint64_t seed, const char *with, const char *only);
void chaos_program_read(const char *path);
void chaos_program_list(void);

/* chaos_memory.c: counted calls, and blocks that are checked. */
void *chaos_malloc(size_t bytes);
void chaos_free(void *address);
void *chaos_map(size_t bytes, int flags);
void chaos_unmap(void *address, size_t bytes);
void chaos_fill(struct chaos_block *block);
void chaos_check(const struct chaos_block *block);
/* Some blocks that are made, checked and freed. */
void chaos_churn(unsigned count, size_t bytes);
/* Checks what the machine still has, and frees it. */
void chaos_memory_end(struct chaos_machine *machine);

/* chaos_threads.c */
void chaos_signals_begin(void);
void chaos_signals_block(void);
void chaos_signals_check(void);
void chaos_sleep_us(unsigned long us);
void chaos_threads_end(struct chaos_machine *machine);

/* chaos_process.c */
void chaos_process_begin(void);
void chaos_process_check(void);

#define CHAOS_OPERATION(name) void chaos_op_##name(struct chaos_machine *, const unsigned long *)
CHAOS_OPERATION(malloc);
CHAOS_OPERATION(calloc);
CHAOS_OPERATION(realloc);
CHAOS_OPERATION(aligned);
CHAOS_OPERATION(free);
CHAOS_OPERATION(look);
CHAOS_OPERATION(map);
CHAOS_OPERATION(remap);
CHAOS_OPERATION(protect);
CHAOS_OPERATION(take);
CHAOS_OPERATION(call);
CHAOS_OPERATION(take_packed);
CHAOS_OPERATION(take_sealed);
CHAOS_OPERATION(maps);
CHAOS_OPERATION(growsdown);
CHAOS_OPERATION(thread);
CHAOS_OPERATION(detach);
CHAOS_OPERATION(cancel);
CHAOS_OPERATION(raw_thread);
CHAOS_OPERATION(raw_process);
CHAOS_OPERATION(raise);
CHAOS_OPERATION(kick);
CHAOS_OPERATION(window);
CHAOS_OPERATION(altstack);
CHAOS_OPERATION(altstack_frame);
CHAOS_OPERATION(coroutine);
CHAOS_OPERATION(spin);
CHAOS_OPERATION(fork);
CHAOS_OPERATION(vfork);
CHAOS_OPERATION(spawn);
CHAOS_OPERATION(dlopen);
CHAOS_OPERATION(dlerror);
CHAOS_OPERATION(filter);
CHAOS_OPERATION(late_filter);
CHAOS_OPERATION(close_all);
CHAOS_OPERATION(dup_over);
CHAOS_OPERATION(few_descriptors);
CHAOS_OPERATION(lowest);
CHAOS_OPERATION(scan);
CHAOS_OPERATION(probed);
CHAOS_OPERATION(lock_memory);
CHAOS_OPERATION(read);
CHAOS_OPERATION(write);
CHAOS_OPERATION(receive);
CHAOS_OPERATION(accept);
CHAOS_OPERATION(nanosleep);
CHAOS_OPERATION(poll);
CHAOS_OPERATION(futex);
CHAOS_OPERATION(futex_timed);

#endif
