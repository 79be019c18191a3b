/* Slots, in our own process: put in, called through, and put back; those of modules that come
 * later; and all that may be found in a slot's place. The thunks are the agent's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <seccomp.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/loaded.h"
#include "agent/patch.h"
#include "common/err.h"
#include "injector/proc/proc.h"
#include "test/unit/agent_fixture.h"

#define MEMORY_BYTES (8u << 20)
#define PLUGIN "build/targets/plugin.so"
#define PLUGIN_NOPLT "build/targets/plugin-noplt.so"
#define PLUGIN_VARIABLE "build/targets/copied-plugin.so"

typedef int entry_fn(void);

static struct agent_fixture fixture;

static bool is_thunk(uint64_t value)
{
	return value - limpet_thunk(0) < LIMPET_MAX_HOOKS * LIMPET_THUNK_BYTES;
}

static struct limpet_slot *slot_at(uint32_t index)
{
	return (struct limpet_slot *)(void *)((uint8_t *)fixture.shm +
					      fixture.shm->layout.slots_offset) +
	       index;
}

static struct limpet_known_module *known_at(uint32_t index)
{
	return (struct limpet_known_module *)(void *)((uint8_t *)fixture.shm +
						      fixture.shm->layout.modules_offset) +
	       index;
}

static int detach(void)
{
	return ((entry_fn *)(uintptr_t)limpet_agent_info.detach)();
}

static int rescan(void)
{
	return ((entry_fn *)(uintptr_t)limpet_agent_info.rescan)();
}

static size_t own_records(struct fixture_record **ret_records)
{
	return fixture_records(
		&fixture, fixture_thread_of(&fixture, (uint32_t)limpet_syscall1(SYS_gettid, 0)),
		ret_records);
}

static int begin(void **state)
{
	(void)state;
	agent_fixture_begin(&fixture, MEMORY_BYTES, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	agent_fixture_end(&fixture);
	return 0;
}

/* ------------------------------------------------------------------ through a thunk */

static uint64_t noted[8];
static int original_calls;

static uint64_t note_arguments(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			       uint64_t f, uint64_t g, uint64_t h)
{
	const uint64_t all[] = {a, b, c, d, e, f, g, h};

	memcpy(noted, all, sizeof(noted));
	original_calls++;
	errno = 4711;
	return 0x123456789abcdef0;
}

typedef uint64_t eight_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t);

/* Registers, the stack's arguments, the answer and errno are those of a plain call, whether the
 * hook records, lets pass, or is switched off. */
static void test_a_thunk_is_a_call_like_any_other(void **state)
{
	static const enum fixture_hook hooks[] = {FIXTURE_MALLOC, FIXTURE_FREE,   FIXTURE_REALLOC,
						  FIXTURE_MMAP,   FIXTURE_MREMAP, FIXTURE_LOADER};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < LIMPET_COUNT_OF(hooks); i++) {
			eight_fn *function = (eight_fn *)(uintptr_t)limpet_thunk(hooks[i]);
			unsigned arguments;

			limpet_hooks[hooks[i]].original = (uint64_t)(uintptr_t)note_arguments;
			memset(noted, 0, sizeof(noted));
			original_calls = 0;
			errno = 0;
			assert_int_equal(function(0x1000, 2, 3, 4, 5, 6, 7, 8), 0x123456789abcdef0);
			assert_int_equal(errno, 4711);
			assert_int_equal(original_calls, 1);
			assert_int_equal(noted[0], 0x1000);
			/* No member of the family has more than six, none like malloc or free more
			 * than three; a jump keeps all. */
			arguments = hooks[i] == FIXTURE_MALLOC || hooks[i] == FIXTURE_FREE ? 3 : 6;
			if (round || hooks[i] == FIXTURE_LOADER)
				arguments = 8;
			for (uint64_t k = 1; k < arguments; k++)
				assert_int_equal(noted[k], k + 1);
		}
		detach();
		assert_int_equal(limpet_control->on, 0);
	}
}

/* Until symbols are restored, dlsym may return a thunk. Without limpet, nobody asks. */
static void test_dlsym_is_seen_while_nothing_is_recorded(void **state)
{
	eight_fn *ask = (eight_fn *)(uintptr_t)limpet_thunk(FIXTURE_LOADER);
	const uint64_t name = (uint64_t)(uintptr_t) "malloc", handle = 0x1000;

	(void)state;
	limpet_hooks[FIXTURE_LOADER].symbol = (uint16_t)limpet_family_find("dlsym", UINT64_MAX);
	limpet_hooks[FIXTURE_LOADER].original = (uint64_t)(uintptr_t)note_arguments;
	limpet_control->on = 0;
	fixture.shm->collector |= LIMPET_COLLECTOR_DIED;
	assert_int_equal(ask(handle, name, 3, 4, 5, 6, 7, 8), 0x123456789abcdef0);
	assert_int_equal(fixture.shm->addresses_requested, 0);
	fixture.shm->collector = 0;
	assert_int_equal(ask(handle, name, 3, 4, 5, 6, 7, 8), 0x123456789abcdef0);
	assert_int_equal(fixture.shm->addresses_requested, 1);
	fixture.shm->addresses_requested = 0;
	detach();
	assert_int_equal(ask(handle, name, 3, 4, 5, 6, 7, 8), 0x123456789abcdef0);
	assert_int_equal(fixture.shm->addresses_requested, 0);
}

static int refuse(void **block, size_t alignment, size_t bytes)
{
	(void)block;
	(void)alignment;
	(void)bytes;
	return ENOMEM;
}

