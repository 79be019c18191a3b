#include "injector/remote/safepoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/pagemap.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/signal_frame.h"
#include "injector/remote/stack_room.h"

#define STACK_COPY_BYTES (256u << 10)
#define MAX_FRAMES 512u
#define MAX_RANGES 1024u
#define ALLOCATOR_SPAN (64u << 10)
#define PAGE 4096u
#define HEAP_ALIGN (64ull << 20) /* glibc's HEAP_MAX_SIZE: secondary arenas start at multiples */
#define TLS_BYTES 8192u
/* Of a stack, read one by one beyond the copy: each is a system call while the threads stand. */
#define FAR_PAGES 64u

struct range {
	uint64_t start, end;
	enum limpet_safepoint_verdict verdict;
};

struct limpet_safepoint {
	pid_t pid;
	const struct limpet_segment *segment;
	struct limpet_modules *modules;
	struct range ranges[MAX_RANGES];
	size_t range_count;
	uint64_t libc_start, libc_end;
	uint64_t start_stack; /* the process's first stack pointer; 0: unknown */
	int pagemap; /* opened in advance: opening it takes calls while a thread is stopped */
};

static const char *const allocator_functions[] = {
	"malloc",
	"calloc",
	"realloc",
	"free",
	"memalign",
	"aligned_alloc",
	"posix_memalign",
	"valloc",
	"pvalloc",
	"reallocarray",
	"malloc_trim",
	"mallopt",
	"mallinfo",
	"mallinfo2",
	"malloc_info",
	"malloc_stats",
	"__libc_malloc",
	"__libc_calloc",
	"__libc_realloc",
	"__libc_free",
	"__libc_memalign",
	"cfree",
	"malloc_usable_size",
};
static const char *const thread_functions[] = {
	"pthread_create", "pthread_exit", "pthread_cancel", "pthread_detach",
	"thrd_create",    "thrd_exit",    "fork",           "_Fork",
	"__libc_fork",    "vfork",        "__vfork",        "posix_spawn",
	"posix_spawnp",   "system",       "popen",          "execve",
	"execv",          "execvp",       "execl",          "exit",
	"_exit",          "_Exit",        "quick_exit",     "abort",
	"atexit",         "__cxa_atexit", "__cxa_finalize", "setuid",
	"setgid",         "setresuid",    "setgroups",      "__nptl_deallocate_tsd",
};
static const char *const loader_functions[] = {
	"dlopen",
	"dlmopen",
	"dlsym",
	"dlvsym",
	"dlclose",
	"dlerror",
	"dladdr",
	"dladdr1",
	"dlinfo",
	"dl_iterate_phdr",
	"__libc_dlopen_mode",
	"__libc_dlsym",
	"__libc_dlclose",
	"_dl_find_object",
};

static void add_range(struct limpet_safepoint *safepoint, uint64_t start, uint64_t end,
		      enum limpet_safepoint_verdict verdict)
{
	if (safepoint->range_count < MAX_RANGES && end > start)
		safepoint->ranges[safepoint->range_count++] = (struct range){start, end, verdict};
}

static void add_functions(struct limpet_safepoint *safepoint, struct limpet_module *module,
			  const char *const *names, size_t count,
			  enum limpet_safepoint_verdict verdict)
{
	for (size_t i = 0; i < count; i++) {
		Elf64_Sym symbol;
		uint64_t address =
			limpet_module_symbol(safepoint->modules->target, module, names[i], &symbol);

		if (address)
			add_range(safepoint, address, address + (symbol.st_size ?: 1), verdict);
	}
}

/* The static functions of libc's malloc.o have no dynamic symbols, but they are between functions
 * that have. */
static void add_allocator_object(struct limpet_safepoint *safepoint, struct limpet_module *libc)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(allocator_functions); i++) {
		Elf64_Sym symbol;
		uint64_t address = limpet_module_symbol(safepoint->modules->target, libc,
							allocator_functions[i], &symbol);

		if (!address)
			continue;
		if (address < low)
			low = address;
		if (address + symbol.st_size > high)
			high = address + symbol.st_size;
	}
	if (high > low && high - low <= ALLOCATOR_SPAN)
		add_range(safepoint, low, high, LIMPET_UNSAFE_ALLOCATOR);
}

