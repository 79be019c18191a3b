#include "test/unit/agent_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/record.h"
#include "collector/stream/description.h"
#include "collector/stream/look_ahead.h"
#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/ptrace/arch.h"
#include "injector/remote/growing.h"
#include "injector/remote/loader_lock.h"
#include "test/unit/target_of.h"

/* Reached through thunks only; calls made by fixture_call() never get here. */
static uint64_t original_never_called(void)
{
	abort();
}

_Thread_local void (*fixture_inside)(void);
static _Thread_local uint64_t answer_of_malloc;
static _Thread_local bool answering;

static uint64_t original_malloc(uint64_t a, uint64_t b, uint64_t c)
{
	(void)a;
	(void)b;
	(void)c;
	if (!answering)
		abort();
	if (fixture_inside)
		fixture_inside();
	return answer_of_malloc;
}

static struct agent_fixture *current;
static struct limpet_shm *agents_own_map; /* NULL: it is in use */

static uint64_t usable_size(uint64_t block)
{
	return current->usable_size(block);
}

static uint64_t plain_usable_size(uint64_t block)
{
	return block & 0xfff;
}

/* All that is loaded counts as seen: the agent must not patch its own test. */
static int note_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct limpet_shm *shm = context;
	struct limpet_known_module *known =
		(struct limpet_known_module *)(void *)((uint8_t *)shm + shm->layout.modules_offset);

	(void)size;
	assert_true(shm->module_count < LIMPET_MAX_KNOWN_MODULES);
	known[shm->module_count].bias = info->dlpi_addr;
	known[shm->module_count++].phdr = (uint64_t)(uintptr_t)info->dlpi_phdr;
	return 0;
}

/* As the collector does it: made-up stacks lie anywhere in the program's data. */
static void publish_ranges(struct limpet_shm *shm)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t low, high;
	char line[512], write;
	unsigned count = 0;

	assert_non_null(maps);
	memset(shm->ranges, 0, sizeof(shm->ranges));
	while (count < LIMPET_STACK_RANGES && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " r%c", &low, &high, &write) == 3 &&
		    write == 'w')
			shm->ranges[count++] =
				(struct limpet_stack_range){.low = low, .high = high};
	fclose(maps);
}

/* As the injector has it mapped in a target. */
static uint64_t map_memory(struct limpet_segment *segment)
{
	const uint64_t bytes = segment->shm_bytes + segment->tables.arena_bytes;
	LIMPET_CLOSE int file = memfd_create("limpet-shared", MFD_CLOEXEC);
	void *map;

	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, (off_t)bytes), 0);
	assert_int_equal(limpet_segment_share(segment, file, 0), 0);
	assert_int_equal(limpet_segment_share_rest(segment), 0);
	map = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	return (uint64_t)(uintptr_t)map;
}

static void set_hook(struct limpet_start *start, enum fixture_hook hook, enum limpet_op op,
		     const char *name)
{
	start->hooks[hook] = (struct limpet_hook){
		.original = hook == FIXTURE_MALLOC ? (uint64_t)(uintptr_t)original_malloc
						   : (uint64_t)(uintptr_t)original_never_called,
		.usable_size = hook == FIXTURE_FREE_UNSIZED ? 0 : (uint64_t)(uintptr_t)usable_size,
		.op = op,
		.flags = hook == FIXTURE_FREE ? LIMPET_HOOK_LEAF : 0,
		.symbol = (uint32_t)limpet_family_find(name, 64),
	};
}

static void describe_loader(struct limpet_start *start)
{
	struct limpet_modules modules;

	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	start->r_debug = modules.r_debug;
	limpet_loader_describe(&modules, &start->loader);
	assert_true(start->loader.lock);
	limpet_modules_done(&modules);
}