/* As a program calls it that has kept its address: nothing of the agent's is run, but for the
 * thunk.
 */
static void test_a_thunk_that_outlives_the_agent(void **state)
{
	eight_fn *kept = (eight_fn *)(uintptr_t)limpet_thunk(FIXTURE_REALLOC);
	const void *way = limpet_thunk_paths()[FIXTURE_MMAP];

	(void)state;
	limpet_hooks[FIXTURE_REALLOC].original = (uint64_t)(uintptr_t)note_arguments;
	/* What only a hook area leads to gets no plain call. */
	limpet_hooks[FIXTURE_MMAP].flags |= LIMPET_HOOK_ENTRY;
	assert_ptr_not_equal(limpet_thunk_paths()[FIXTURE_REALLOC], (const void *)note_arguments);
	assert_int_equal(detach(), 0);
	assert_ptr_equal(limpet_thunk_paths()[FIXTURE_REALLOC], (const void *)note_arguments);
	assert_ptr_equal(limpet_thunk_paths()[FIXTURE_MMAP], way);
	original_calls = 0;
	assert_int_equal(kept(1, 2, 3, 4, 5, 6, 7, 8), 0x123456789abcdef0);
	assert_int_equal(original_calls, 1);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(noted[i], i + 1);
	/* One that a thread put in behind our back is led back when the agent is released. */
	limpet_thunk_paths()[FIXTURE_REALLOC] = way;
	assert_int_equal(((entry_fn *)(uintptr_t)limpet_agent_info.release)(), 0);
	assert_ptr_equal(limpet_thunk_paths()[FIXTURE_REALLOC], (const void *)note_arguments);
}

/* Words of ours that stand for slots of this program. */
static uint64_t words[6];

/* What posix_memalign is hooked in: an original that gives `given`, whatever it answers, and looks
 * whether it was given the program's own word. */
static void *out_word;
static void *given;
static int answer_of_give;
static bool wrote_to_the_word;

static int give(void **block, size_t alignment, size_t bytes)
{
	(void)alignment;
	(void)bytes;
	*block = given;
	wrote_to_the_word = block == &out_word;
	return answer_of_give;
}

/* From the moment in which the block is in the program's word another thread may use that word: the
 * hook does not read it, and writes it once. */
static void test_a_block_is_published_by_the_last_store(void **state)
{
	int (*hooked_align)(void **, size_t, size_t) =
		(int (*)(void **, size_t, size_t))(uintptr_t)limpet_thunk(FIXTURE_POSIX_MEMALIGN);
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	limpet_hooks[FIXTURE_POSIX_MEMALIGN].original = (uint64_t)(uintptr_t)give;
	given = words;
	assert_int_equal(hooked_align(&out_word, 64, 999), 0);
	assert_false(wrote_to_the_word);
	assert_ptr_equal(out_word, words);
	/* A call that fails leaves the word alone, unless the original itself does not. */
	answer_of_give = ENOMEM;
	given = NULL;
	assert_int_equal(hooked_align(&out_word, 64, 999), ENOMEM);
	assert_null(out_word);
	limpet_hooks[FIXTURE_POSIX_MEMALIGN].original = (uint64_t)(uintptr_t)refuse;
	out_word = words;
	assert_int_equal(hooked_align(&out_word, 64, 999), ENOMEM);
	assert_ptr_equal(out_word, words);
	assert_int_equal(own_records(&records), 1);
	assert_int_equal(records[0].address, (uintptr_t)words);
	answer_of_give = 0;
}

/* A function of the program with an inline hook, and what that leads to: it gives `given` and
 * leaves all registers but rax alone. */
extern const char entered[], give_and_keep[];
_Static_assert(FIXTURE_POSIX_MEMALIGN == 7, "entered");
__asm__(".text\n"
	"entered:\n\t"
	"pushq %r11\n\t"
	"pushq %r10\n\t"
	"movl $7, %r11d\n\t"
	"jmp limpet_path_kept\n"
	"give_and_keep:\n\t"
	"movq given(%rip), %rax\n\t"
	"movq %rax, (%rdi)\n\t"
	"xorl %eax, %eax\n\t"
	"ret\n");

/* Its caller may count on that: here on the one with the address of its word. */
static void test_a_block_is_published_at_an_entry(void **state)
{
	struct limpet_hook *hook = &limpet_hooks[FIXTURE_POSIX_MEMALIGN];
	LIMPET_FREE struct fixture_record *records = NULL;
	void **word = &out_word;
	long answer = 1;

	(void)state;
	given = words;
	hook->original = (uint64_t)(uintptr_t)give_and_keep;
	hook->flags |= LIMPET_HOOK_ENTRY;
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "subq $128, %%rsp\n\t"
			 "andq $-16, %%rsp\n\t"
			 "call entered\n\t"
			 "movq %%rbx, %%rsp"
			 : "+D"(word), "+a"(answer)
			 : "S"(64l), "d"(999l)
			 : "rbx", "cc", "memory");
	hook->flags &= (uint16_t)~LIMPET_HOOK_ENTRY;
	assert_int_equal(answer, 0);
	assert_ptr_equal(word, &out_word);
	assert_ptr_equal(out_word, words);
	assert_int_equal(own_records(&records), 1);
	assert_int_equal(records[0].address, (uintptr_t)words);
	assert_int_equal(records[0].size, 999);
}