static uint64_t start_stack(pid_t pid)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(pid, pid, fields) >= (int)LIMPET_STAT_START_STACK
		       ? fields[LIMPET_STAT_START_STACK]
		       : 0;
}

int limpet_safepoint_new(struct limpet_modules *modules, const struct limpet_segment *segment,
			 struct limpet_safepoint **ret)
{
	struct limpet_safepoint *safepoint = calloc(1, sizeof(*safepoint));

	if (!safepoint)
		return -ENOMEM;
	safepoint->pid = modules->target->pid;
	safepoint->segment = segment;
	safepoint->modules = modules;
	safepoint->pagemap = limpet_pagemap_open(modules->target->pid);
	safepoint->start_stack = start_stack(safepoint->pid);
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];

		if (module->loader) {
			add_range(safepoint, module->text_start, module->text_end,
				  LIMPET_UNSAFE_LOADER);
			continue;
		}
		if (module->agent) {
			add_range(safepoint, module->text_start, module->text_end,
				  LIMPET_UNSAFE_AGENT);
			continue;
		}
		if (module->vdso || !limpet_module_has_malloc(modules->target, module)) {
			/* libpthread of older glibc contains some of these, too. */
			if (strstr(module->path, "libpthread") || strstr(module->path, "libdl"))
				goto functions;
			continue;
		}
		if (!limpet_module_is_libc(modules->target, module)) {
			/* A library that is an allocator: all of it, unless it is the program
			 * itself. */
			if (!module->executable)
				add_range(safepoint, module->text_start, module->text_end,
					  LIMPET_UNSAFE_ALLOCATOR);
			add_functions(safepoint, module, allocator_functions,
				      LIMPET_COUNT_OF(allocator_functions),
				      LIMPET_UNSAFE_ALLOCATOR);
			continue;
		}
		safepoint->libc_start = module->start;
		safepoint->libc_end = module->end;
		add_allocator_object(safepoint, module);
	functions:
		add_functions(safepoint, module, allocator_functions,
			      LIMPET_COUNT_OF(allocator_functions), LIMPET_UNSAFE_ALLOCATOR);
		add_functions(safepoint, module, thread_functions,
			      LIMPET_COUNT_OF(thread_functions), LIMPET_UNSAFE_THREADS);
		add_functions(safepoint, module, loader_functions,
			      LIMPET_COUNT_OF(loader_functions), LIMPET_UNSAFE_LOADER);
	}
	/* Code of ours outside of any module: a hook area. */
	for (size_t i = 0; i < modules->maps.count; i++)
		if (limpet_memfd_is_agent(modules->maps.list[i].path))
			add_range(safepoint, modules->maps.list[i].start, modules->maps.list[i].end,
				  LIMPET_UNSAFE_AGENT);
	*ret = safepoint;
	return 0;
}

void limpet_safepoint_keep_out(struct limpet_safepoint *safepoint, uint64_t start, uint64_t end)
{
	add_range(safepoint, start, end, LIMPET_UNSAFE_ALLOCATOR);
}

void limpet_safepoint_free(struct limpet_safepoint *safepoint)
{
	if (!safepoint)
		return;
	if (safepoint->pagemap >= 0)
		close(safepoint->pagemap);
	free(safepoint);
}

const char *limpet_safepoint_word(enum limpet_safepoint_verdict verdict)
{
	static const char *const words[] = {
		[LIMPET_SAFE] = "safe",
		[LIMPET_UNSAFE_ALLOCATOR] = "in the allocator",
		[LIMPET_UNSAFE_LOADER] = "in the dynamic linker",
		[LIMPET_UNSAFE_THREADS] = "creating or ending a thread or process",
		[LIMPET_UNSAFE_SIGNAL] = "in a signal handler",
		[LIMPET_UNSAFE_RSEQ] = "where it may be in a restartable sequence",
		[LIMPET_UNSAFE_AGENT] = "in a hook",
		[LIMPET_UNSAFE_UNKNOWN] = "in code whose stack could not be followed",
		[LIMPET_UNSAFE_STACK] = "short of stack, or on one that is not the thread's own",
		[LIMPET_UNSAFE_POINTER] = "on thread-local storage that is not the C library's",
		[LIMPET_UNSAFE_CODE] = "in 32-bit code",
		[LIMPET_UNSAFE_DISPATCH] = "handing its system calls to a handler of its own",
		[LIMPET_UNSAFE_KEYS] = "without access to most memory, by protection keys",
		[LIMPET_UNSAFE_FILTER] =
			"under a seccomp filter that forbids limpet's system calls",
	};

	return words[verdict];
}