/* As the boot stub does it. */
static uint64_t map_thunks(void)
{
	static uint8_t *thunks;

	if (thunks)
		return (uint64_t)(uintptr_t)thunks;
	thunks = mmap(NULL, 2 * LIMPET_THUNKS_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(thunks != MAP_FAILED);
	memcpy(thunks, limpet_thunk_code, LIMPET_THUNKS_BYTES);
	assert_int_equal(mprotect(thunks, LIMPET_THUNKS_BYTES, PROT_READ | PROT_EXEC), 0);
	return (uint64_t)(uintptr_t)thunks;
}

void agent_fixture_begin(struct agent_fixture *fixture, uint64_t memory_bytes,
			 struct limpet_segment *segment)
{
	struct limpet_start *start = &fixture->start;
	struct limpet_shm *shm;

	memset(fixture, 0, sizeof(*fixture));
	current = fixture;
	fixture->usable_size = plain_usable_size;
	fixture->own.file = -1;
	if (!segment) {
		assert_int_equal(limpet_segment_create(memory_bytes, 0, NULL, &fixture->own, NULL),
				 0);
		segment = &fixture->own;
	}
	fixture->segment = segment;
	fixture->shm = shm = segment->shm;
	shm->nonce = 0x6c696d706574;
	shm->max_depth = 256;
	shm->slot_count = shm->module_count = 0;
	publish_ranges(shm);
	dl_iterate_phdr(note_module, shm);

	start->shm = map_memory(segment);
	start->abi = LIMPET_AGENT_ABI;
	start->bytes = sizeof(*start);
	start->nonce = shm->nonce;
	start->shm_bytes = segment->shm_bytes;
	start->unwind_bytes = segment->tables.arena_bytes;
	start->windows = limpet_growing_reaches(getpid(), LIMPET_WINDOW_BYTES);
	start->vectors = limpet_xstate_vectors();
	start->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	start->dl_iterate_phdr = (uint64_t)(uintptr_t)dl_iterate_phdr;
	describe_loader(start);
	start->hook_count = FIXTURE_HOOKS;
	for (int i = 0; i < LIMPET_FAMILY_COUNT; i++)
		start->default_original[i] =
			(uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, limpet_family[i].name);
	set_hook(start, FIXTURE_MALLOC, LIMPET_OP_MALLOC, "malloc");
	set_hook(start, FIXTURE_CALLOC, LIMPET_OP_CALLOC, "calloc");
	set_hook(start, FIXTURE_REALLOC, LIMPET_OP_REALLOC, "realloc");
	set_hook(start, FIXTURE_REALLOCARRAY, LIMPET_OP_REALLOCARRAY, "reallocarray");
	set_hook(start, FIXTURE_FREE, LIMPET_OP_FREE, "free");
	set_hook(start, FIXTURE_FREE_UNSIZED, LIMPET_OP_FREE, "free");
	set_hook(start, FIXTURE_POSIX_MEMALIGN, LIMPET_OP_POSIX_MEMALIGN, "posix_memalign");
	set_hook(start, FIXTURE_MEMALIGN, LIMPET_OP_MEMALIGN, "aligned_alloc");
	set_hook(start, FIXTURE_MMAP, LIMPET_OP_MMAP, "mmap");
	set_hook(start, FIXTURE_MUNMAP, LIMPET_OP_MUNMAP, "munmap");
	set_hook(start, FIXTURE_MREMAP, LIMPET_OP_MREMAP, "mremap");
	set_hook(start, FIXTURE_LOADER, LIMPET_OP_LOADER, "dlopen");
	limpet_agent_info.thunks = map_thunks();
	/* One life of the agent after the other, in the same image. */
	limpet_agent_info.state = LIMPET_AGENT_LOADED;
	memset(limpet_hooks, 0, sizeof(limpet_hooks));
	assert_int_equal(
		((int (*)(struct limpet_start *))(uintptr_t)limpet_agent_info.start)(start), 0);
	assert_int_equal(start->result, 0);
	assert_int_equal(limpet_agent_info.state, LIMPET_AGENT_ACTIVE);
	assert_int_equal(limpet_control->on, 0);
	limpet_control->on = 1;
#if defined(__SANITIZE_THREAD__)
	/* It tells races by addresses: let both sides use the same ones. */
	agents_own_map = limpet_shm;
	limpet_shm = shm;
	limpet_record_configure();
#endif
}

void agent_fixture_end(struct agent_fixture *fixture)
{
	((int (*)(void))(uintptr_t)limpet_agent_info.detach)();
	if (agents_own_map)
		limpet_shm = agents_own_map;
	((int (*)(void))(uintptr_t)limpet_agent_info.release)();
	assert_int_equal(limpet_agent_info.state, LIMPET_AGENT_RELEASED);
	limpet_segment_done(&fixture->own);
	current = NULL;
}

void fixture_stack_build(struct fixture_stack *stack, const uint64_t *addresses, uint32_t count)
{
	uint64_t *words = stack->words;

	assert_true(count > 0 && count <= FIXTURE_MAX_FRAMES);
	memset(stack, 0, sizeof(*stack));
	stack->below[FIXTURE_BELOW - 1] = (uint64_t)(uintptr_t)limpet_path_any + 1;
	stack->hook.caller_pc = addresses[0];
	stack->hook.caller_fp = count > 1 ? (uint64_t)(uintptr_t)&words[0] : 0;
	for (uint32_t i = 1; i < count; i++) {
		words[2 * (i - 1)] = i + 1 < count ? (uint64_t)(uintptr_t)&words[2 * i] : 0;
		words[2 * (i - 1) + 1] = addresses[i];
	}
}

bool fixture_enter(struct fixture_stack *stack, enum fixture_hook hook, const uint64_t args[6])
{
	struct limpet_hook_frame *frame = &stack->hook;

	for (int i = 0; i < 6; i++)
		frame->args[i] = args[i];
	frame->hook = hook;
	return __atomic_load_n(&limpet_control->on, __ATOMIC_RELAXED) && limpet_hook_enter(frame);
}

void fixture_exit(struct fixture_stack *stack, uint64_t result)
{
	stack->hook.result = result;
	limpet_hook_exit(&stack->hook);
}

bool fixture_call(struct fixture_stack *stack, enum fixture_hook hook, uint64_t result,
		  const uint64_t args[6])
{
	if (hook == FIXTURE_MALLOC || hook == FIXTURE_FREE) {
		/* A signal handler of the test may call us within our call. */
		uint64_t outer_answer = answer_of_malloc;
		bool outer_answering = answering, done;

		if (!__atomic_load_n(&limpet_control->on, __ATOMIC_RELAXED))
			return false;
		if (hook == FIXTURE_FREE)
			return args[0] && limpet_hook_free(args[0], hook, &stack->hook);
		answer_of_malloc = result;
		answering = true;
		done = !limpet_hook_malloc(args[0], args[1], args[2], hook, &stack->hook).pass;
		answering = outer_answering;
		answer_of_malloc = outer_answer;
		return done;
	}
	if (!fixture_enter(stack, hook, args))
		return false;
	/* The original writes the block that the test has put into its own word. */
	if (limpet_hooks[hook].op == LIMPET_OP_POSIX_MEMALIGN && !(uint32_t)result && args[0])
		*(uint64_t *)(uintptr_t)stack->hook.args[0] = *(const uint64_t *)(uintptr_t)args[0];
	fixture_exit(stack, result);
	return true;
}

struct limpet_thread *fixture_thread(const struct agent_fixture *fixture, uint32_t index)
{
	assert_true(index < fixture->shm->layout.thread_count);
	return (struct limpet_thread *)(void *)((uint8_t *)fixture->shm +
						fixture->shm->layout.threads_offset) +
	       index;
}

struct limpet_chunk *fixture_chunk(const struct agent_fixture *fixture, uint32_t index)
{
	assert_in_range(index, 1, fixture->shm->layout.chunk_count);
	return (struct limpet_chunk *)(void *)((uint8_t *)fixture->shm +
					       fixture->shm->layout.chunks_offset +
					       (uint64_t)(index - 1) * LIMPET_CHUNK_BYTES);
}

uint64_t *fixture_chunk_map(const struct agent_fixture *fixture)
{
	return (uint64_t *)(void *)((uint8_t *)fixture->shm +
				    fixture->shm->layout.free_chunks_offset);
}

void fixture_stacks_begin(const struct agent_fixture *fixture, struct fixture_stacks *ret)
{
	ret->tree = limpet_stack_tree_new();
	ret->ahead = limpet_look_ahead_new(fixture->segment, ret->tree);
	assert_non_null(ret->ahead);
}

void fixture_stacks_find(const struct fixture_stacks *stacks, uint32_t number,
			 struct fixture_frames *ret)
{
	uint32_t node = limpet_stack_tree_find(stacks->tree, number);

	if (node == LIMPET_STACK_UNSEEN && limpet_look_ahead_find(stacks->ahead, number))
		node = limpet_stack_tree_find(stacks->tree, number);
	if (node == LIMPET_STACK_UNSEEN || node == LIMPET_STACK_LOST)
		fail_msg("stack %u was not described", number);
	for (ret->count = 0; node; node = ret->list[ret->count++].parent) {
		assert_true(ret->count < LIMPET_COUNT_OF(ret->list));
		ret->list[ret->count] = *limpet_stack_tree_node(stacks->tree, node);
	}
}

void fixture_stacks_end(struct fixture_stacks *stacks)
{
	limpet_look_ahead_free(stacks->ahead);
	limpet_stack_tree_free(stacks->tree);
}

void fixture_frames_of(const struct agent_fixture *fixture, uint32_t number,
		       struct fixture_frames *ret)
{
	struct fixture_stacks stacks;

	fixture_stacks_begin(fixture, &stacks);
	fixture_stacks_find(&stacks, number, ret);
	fixture_stacks_end(&stacks);
}

uint32_t fixture_thread_of(const struct agent_fixture *fixture, uint32_t tid)
{
	for (uint32_t i = 0; i < fixture->shm->layout.thread_count; i++)
		if (fixture_thread(fixture, i)->thread_pointer > 1 &&
		    fixture_thread(fixture, i)->tid == tid)
			return i;
	fail_msg("no thread entry has tid %u", tid);
	return 0;
}

uint32_t fixture_voids;

/* At each power of 2: a sanitizer copies at every call. */
static struct fixture_record *add_record(struct fixture_record **records, size_t count)
{
	if (!(count & (count - 1)))
		*records = realloc(*records, (2 * count + 1) * sizeof(**records));
	assert_non_null(*records);
	return &(*records)[count];
}

/* The free by which an allocation was marked. */
static struct fixture_record free_of(const struct fixture_record *allocation)
{
	struct fixture_record record = *allocation;

	record.type = LIMPET_EVENT_FREE;
	record.marked = true;
	record.realloc = false;
	record.number++;
	record.node = 0;
	record.size = 0;
	return record;
}

static size_t read_chunk(const struct limpet_chunk *chunk, uint32_t thread,
			 struct fixture_record **records, size_t count)
{
	uint32_t committed = __atomic_load_n(&chunk->committed, __ATOMIC_ACQUIRE), at = 0;
	const uint8_t *data = (const uint8_t *)(chunk + 1);

	assert_int_equal(chunk->thread, thread);
	assert_true(committed <= LIMPET_CHUNK_BYTES - sizeof(*chunk));
	while (at < committed) {
		struct fixture_record *record;
		uint64_t words[4] = {0};

		memcpy(words, data + at, 8);
		if (LIMPET_EVENT_TYPE(words[0]) == LIMPET_EVENT_STACK) {
			at += limpet_stack_bytes(LIMPET_STACK_COUNT(words[0]));
			assert_true(at <= committed);
			continue;
		}
		record = add_record(records, count++);
		memcpy(words, data + at, 24);
		*record = (struct fixture_record){
			.type = LIMPET_EVENT_TYPE(words[0]) &
				~(LIMPET_EVENT_WIDE | LIMPET_EVENT_FREED),
			.wide = words[0] & LIMPET_EVENT_WIDE,
			.number = LIMPET_EVENT_NUMBER(words[0]),
			.time = LIMPET_EVENT_TIME(words[0]),
			.address = LIMPET_HIDDEN(words[1]),
			.size = (uint32_t)words[2],
			.node = (uint32_t)(words[2] >> 32) & ~LIMPET_EVENT_REALLOC,
			.realloc = words[2] >> 63,
			.tid = chunk->tid,
			.sequence = chunk->sequence,
		};
		at += 24;
		if (record->wide) {
			memcpy(&words[3], data + at, 8);
			record->size = words[2];
			record->node = (uint32_t)words[3] & ~LIMPET_EVENT_REALLOC;
			record->realloc = words[3] & LIMPET_EVENT_REALLOC;
			assert_int_equal(words[3] >> 32, 0);
			at += 8;
		}
		assert_true(at <= committed);
		if (record->type == LIMPET_EVENT_VOID) {
			fixture_voids++;
			count--;
		}
		if (words[0] & LIMPET_EVENT_FREED) {
			struct fixture_record *added = add_record(records, count);

			*added = free_of(&(*records)[count - 1]);
			count++;
		}
	}
	return count;
}

size_t fixture_records(const struct agent_fixture *fixture, uint32_t thread,
		       struct fixture_record **ret_records)
{
	uint32_t chunk =
		__atomic_load_n(&fixture_thread(fixture, thread)->first_chunk, __ATOMIC_ACQUIRE);
	struct fixture_record *records = NULL;
	uint32_t chunks = 0;
	size_t count = 0;

	fixture_voids = 0;
	while (chunk != LIMPET_CHUNK_NONE) {
		uint32_t next =
			__atomic_load_n(&fixture_chunk(fixture, chunk)->next, __ATOMIC_ACQUIRE);

		assert_true(chunks++ < fixture->shm->layout.chunk_count);
		count = read_chunk(fixture_chunk(fixture, chunk), thread, &records, count);
		chunk = next;
	}
	*ret_records = records;
	return count;
}