static void test_calls_through_thunks_are_recorded(void **state)
{
	void *(*hooked_malloc)(size_t) = (void *(*)(size_t))(uintptr_t)limpet_thunk(FIXTURE_MALLOC);
	void (*hooked_free)(void *) =
		(void (*)(void *))(uintptr_t)limpet_thunk(FIXTURE_FREE_UNSIZED);
	int (*hooked_align)(void **, size_t, size_t) =
		(int (*)(void **, size_t, size_t))(uintptr_t)limpet_thunk(FIXTURE_POSIX_MEMALIGN);
	LIMPET_FREE struct fixture_record *records = NULL;
	void *volatile block;
	void *aligned = NULL, *no_block = NULL;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = (uint64_t)(uintptr_t)malloc;
	limpet_hooks[FIXTURE_FREE_UNSIZED].original = (uint64_t)(uintptr_t)free;
	limpet_hooks[FIXTURE_POSIX_MEMALIGN].original = (uint64_t)(uintptr_t)posix_memalign;
	block = hooked_malloc(77);
	assert_non_null(block);
	memset(block, 1, 77);
	assert_int_equal(hooked_align(&aligned, 256, 999), 0);
	assert_int_equal((uintptr_t)aligned % 256, 0);
	limpet_hooks[FIXTURE_POSIX_MEMALIGN].original = (uint64_t)(uintptr_t)refuse;
	assert_int_equal(hooked_align(&no_block, 64, 999), ENOMEM);
	hooked_free(block);
	hooked_free(aligned);
	assert_int_equal(own_records(&records), 4);
	assert_int_equal(records[0].type, LIMPET_EVENT_ALLOC);
	assert_int_equal(records[0].address, (uintptr_t)block);
	assert_int_equal(records[0].size, 77);
	assert_int_equal(records[1].type, LIMPET_EVENT_ALLOC);
	assert_int_equal(records[1].address, (uintptr_t)aligned);
	assert_int_equal(records[1].size, 999);
	assert_int_equal(records[2].type, LIMPET_EVENT_FREE);
	assert_int_equal(records[2].address, (uintptr_t)block);
	assert_int_equal(records[3].address, (uintptr_t)aligned);
}

/* ------------------------------------------------------------------ planned slots */

static uint64_t own_bias, own_phdr;

static int find_self(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	own_bias = info->dlpi_addr;
	own_phdr = (uint64_t)(uintptr_t)info->dlpi_phdr;
	return 1; /* the program comes first */
}

static struct limpet_slot *plan(uint64_t *word, uint64_t old_value, uint32_t hook)
{
	struct limpet_slot *slot = slot_at(fixture.shm->slot_count++);

	dl_iterate_phdr(find_self, NULL);
	*slot = (struct limpet_slot){.address = (uint64_t)(uintptr_t)word,
				     .old_value = old_value,
				     .module = own_bias,
				     .module_phdr = own_phdr,
				     .hook = hook};
	return slot;
}

static void permissions_of(const void *address, char ret[5])
{
	struct limpet_maps maps;
	const struct limpet_map *map;

	assert_int_equal(limpet_proc_maps_read(getpid(), &maps), 0);
	map = limpet_proc_maps_find(&maps, (uint64_t)(uintptr_t)address);
	assert_non_null(map);
	memcpy(ret, map->perms, 5);
	limpet_proc_maps_done(&maps);
}