bool limpet_safepoint_is_lasting(enum limpet_safepoint_verdict verdict)
{
	return verdict == LIMPET_UNSAFE_UNKNOWN || verdict == LIMPET_UNSAFE_STACK ||
	       verdict == LIMPET_UNSAFE_POINTER || verdict == LIMPET_UNSAFE_CODE ||
	       verdict == LIMPET_UNSAFE_DISPATCH;
}

/* One thread that is looked at. */
struct scan {
	const struct limpet_safepoint *safepoint;
	const struct limpet_walk_copy *stack;
	uint64_t stack_end;
	bool on_first_stack; /* the kernel's, which is the first thread's */
	bool malloc_too;
};

static enum limpet_safepoint_verdict verdict_in(const struct scan *scan, const struct range *range)
{
	return range->verdict == LIMPET_UNSAFE_ALLOCATOR && !scan->malloc_too ? LIMPET_SAFE
									      : range->verdict;
}

static enum limpet_safepoint_verdict check_pc(const struct scan *scan, uint64_t pc,
					      bool *is_program)
{
	const struct limpet_safepoint *safepoint = scan->safepoint;
	const struct limpet_module *module;

	for (size_t i = 0; i < safepoint->range_count; i++) {
		const struct range *range = &safepoint->ranges[i];

		if (pc >= range->start && pc < range->end)
			return verdict_in(scan, range);
	}
	module = limpet_modules_find(safepoint->modules, pc);
	if (!module ||
	    (!module->vdso && !(pc >= safepoint->libc_start && pc < safepoint->libc_end)))
		*is_program = true;
	return LIMPET_SAFE;
}

/* The restorer's address alone occurs in other places, too: sigaction(2) gets it in a struct on the
 * caller's stack, which may remain there. */
static bool is_signal_frame(uint64_t at, const uint64_t *words, size_t count)
{
	if (!LIMPET_ARCH_SIGNAL_FRAME_ALIGNS(at))
		return false;
	return count <= LIMPET_ARCH_SIGNAL_FRAME_SEGMENTS ||
	       (words[LIMPET_ARCH_SIGNAL_FRAME_SEGMENTS] & 0xffff) == LIMPET_ARCH_USER_CODE;
}

/* The kernel pushes its frame right below the interrupted code's stack, except for handlers on an
 * alternate stack. That stack may be an array in an outer frame, with live frames below it. */
static bool is_on_same_stack(uint64_t frame, uint64_t interrupted_sp)
{
	return interrupted_sp > frame && interrupted_sp - frame <= LIMPET_ARCH_SIGNAL_FRAME_REACH;
}

static bool follows_call(pid_t pid, uint64_t address)
{
	uint8_t before[LIMPET_ARCH_CALL_BYTES];

	/* Memory that cannot be read may be one. */
	return limpet_memory_read(pid, address - sizeof(before), before, sizeof(before)) < 0 ||
	       limpet_arch_ends_call(before);
}

/* The dynamic linker has left return addresses on each initial stack, and our hooks have on all. A
 * thread inside the linker holds its lock, and one inside a hook is counted by the agent; both are
 * checked separately. */
static bool is_known_otherwise(enum limpet_safepoint_verdict verdict)
{
	return verdict == LIMPET_UNSAFE_LOADER || verdict == LIMPET_UNSAFE_AGENT;
}

static enum limpet_safepoint_verdict check_word(const struct scan *scan, uint64_t word)
{
	const struct limpet_safepoint *safepoint = scan->safepoint;

	for (size_t i = 0; i < safepoint->range_count; i++) {
		const struct range *range = &safepoint->ranges[i];

		if (word - 1 >= range->start && word - 1 < range->end &&
		    !is_known_otherwise(range->verdict))
			return follows_call(safepoint->pid, word) ? verdict_in(scan, range)
								  : LIMPET_SAFE;
	}
	return LIMPET_SAFE;
}