static void test_planned_slots(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc, stub = 0x401036;
	struct limpet_slot *bound, *bound_since, *lazy, *foreign, *gone;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = original;
	words[1] = original;
	words[2] = stub;
	words[3] = 0x777777;
	words[4] = original;
	bound = plan(&words[0], original, FIXTURE_MALLOC);
	bound_since = plan(&words[1], stub, FIXTURE_MALLOC);
	lazy = plan(&words[2], stub, FIXTURE_MALLOC);
	foreign = plan(&words[3], original, FIXTURE_MALLOC);
	gone = plan(&words[4], original, FIXTURE_MALLOC);
	gone->module_phdr++; /* some other module has come to that place */
	assert_int_equal(limpet_patch_planned(), 3);
	assert_int_equal(bound->state, LIMPET_SLOT_PATCHED);
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(bound_since->state, LIMPET_SLOT_PATCHED);
	assert_int_equal(words[1], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(bound_since->old_value, original);
	assert_int_equal(lazy->state, LIMPET_SLOT_PATCHED);
	assert_int_equal(words[2], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(foreign->state, LIMPET_SLOT_FOREIGN);
	assert_int_equal(fixture.shm->slots_unhooked, 1);
	assert_int_equal(words[3], 0x777777);
	assert_int_equal(gone->state, LIMPET_SLOT_PLANNED);
	assert_int_equal(words[4], original);

	/* Somebody hooks over us: his is left alone. The rest goes back, lazy ones to their stub.
	 */
	words[0] = 0x888888;
	assert_int_equal(detach(), 0);
	assert_int_equal(words[0], 0x888888);
	assert_int_equal(bound->state, LIMPET_SLOT_FOREIGN);
	assert_int_equal(words[1], original);
	assert_int_equal(bound_since->state, LIMPET_SLOT_RESTORED);
	assert_int_equal(words[2], stub);
	assert_int_equal(words[3], 0x777777);
	assert_int_equal(words[4], original);
}

/* A thread could read half of an exchange: neither is written, and both are counted. */
static void test_planned_slots_that_cannot_be_exchanged(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	static uint8_t bytes[32] __attribute__((aligned(16)));
	static const uint64_t constant = 4711;
	struct limpet_slot *unaligned, *read_only;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	memcpy(bytes + 3, &original, sizeof(original));
	unaligned = plan((uint64_t *)(void *)(bytes + 3), original, FIXTURE_MALLOC);
	read_only = plan((uint64_t *)(uintptr_t)&constant, constant, FIXTURE_MALLOC);
	assert_int_equal(limpet_patch_planned(), 0);
	assert_int_equal(unaligned->state, LIMPET_SLOT_FAILED);
	assert_int_equal(read_only->state, LIMPET_SLOT_FAILED);
	assert_int_equal(fixture.shm->slots_unhooked, 2);
	assert_memory_equal(bytes + 3, &original, sizeof(original));
	assert_int_equal(detach(), 0);
	assert_memory_equal(bytes + 3, &original, sizeof(original));
}

/* One that was bound lazily has gone; another of the same file, bound at once, has its place. The
 * stub of the first would lead nowhere: nobody has set up a resolver for the second. */
static void test_a_slot_in_the_place_of_a_lazy_one(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc, stub = 0x401036;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = original;
	plan(&words[0], stub, FIXTURE_MALLOC)->state = LIMPET_SLOT_GONE;
	plan(&words[0], original, FIXTURE_MALLOC);
	assert_int_equal(limpet_patch_planned(), 1);
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(detach(), 0);
	assert_int_equal(words[0], original);
}

/* A page that the linker has made read-only (RELRO) is opened for the moment of the exchange. */
static void test_read_only_pages_stay_read_only(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	static _Alignas(4096) uint64_t page[512];
	char permissions[5];

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	page[7] = page[8] = original;
	page[9] = 1;
	plan(&page[7], original, FIXTURE_MALLOC);
	plan(&page[8], original, FIXTURE_MALLOC);
	plan(&page[9], original, FIXTURE_MALLOC);
	assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
	assert_int_equal(limpet_patch_planned(), 2);
	assert_int_equal(page[7], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(page[8], limpet_thunk(FIXTURE_MALLOC));
	permissions_of(page, permissions);
	assert_string_equal(permissions, "r--p");
	assert_int_equal(detach(), 0);
	assert_int_equal(page[7], original);
	assert_int_equal(page[8], original);
	permissions_of(page, permissions);
	assert_string_equal(permissions, "r--p");
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
}

/* The resolver of a lazy slot, under way while we patched, writes over our value: looked at again.
 */
static void test_a_slot_that_was_bound_over_us(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	struct limpet_slot *slot;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = 0x401036;
	slot = plan(&words[0], 0x401036, FIXTURE_MALLOC);
	limpet_patch_planned();
	words[0] = original;
	assert_int_equal(rescan(), 1);
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(rescan(), 0);
	detach();
	/* It goes back to what the program has bound by now. */
	assert_int_equal(words[0], original);
	assert_int_equal(slot->state, LIMPET_SLOT_RESTORED);
}

/* Lazy binding never writes to a variable: the program did. */
static void test_a_variable_that_was_set_back(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	struct limpet_slot *slot;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = original;
	slot = plan(&words[0], original, FIXTURE_MALLOC);
	slot->kind = LIMPET_SLOT_OF_VARIABLE;
	limpet_patch_planned();
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	words[0] = original;
	assert_int_equal(rescan(), 0);
	assert_int_equal(words[0], original);
	detach();
	assert_int_equal(words[0], original);
}

/* The child has slots of its own, and a table that it shares with a parent who goes on. */
static void test_parent_and_child_restore_apart(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	int status;
	pid_t pid;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = original;
	plan(&words[0], original, FIXTURE_MALLOC);
	limpet_patch_planned();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		bool hooked = words[0] == limpet_thunk(FIXTURE_MALLOC);

		detach();
		_exit(hooked && words[0] == original ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	assert_int_equal(detach(), 0);
	assert_int_equal(words[0], original);
}

/* ------------------------------------------------------------------ modules that come later */

struct plugin {
	void *handle;
	void **(*allocate)(unsigned, size_t);
	void (*release)(void **, unsigned);
};

static struct plugin open_plugin_of(const char *path, int mode)
{
	struct plugin plugin = {.handle = dlopen(path, mode)};

	if (!plugin.handle)
		fail_msg("%s", dlerror());
	plugin.allocate = (void **(*)(unsigned, size_t))dlsym(plugin.handle, "plugin_allocate");
	plugin.release = (void (*)(void **, unsigned))dlsym(plugin.handle, "plugin_free");
	assert_non_null(plugin.allocate);
	assert_non_null(plugin.release);
	return plugin;
}

static struct plugin open_plugin(int mode)
{
	return open_plugin_of(PLUGIN, mode);
}

/* What the plugin does is recorded, or nothing is. Answers the number of its calls. */
static unsigned use_plugin(const struct plugin *plugin, bool hooked)
{
	LIMPET_FREE struct fixture_record *before = NULL;
	LIMPET_FREE struct fixture_record *records = NULL;
	void **blocks = plugin->allocate(3, 700);
	size_t first = 0, count;

	assert_non_null(blocks);
	plugin->release(blocks, 3);
	if (!hooked)
		return 8;
	count = own_records(&records);
	assert_true(count >= 8);
	first = count - 8;
	assert_int_equal(records[first].size, 3 * sizeof(void *));
	assert_int_equal(records[first].address, (uintptr_t)blocks);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(records[first + i].type, LIMPET_EVENT_ALLOC);
		assert_int_equal(records[first + i].size, 700);
	}
	for (size_t i = 4; i < 8; i++) {
		assert_int_equal(records[first + i].type, LIMPET_EVENT_FREE);
		assert_true(records[first + i].size >= 3 * sizeof(void *));
	}
	return 8;
}

static unsigned count_state(enum limpet_slot_state wanted)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < fixture.shm->slot_count; i++)
		count += slot_at(i)->state == wanted;
	return count;
}

static void come_and_go(int mode)
{
	struct plugin plugin = open_plugin(mode);
	const unsigned slots = 2; /* malloc and free */
	uint32_t bell;

	assert_int_equal(rescan(), slots);
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), slots);
	assert_int_equal(rescan(), 0);
	use_plugin(&plugin, true);
	/* It goes away with its slots, and is looked at anew when it comes again. */
	dlclose(plugin.handle);
	assert_int_equal(rescan(), 0);
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), 0);
	assert_int_equal(count_state(LIMPET_SLOT_GONE), slots);
	plugin = open_plugin(mode);
	assert_int_equal(rescan(), slots);
	use_plugin(&plugin, true);
	/* Through a call into the loader it is noticed by itself, and told. */
	bell = fixture.shm->bell;
	dlclose(plugin.handle);
	limpet_patch_on_loader_call(false, false);
	plugin = open_plugin(mode);
	limpet_patch_on_loader_call(false, false);
	limpet_patch_on_loader_call(false, false);
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), slots);
	assert_int_equal(fixture.shm->modules_seen, 2);
	assert_int_equal(fixture.shm->bell - bell, 2);
	use_plugin(&plugin, true);
	detach();
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), 0);
	use_plugin(&plugin, false);
	for (uint32_t i = 0; i < fixture.shm->slot_count; i++)
		if (slot_at(i)->state == LIMPET_SLOT_RESTORED)
			assert_false(is_thunk(*(uint64_t *)(uintptr_t)slot_at(i)->address));
	assert_int_equal(rescan(), 0);
	dlclose(plugin.handle);
}

static void test_a_module_that_comes_bound(void **state)
{
	(void)state;
	come_and_go(RTLD_NOW | RTLD_LOCAL);
}

/* Slots that hold the address of their own PLT entry: what they would be bound to is known. */
static void test_a_module_that_comes_unbound(void **state)
{
	(void)state;
	come_and_go(RTLD_LAZY | RTLD_LOCAL);
}

/* It may have kept the address elsewhere, to compare the two later. */
static void test_a_variable_of_a_module_that_comes(void **state)
{
	void *handle = dlopen(PLUGIN_VARIABLE, RTLD_NOW | RTLD_LOCAL);
	void (**variable)(void *);

	(void)state;
	if (!handle)
		fail_msg("%s", dlerror());
	variable = (void (**)(void *))dlsym(handle, "copied_free");
	assert_non_null(variable);
	assert_int_equal(rescan(), 1); /* its calls of malloc */
	assert_int_equal(fixture.shm->slots_unhooked, 1);
	assert_ptr_equal(*variable, free);
	dlclose(handle);
}

/* ------------------------------------------------------------------ symbols */

static struct library {
	uint64_t bias, phdr, part, *value;
} libc;

static void find_value(const struct dl_phdr_info *info, const Elf64_Dyn *dynamic)
{
	const Elf64_Sym *symbols = NULL;
	const char *strings = NULL;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)(uintptr_t)dynamic->d_un.d_ptr;
		if (dynamic->d_tag == DT_STRTAB)
			strings = (const char *)(uintptr_t)dynamic->d_un.d_ptr;
	}
	for (const Elf64_Sym *it = symbols; (const char *)it < strings && !libc.value; it++)
		if (it->st_shndx != SHN_UNDEF && !strcmp(strings + it->st_name, "malloc"))
			libc.value = (uint64_t *)(uintptr_t)&it->st_value;
	libc.bias = info->dlpi_addr;
	libc.phdr = (uint64_t)(uintptr_t)info->dlpi_phdr;
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			find_value(info,
				   (const Elf64_Dyn *)(uintptr_t)(info->dlpi_addr +
								  info->dlpi_phdr[i].p_vaddr));
	return 1;
}

static size_t count_mappings(void)
{
	struct limpet_maps maps;
	size_t count = 0;

	assert_int_equal(limpet_proc_maps_read(getpid(), &maps), 0);
	for (size_t i = 0; i < maps.count; i++)
		count += strstr(maps.list[i].path, "/libc.so") != NULL;
	limpet_proc_maps_done(&maps);
	return count;
}

static struct limpet_slot *plan_symbol_of_malloc(void)
{
	struct limpet_slot *slot;

	libc.value = NULL;
	dl_iterate_phdr(find_libc, NULL);
	assert_non_null(libc.value);
	limpet_hooks[FIXTURE_MALLOC].original = libc.bias + *libc.value;
	slot = plan(libc.value, *libc.value, FIXTURE_MALLOC);
	slot->module = libc.bias;
	slot->module_phdr = libc.phdr;
	slot->kind = LIMPET_SLOT_OF_SYMBOL;
	return slot;
}

/* What is bound while a symbol leads to a thunk is bound to that, is kept account of, and put back,
 * also where nobody has looked at it. Its mapping is not divided. */