/* Checks stack words where frames cannot be followed, or may have been skipped: a thread in the
 * middle of a call has the call's return address there. A stale word from an earlier call looks the
 * same, and costs another try; in a long-lived frame that never overwrites it, it costs this
 * thread. */
static enum limpet_safepoint_verdict check_words(const struct scan *scan, uint64_t from,
						 uint64_t to)
{
	const struct limpet_walk_copy *stack = scan->stack;
	const uint64_t *words = (const uint64_t *)(const void *)stack->data;
	const size_t count = stack->bytes / sizeof(*words);
	size_t end = count;

	/* Another stack, or only a part of it was copied. */
	if (from % sizeof(*words) || stack->base % sizeof(*words) || from < stack->base ||
	    from - stack->base > stack->bytes ||
	    (to == UINT64_MAX && stack->bytes == STACK_COPY_BYTES) ||
	    (to != UINT64_MAX && (to < from || to - stack->base > stack->bytes)))
		return LIMPET_UNSAFE_UNKNOWN;
	if (to != UINT64_MAX)
		end = (to - stack->base) / sizeof(*words);
	for (size_t i = (from - stack->base) / sizeof(*words); i < end; i++) {
		enum limpet_safepoint_verdict verdict = check_word(scan, words[i]);

		if (verdict != LIMPET_SAFE)
			return verdict;
		if (is_signal_frame(stack->base + i * sizeof(*words), &words[i], count - i) &&
		    limpet_signal_is_restorer(scan->safepoint->pid, words[i]))
			return LIMPET_UNSAFE_SIGNAL;
	}
	return LIMPET_SAFE;
}

/* Code without a description, and nothing says that it is the outermost frame: a frame pointer of 0
 * may be any number. */
static bool is_doubtful_root(const struct limpet_walk_map *map,
			     const struct limpet_walk_frame *frame)
{
	uint64_t pc = frame->pc - !(frame->flags & LIMPET_FRAME_EXACT);

	return limpet_walk_find_rule(map, NULL, pc).cfa == LIMPET_CFA_NONE &&
	       !limpet_walk_is_root(map, NULL, frame);
}

/* A copied part of a stack, and the one page of the rest of it that was looked at last: frames that
 * large arrays keep apart. */
struct long_stack {
	const struct limpet_walk_copy *copy;
	uint64_t end;
	pid_t pid;
	unsigned pages; /* that were read */
	struct limpet_walk_copy far;
	uint8_t page[PAGE];
};

static bool read_long_stack(const void *memory, uint64_t address, uint64_t *ret_word)
{
	/* The walk's memory is constant to it; this is a cache of it. */
	struct long_stack *stack = (struct long_stack *)(uintptr_t)memory;
	const uint64_t first = address & ~(uint64_t)(PAGE - 1);
	ssize_t got;

	if (limpet_walk_read_copy(stack->copy, address, ret_word) ||
	    limpet_walk_read_copy(&stack->far, address, ret_word))
		return true;
	if (address < stack->copy->base + stack->copy->bytes || address >= stack->end ||
	    stack->pages == FAR_PAGES)
		return false;
	stack->pages++;
	got = limpet_memory_read_some(stack->pid, first, stack->page, sizeof(stack->page));
	stack->far = (struct limpet_walk_copy){
		.base = first, .bytes = got > 0 ? (uint64_t)got : 0, .data = stack->page};
	return limpet_walk_read_copy(&stack->far, address, ret_word);
}

/* Checks what is above the last frame that is certain. */
static enum limpet_safepoint_verdict check_rest(const struct scan *scan,
						const struct limpet_walk_map *map,
						const struct limpet_walk_frame *frame,
						enum limpet_walk_end end)
{
	if (end == LIMPET_WALK_COMPLETE && !is_doubtful_root(map, frame))
		return LIMPET_SAFE;
	return check_words(scan,
			   end == LIMPET_WALK_LOST || end == LIMPET_WALK_COMPLETE
				   ? frame->sp
				   : scan->stack->base,
			   UINT64_MAX);
}

static uint64_t stack_end_in(const struct limpet_maps *maps, const struct user_regs_struct *regs,
			     bool *ret_kernels)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, regs->rsp);

	*ret_kernels = map && !strcmp(map->path, "[stack]");
	if (map && regs->fs_base > regs->rsp && regs->fs_base < map->end)
		return regs->fs_base;
	return map ? map->end : 0;
}

/* Above a thread's stack are its TLS and whatever else was mapped there, which may be memory whose
 * reads the program itself serves (userfaultfd). The thread may be younger than the maps at hand.
 * 0: not known. */
static uint64_t stack_end(const struct limpet_safepoint *safepoint,
			  const struct user_regs_struct *regs, bool *ret_kernels)
{
	uint64_t end = stack_end_in(&safepoint->modules->maps, regs, ret_kernels);
	struct limpet_maps maps;

	if (end || limpet_proc_maps_read(safepoint->pid, &maps) < 0)
		return end;
	end = stack_end_in(&maps, regs, ret_kernels);
	limpet_proc_maps_done(&maps);
	return end;
}

/* Copies a part of the stack to `memory`, of STACK_COPY_BYTES. */
static bool copy_stack(const struct limpet_safepoint *safepoint, const struct limpet_tracee *tracee,
		       uint8_t *memory, struct scan *scan, struct limpet_walk_copy *stack)
{
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);
	bool kernels = false;
	const uint64_t end = stack_end(safepoint, regs, &kernels);
	uint64_t bytes = end - regs->rsp;
	ssize_t got;

	if (bytes > STACK_COPY_BYTES)
		bytes = STACK_COPY_BYTES;
	got = end && memory ? limpet_memory_read_some(safepoint->pid, regs->rsp, memory, bytes) : 0;
	*stack = (struct limpet_walk_copy){
		.base = regs->rsp, .bytes = got > 0 ? (uint64_t)got : 0, .data = memory};
	*scan = (struct scan){.safepoint = safepoint,
			      .stack = stack,
			      .stack_end = end,
			      .on_first_stack =
				      kernels && limpet_tracee_tid(tracee) == safepoint->pid};
	return got > 0;
}

/* No return address of a thread's or the process's first function is further up. */
static bool is_outermost(const struct limpet_walk_map *map, struct long_stack *stack, uint64_t sp,
			 uint64_t top)
{
	for (uint64_t word; sp < top; sp += sizeof(word)) {
		if (!read_long_stack(stack, sp, &word))
			return false;
		if (limpet_walk_plausible_pc(word) &&
		    limpet_walk_find_rule(map, NULL, word - 1).cfa == LIMPET_CFA_END)
			return false;
	}
	return true;
}

/* False on the stack of a coroutine in an array of a thread's: its frames end there, with live
 * memory of others above and below. True also if it is not known where they end. */
static bool ends_at_top(const struct scan *scan, const struct limpet_walk_map *map,
			struct long_stack *stack, const struct limpet_walk_frame *frame,
			enum limpet_walk_end end)
{
	const uint64_t top = scan->on_first_stack ? scan->safepoint->start_stack : stack->end;

	if (end != LIMPET_WALK_COMPLETE || is_doubtful_root(map, frame))
		return true;
	return top && is_outermost(map, stack, frame->sp, top);
}

static enum limpet_safepoint_verdict check_frames(const struct scan *scan,
						  const struct limpet_tracee *tracee)
{
	const struct limpet_safepoint *safepoint = scan->safepoint;
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);
	struct long_stack all = {
		.copy = scan->stack, .end = scan->stack_end, .pid = safepoint->pid};
	struct limpet_walk_frame frame = {
		.pc = regs->rip, .sp = regs->rsp, .fp = regs->rbp, .flags = LIMPET_FRAME_EXACT};
	enum limpet_walk_end end = LIMPET_WALK_MORE;
	enum limpet_safepoint_verdict verdict;
	struct limpet_walk_map map;
	bool is_program = false;

	limpet_segment_walk_map(safepoint->segment, &map);
	for (unsigned i = 0; end == LIMPET_WALK_MORE; i++) {
		uint64_t pc = frame.pc - !(frame.flags & LIMPET_FRAME_EXACT), sp = frame.sp;

		verdict = check_pc(scan, pc, &is_program);
		if (verdict != LIMPET_SAFE)
			return verdict;
		if (i == MAX_FRAMES)
			return LIMPET_UNSAFE_UNKNOWN;
		end = limpet_walk_step(&map, NULL, read_long_stack, &all, &frame);
		if (end == LIMPET_WALK_MORE && frame.flags & LIMPET_FRAME_SIGNAL &&
		    !is_on_same_stack(sp, frame.sp))
			return LIMPET_UNSAFE_SIGNAL;
		/* A frame pointer may belong to an older frame. */
		if (end == LIMPET_WALK_MORE && frame.flags & LIMPET_FRAME_BY_FP)
			verdict = check_words(scan, sp, frame.sp);
		if (verdict != LIMPET_SAFE)
			return verdict;
	}
	verdict = check_rest(scan, &map, &frame, end);
	if (verdict != LIMPET_SAFE)
		return verdict;
	if (!ends_at_top(scan, &map, &all, &frame, end))
		return LIMPET_UNSAFE_STACK;
	/* No code of the program on the stack: a thread that is being created or is ending. */
	return is_program ? LIMPET_SAFE : LIMPET_UNSAFE_THREADS;
}