static void test_a_symbol(void **state)
{
	size_t mappings = count_mappings();
	struct limpet_slot *slot;
	struct plugin plugin;
	uint64_t value;
	char permissions[5];

	(void)state;
	slot = plan_symbol_of_malloc();
	value = *libc.value;
	assert_int_equal(limpet_patch_planned(), 1);
	assert_int_equal(libc.bias + *libc.value, limpet_thunk(FIXTURE_MALLOC));
	permissions_of(libc.value, permissions);
	assert_string_equal(permissions, "r--p");
	assert_int_equal(count_mappings(), mappings);
	plugin = open_plugin(RTLD_NOW | RTLD_LOCAL);
	assert_int_equal(detach(), 0);
	assert_int_equal(*libc.value, value);
	assert_int_equal(slot->state, LIMPET_SLOT_RESTORED);
	permissions_of(libc.value, permissions);
	assert_string_equal(permissions, "r--p");
	assert_int_equal(count_mappings(), mappings);
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

static size_t count_thunks(const struct dl_phdr_info *info)
{
	size_t count = 0;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *part = &info->dlpi_phdr[i];
		const uint64_t *data = (const uint64_t *)(uintptr_t)(info->dlpi_addr +
								     (part->p_vaddr + 7) / 8 * 8);

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
			continue;
		for (uint64_t k = 0; k < part->p_memsz / sizeof(*data) - 1; k++)
			count += is_thunk(data[k]);
	}
	return count;
}

static struct module {
	uint64_t bias, phdr;
	size_t thunks; /* in its data */
} noplt;

static int find_noplt(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	if (!strstr(info->dlpi_name, PLUGIN_NOPLT))
		return 0;
	noplt = (struct module){info->dlpi_addr, (uint64_t)(uintptr_t)info->dlpi_phdr,
				count_thunks(info)};
	return 1;
}

static size_t thunks_of_noplt(void)
{
	assert_int_equal(dl_iterate_phdr(find_noplt, NULL), 1);
	return noplt.thunks;
}

/* A module with slots among the relocations that are made when it is loaded: it comes while a
 * symbol leads to a thunk; if `again`, to the place of itself, which was there before. Nobody
 * looks. */
static void comes_unseen(bool again)
{
	struct plugin plugin;
	struct module before = {0};

	plan_symbol_of_malloc();
	if (again) {
		plugin = open_plugin_of(PLUGIN_NOPLT, RTLD_NOW | RTLD_LOCAL);
		assert_int_equal(thunks_of_noplt(), 0);
		before = noplt;
		*known_at(fixture.shm->module_count++) =
			(struct limpet_known_module){.bias = noplt.bias, .phdr = noplt.phdr};
	}
	assert_int_equal(limpet_patch_planned(), 1);
	if (again)
		dlclose(plugin.handle);
	plugin = open_plugin_of(PLUGIN_NOPLT, RTLD_NOW | RTLD_LOCAL);
	assert_int_equal(thunks_of_noplt(), 1);
	if (again)
		assert_int_equal(noplt.bias, before.bias);
	assert_int_equal(detach(), 0);
	assert_int_equal(thunks_of_noplt(), 0);
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

static void test_a_module_that_nobody_looked_at(void **state)
{
	(void)state;
	comes_unseen(false);
}

static void test_a_module_in_the_place_of_an_early_one(void **state)
{
	(void)state;
	comes_unseen(true);
}

/* The tables are full: nothing is written beyond them, and what was left alone is counted. */
static void test_no_room_for_slots(void **state)
{
	LIMPET_FREE struct limpet_known_module *before = NULL;
	const uint32_t known = fixture.shm->module_count;
	struct plugin plugin;

	(void)state;
	for (uint32_t i = 0; i < LIMPET_MAX_SLOTS; i++)
		slot_at(i)->state = LIMPET_SLOT_GONE;
	fixture.shm->slot_count = LIMPET_MAX_SLOTS;
	before = calloc(known, sizeof(*before));
	assert_non_null(before);
	memcpy(before, known_at(0), known * sizeof(*before));
	plugin = open_plugin(RTLD_NOW);
	assert_int_equal(rescan(), 0);
	assert_int_equal(fixture.shm->slots_unhooked, 2);
	assert_int_equal(fixture.shm->slot_count, LIMPET_MAX_SLOTS);
	assert_memory_equal(before, known_at(0), known * sizeof(*before));
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

static void test_no_room_for_hooks(void **state)
{
	struct plugin plugin;

	(void)state;
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++)
		if (!limpet_hooks[i].original)
			limpet_hooks[i] = (struct limpet_hook){.original = 0x1000 + i,
							       .op = LIMPET_OP_MALLOC};
	plugin = open_plugin(RTLD_NOW);
	assert_int_equal(rescan(), 0);
	assert_int_equal(fixture.shm->slots_unhooked, 2);
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

/* More modules than can be noted: one that is looked at again holds our thunks already, and a hook
 * of a hook would be left behind when we detach. */
static void test_no_room_for_modules(void **state)
{
	const uint32_t known = fixture.shm->module_count;
	struct plugin plugin;

	(void)state;
	/* The program's own stand for the missing ones: they are there, and so are not forgotten.
	 */
	for (uint32_t i = known; i < LIMPET_MAX_KNOWN_MODULES; i++)
		*known_at(i) = *known_at(0);
	fixture.shm->module_count = LIMPET_MAX_KNOWN_MODULES;
	plugin = open_plugin(RTLD_NOW);
	assert_int_equal(rescan(), 2);
	for (int i = 0; i < 5; i++)
		assert_int_equal(rescan(), 0);
	use_plugin(&plugin, true);
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), 2);
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++)
		assert_false(is_thunk(limpet_hooks[i].original));
	detach();
	for (uint32_t i = 0; i < fixture.shm->slot_count; i++)
		assert_false(is_thunk(*(uint64_t *)(uintptr_t)slot_at(i)->address));
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

/* A module's place in the list is used again once it is gone. */
static void test_modules_that_come_often(void **state)
{
	const uint32_t known = fixture.shm->module_count;

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct plugin plugin = open_plugin(RTLD_NOW);

		assert_int_equal(rescan(), 2);
		dlclose(plugin.handle);
	}
	rescan();
	assert_true(fixture.shm->module_count <= known + 1);
}