/* glibc keeps a thread's arena and cache in its static TLS, just below the thread pointer.
 * Secondary arenas are at the start of a 64 MiB-aligned heap. The main thread uses the main arena.
 */
static bool has_arena(const struct limpet_safepoint *safepoint, const struct limpet_tracee *tracee)
{
	const uint64_t tp = limpet_tracee_regs(tracee)->fs_base;
	uint64_t words[PAGE / sizeof(uint64_t)], start;
	bool exist = true;

	if (limpet_tracee_tid(tracee) == safepoint->pid)
		return true;
	if (tp <= TLS_BYTES || tp % sizeof(words[0]))
		return false;
	for (uint64_t end = tp; end > tp - TLS_BYTES; end = start) {
		start = (end - 1) & ~(uint64_t)(PAGE - 1);
		if (start < tp - TLS_BYTES)
			start = tp - TLS_BYTES;
		/* A page that was never touched holds no pointer. */
		if (limpet_pagemap_run(safepoint->pagemap, start, end - start, &exist) > 0 &&
		    !exist)
			continue;
		if (limpet_memory_read(safepoint->pid, start, words, end - start) < 0)
			return false;
		for (size_t i = 0; i < (end - start) / sizeof(words[0]); i++)
			if (words[i] > HEAP_ALIGN && words[i] % HEAP_ALIGN < 64 &&
			    words[i] % HEAP_ALIGN >= 16)
				return true;
	}
	return false;
}

static bool is_in_agent(const struct limpet_safepoint *safepoint, uint64_t pc)
{
	for (size_t i = 0; i < safepoint->range_count; i++) {
		const struct range *range = &safepoint->ranges[i];

		if (range->verdict == LIMPET_UNSAFE_AGENT && pc >= range->start && pc < range->end)
			return true;
	}
	return false;
}

/* Checks the code that was interrupted, according to signal frames that may be on the stack. */
static enum limpet_safepoint_verdict check_interrupted(const struct limpet_safepoint *safepoint,
						       uint64_t sp, uint64_t restorer)
{
	const size_t pc_at = LIMPET_ARCH_SIGNAL_PC_OFFSET / sizeof(uint64_t);
	LIMPET_FREE uint64_t *words = malloc(STACK_COPY_BYTES);
	const struct limpet_stack_maps maps = {safepoint->modules->maps, safepoint->pagemap};
	ssize_t got =
		words ? limpet_stack_read(safepoint->pid, &maps, sp, words, STACK_COPY_BYTES) : 0;
	size_t count = got > 0 ? (size_t)got / sizeof(*words) : 0;

	for (size_t i = 0; i < count; i++) {
		const uint64_t at = sp + i * sizeof(*words);

		if (words[i] != restorer || !is_signal_frame(at, &words[i], count - i))
			continue;
		if (count - i <= pc_at ||
		    !is_on_same_stack(at + sizeof(*words), words[i + LIMPET_ARCH_SIGNAL_FRAME_SP]))
			return LIMPET_UNSAFE_SIGNAL;
		if (is_in_agent(safepoint, words[i + pc_at]))
			return LIMPET_UNSAFE_AGENT;
	}
	return got > 0 ? LIMPET_SAFE : LIMPET_UNSAFE_SIGNAL; /* unreadable: not a safe point */
}