/* Where modules lay that have gone is told apart by number, however many there were: each place is
 * kept once, and when there are too many the rest are one. */
static void test_modules_that_have_gone_are_numbered(void **state)
{
	enum { TIMES = LIMPET_MAX_GONE + 45 };
	const uint64_t page = 4096;
	const struct limpet_shm *shm = fixture.shm;
	static uint64_t places[TIMES];
	struct link_map *map;

	(void)state;
	for (uint32_t i = 0; i < TIMES; i++) {
		struct plugin plugin = open_plugin(RTLD_NOW);

		assert_int_equal(dlinfo(plugin.handle, RTLD_DI_LINKMAP, &map), 0);
		places[i] = map->l_addr;
		assert_int_equal(rescan(), 2);
		/* Twice to each place. */
		if (i % 2 == 1)
			assert_int_equal(places[i], places[i - 1]);
		assert_true(limpet_gone_find(shm->gone, shm->gone_places, places[i]) <= i);
		dlclose(plugin.handle);
		rescan();
		assert_int_equal(shm->gone_count, i + 1);
		assert_int_equal(limpet_gone_find(shm->gone, shm->gone_places, places[i]), i + 1);
		assert_int_equal(shm->gone_places, i / 2 + 1);
		/* The next pair finds no room here. */
		if (i % 2 == 1)
			assert_true(mmap((void *)(uintptr_t)places[i], page, PROT_NONE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
					 0) != MAP_FAILED);
	}
	for (uint32_t i = 1; i < TIMES; i += 2)
		munmap((void *)(uintptr_t)places[i], page);
}

static void test_more_places_than_are_told_apart(void **state)
{
	enum { TIMES = LIMPET_MAX_GONE + 10 };
	const uint64_t page = 4096;
	const struct limpet_shm *shm = fixture.shm;
	static uint64_t places[TIMES];
	struct link_map *map;

	(void)state;
	for (uint32_t i = 0; i < TIMES; i++) {
		struct plugin plugin = open_plugin(RTLD_NOW);

		assert_int_equal(dlinfo(plugin.handle, RTLD_DI_LINKMAP, &map), 0);
		places[i] = map->l_addr;
		rescan();
		dlclose(plugin.handle);
		rescan();
		assert_int_equal(limpet_gone_find(shm->gone, shm->gone_places, places[i]), i + 1);
		assert_true(mmap((void *)(uintptr_t)places[i], page, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				 0) != MAP_FAILED);
	}
	assert_int_equal(shm->gone_count, TIMES);
	assert_int_equal(shm->gone_places, LIMPET_MAX_GONE);
	for (uint32_t i = 0; i < LIMPET_MAX_GONE - 1; i++)
		assert_in_range(limpet_gone_find(shm->gone, shm->gone_places, places[i]), i + 1,
				TIMES);
	for (uint32_t i = LIMPET_MAX_GONE - 1; i < TIMES; i++)
		assert_int_equal(limpet_gone_find(shm->gone, shm->gone_places, places[i]), TIMES);
	for (uint32_t i = 0; i < TIMES; i++)
		munmap((void *)(uintptr_t)places[i], page);
}

static void *head_of(const struct plugin *plugin)
{
	struct link_map *map;

	assert_int_equal(dlinfo(plugin->handle, RTLD_DI_LINKMAP, &map), 0);
	return (void *)(uintptr_t)map->l_addr;
}

/* `page` of a module with two slots is closed, or as if its file were cut short, when another one
 * comes and when the slots are to be put back. Nothing is lost but what is in the module itself. */
static void use_closed(void *page, int open_again)
{
	const size_t bytes = 4096;
	struct plugin other;
	uint32_t gone;

	assert_int_equal(mprotect(page, bytes, PROT_NONE), 0);
	other = open_plugin_of(PLUGIN_NOPLT, RTLD_NOW | RTLD_LOCAL);
	limpet_patch_on_loader_call(false, false);
	assert_int_equal(count_state(LIMPET_SLOT_PATCHED), 4);
	use_plugin(&other, true);
	dlclose(other.handle);
	limpet_patch_on_loader_call(false, false);
	gone = count_state(LIMPET_SLOT_GONE);
	/* The injector, which reads otherwise, is told that some could not be put back. */
	assert_true(detach() > 0);
	assert_int_equal(count_state(LIMPET_SLOT_GONE), gone);
	assert_int_equal(mprotect(page, bytes, open_again), 0);
	assert_int_equal(detach(), 0);
}

static void test_a_module_whose_head_is_closed(void **state)
{
	struct plugin plugin = open_plugin(RTLD_NOW | RTLD_LOCAL);

	(void)state;
	assert_int_equal(rescan(), 2);
	use_closed(head_of(&plugin), PROT_READ);
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

static void test_a_module_whose_slots_are_closed(void **state)
{
	struct plugin plugin = open_plugin(RTLD_NOW | RTLD_LOCAL);
	uint64_t slot;

	(void)state;
	assert_int_equal(rescan(), 2);
	slot = slot_at(fixture.shm->slot_count - 1)->address;
	use_closed((void *)(uintptr_t)(slot & ~UINT64_C(4095)), PROT_READ | PROT_WRITE);
	use_plugin(&plugin, false);
	dlclose(plugin.handle);
}

/* It is counted once, and those after it are seen. */
static void test_a_module_that_comes_closed(void **state)
{
	struct plugin plugin = open_plugin(RTLD_NOW | RTLD_LOCAL), other;
	void *head = head_of(&plugin);

	(void)state;
	assert_int_equal(mprotect(head, 4096, PROT_NONE), 0);
	other = open_plugin_of(PLUGIN_NOPLT, RTLD_NOW | RTLD_LOCAL);
	assert_int_equal(rescan(), 2);
	assert_int_equal(rescan(), 0);
	assert_int_equal(fixture.shm->slots_unhooked, 1);
	use_plugin(&other, true);
	assert_int_equal(mprotect(head, 4096, PROT_READ), 0);
	assert_int_equal(detach(), 0);
	dlclose(other.handle);
	dlclose(plugin.handle);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ---------------------------------------------------------------- the dynamic linker's locks */

static sem_t has_lock, may_leave;

static int stay_inside(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	sem_post(&has_lock);
	sem_wait(&may_leave);
	return 1;
}

static void *call_back(void *argument)
{
	dl_iterate_phdr(stay_inside, NULL);
	return argument;
}

static void *hold(void *argument)
{
	assert_true(limpet_loaded_hold(true, true));
	sem_post(&has_lock);
	sem_wait(&may_leave);
	limpet_loaded_release();
	return argument;
}

static pthread_t start_holder(void *(*holder)(void *))
{
	pthread_t thread;

	assert_int_equal(sem_init(&has_lock, 0, 0) | sem_init(&may_leave, 0, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, holder, NULL), 0);
	sem_wait(&has_lock);
	return thread;
}

static void end_holder(pthread_t thread)
{
	sem_post(&may_leave);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* What it does there may need a lock that the hijacked thread has: nobody waits for it. */
static void test_a_thread_that_has_a_lock_of_the_loader(void **state)
{
	const uint64_t original = (uint64_t)(uintptr_t)malloc;
	struct limpet_slot *slot;
	pthread_t thread;

	(void)state;
	limpet_hooks[FIXTURE_MALLOC].original = original;
	words[0] = original;
	slot = plan(&words[0], original, FIXTURE_MALLOC);
	thread = start_holder(call_back);
	assert_true(limpet_patch_begin());
	assert_int_equal(limpet_patch_planned(), 1);
	limpet_patch_end();
	end_holder(thread);
	thread = start_holder(hold);
	assert_false(limpet_patch_begin());
	assert_int_equal(limpet_patch_restore(), 1);
	assert_int_equal(words[0], limpet_thunk(FIXTURE_MALLOC));
	end_holder(thread);
	assert_int_equal(limpet_patch_restore(), 0);
	assert_int_equal(words[0], original);
	assert_int_equal(slot->state, LIMPET_SLOT_RESTORED);
	/* Both are free again. */
	end_holder(start_holder(call_back));
	end_holder(start_holder(hold));
}

/* loaded.c asks by a word that is not this, and so never waits, whether memory can be read. */
#define UNLIKELY 0xa7c2f15bu

/* Whether all calls of this thread have no time limit, or never wait: as they are for the injector.
 * The kernel ends us otherwise. */
static bool allow_no_time_limit(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	return filter &&
	       !seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(futex), 2,
				 SCMP_A2(SCMP_CMP_NE, UNLIKELY), SCMP_A3(SCMP_CMP_NE, 0)) &&
	       !seccomp_load(filter);
}

/* The hijacked thread may be in the middle of a timed call: what is left of its time must stay. */
static void test_the_injectors_calls_do_not_sleep(void **state)
{
	(void)state;
	for (unsigned held = 0; held < 2; held++) {
		pthread_t thread = held ? start_holder(hold) : 0;
		/* By fork(3) the child would get free locks. */
		pid_t child = (pid_t)syscall(SYS_fork);
		int status;

		assert_true(child >= 0);
		/* The second call finds that the first one is not over. */
		if (!child)
			_exit(!allow_no_time_limit() || limpet_patch_begin() == held ||
			      limpet_patch_begin());
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		if (held)
			end_holder(thread);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_thunk_is_a_call_like_any_other),
		TEST(test_dlsym_is_seen_while_nothing_is_recorded),
		TEST(test_a_thunk_that_outlives_the_agent),
		TEST(test_a_block_is_published_by_the_last_store),
		TEST(test_a_block_is_published_at_an_entry),
		TEST(test_calls_through_thunks_are_recorded),
		TEST(test_planned_slots),
		TEST(test_planned_slots_that_cannot_be_exchanged),
		TEST(test_a_slot_in_the_place_of_a_lazy_one),
		TEST(test_a_thread_that_has_a_lock_of_the_loader),
		TEST(test_the_injectors_calls_do_not_sleep),
		TEST(test_read_only_pages_stay_read_only),
		TEST(test_a_slot_that_was_bound_over_us),
		TEST(test_a_variable_that_was_set_back),
		TEST(test_parent_and_child_restore_apart),
		TEST(test_a_module_that_comes_bound),
		TEST(test_a_module_that_comes_unbound),
		TEST(test_a_variable_of_a_module_that_comes),
		TEST(test_a_symbol),
		TEST(test_a_module_that_nobody_looked_at),
		TEST(test_a_module_whose_head_is_closed),
		TEST(test_a_module_whose_slots_are_closed),
		TEST(test_a_module_that_comes_closed),
		TEST(test_a_module_in_the_place_of_an_early_one),
		TEST(test_no_room_for_slots),
		TEST(test_no_room_for_hooks),
		TEST(test_no_room_for_modules),
		TEST(test_modules_that_come_often),
		TEST(test_modules_that_have_gone_are_numbered),
		TEST(test_more_places_than_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