/* Whether the frames, as far as they can be followed, are those of the stack's own thread. */
static bool stands_at_top(const struct limpet_safepoint *safepoint,
			  const struct limpet_tracee *tracee)
{
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);
	LIMPET_FREE uint8_t *memory = malloc(STACK_COPY_BYTES);
	struct limpet_walk_frame frame = {
		.pc = regs->rip, .sp = regs->rsp, .fp = regs->rbp, .flags = LIMPET_FRAME_EXACT};
	enum limpet_walk_end end = LIMPET_WALK_MORE;
	struct limpet_walk_copy copy;
	struct limpet_walk_map map;
	struct long_stack stack;
	struct scan scan;

	if (!copy_stack(safepoint, tracee, memory, &scan, &copy))
		return false;
	stack = (struct long_stack){.copy = &copy, .end = scan.stack_end, .pid = safepoint->pid};
	limpet_segment_walk_map(safepoint->segment, &map);
	for (unsigned i = 0; end == LIMPET_WALK_MORE && i < MAX_FRAMES; i++)
		end = limpet_walk_step(&map, NULL, read_long_stack, &stack, &frame);
	return ends_at_top(&scan, &map, &stack, &frame, end);
}

enum limpet_safepoint_verdict limpet_safepoint_check_place(const struct limpet_safepoint *safepoint,
							   const struct limpet_tracee *tracee,
							   uint64_t restorer,
							   uint64_t *ret_stack_low)
{
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);
	uint64_t low;

	if (limpet_tracee_runs_32_bit(tracee))
		return LIMPET_UNSAFE_CODE;
	if (limpet_tracee_dispatches(tracee))
		return LIMPET_UNSAFE_DISPATCH;
	if (limpet_tracee_in_rseq(tracee))
		return LIMPET_UNSAFE_RSEQ;
	if (is_in_agent(safepoint, regs->rip))
		return LIMPET_UNSAFE_AGENT;
	if (!limpet_stack_room_find(safepoint->pid, &safepoint->modules->maps, tracee, &low))
		return LIMPET_UNSAFE_STACK;
	if (!stands_at_top(safepoint, tracee))
		return LIMPET_UNSAFE_STACK;
	*ret_stack_low = low;
	return restorer ? check_interrupted(safepoint, regs->rsp, restorer) : LIMPET_SAFE;
}

/* Special code may set the thread pointer to something else for a while; what libc's points to
 * begins with its own address. */
static bool has_libcs_pointer(pid_t pid, const struct limpet_tracee *tracee)
{
	const uint64_t pointer = limpet_tracee_regs(tracee)->fs_base;
	uint64_t word;

	return limpet_memory_read(pid, pointer, &word, sizeof(word)) == 0 && word == pointer;
}

enum limpet_safepoint_verdict limpet_safepoint_check(const struct limpet_safepoint *safepoint,
						     const struct limpet_tracee *tracee,
						     bool malloc_too, uint64_t *ret_stack_low,
						     bool *ret_has_arena)
{
	LIMPET_FREE uint8_t *memory = malloc(STACK_COPY_BYTES);
	struct limpet_walk_copy stack;
	struct scan scan;
	enum limpet_safepoint_verdict verdict;
	uint64_t low;

	if (limpet_tracee_runs_32_bit(tracee))
		return LIMPET_UNSAFE_CODE;
	if (limpet_tracee_dispatches(tracee))
		return LIMPET_UNSAFE_DISPATCH;
	if (limpet_tracee_in_rseq(tracee))
		return LIMPET_UNSAFE_RSEQ;
	if (!has_libcs_pointer(safepoint->pid, tracee))
		return LIMPET_UNSAFE_POINTER;
	if (!copy_stack(safepoint, tracee, memory, &scan, &stack))
		return LIMPET_UNSAFE_UNKNOWN;
	scan.malloc_too = malloc_too;
	verdict = check_frames(&scan, tracee);
	if (verdict != LIMPET_SAFE)
		return verdict;
	*ret_has_arena = !malloc_too || has_arena(safepoint, tracee);
	if (!limpet_stack_room_find(safepoint->pid, &safepoint->modules->maps, tracee, &low))
		return LIMPET_UNSAFE_STACK;
	*ret_stack_low = low;
	return LIMPET_SAFE;
}
