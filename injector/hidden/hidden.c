#include "injector/hidden/hidden.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base_name.h"
#include "common/family.h"
#include "injector/elf/allocator_texts.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/modules.h"
#include "injector/hidden/call_judge.h"
#include "injector/hidden/call_watch.h"
#include "injector/hidden/slot_calls.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define WATCH_NS UINT64_C(2000000000)
/* Calls and returns: some hundred milliseconds of a program that does little else. */
#define WATCH_CALLS 40000u
#define MOST_WATCHES 4u

struct search {
	const struct limpet_target *target;
	const struct limpet_hidden_watcher *watcher;
	struct limpet_entry_list *list;
	/* Only to show, and not to watch: no watcher, and no list. */
	void (*shown)(void *context, const char *allocator);
	void *context;
	const struct limpet_modules *modules;
	const struct limpet_module *module;
	int fd;
	char name[LIMPET_ENTRY_LIST_OWNER_BYTES]; /* "mimalloc in swc.node" */
	struct limpet_slot_call functions[LIMPET_WATCHED_MAX];
	size_t count;
	unsigned watches; /* of the process so far */
};

static void report_not_found(const struct search *search, const char *why, const char *hint)
{
	search->watcher->not_found(search->watcher->context, search->name, why, hint);
}

static const struct {
	const char *name;
	enum limpet_op op;
} kinds[] = {
	[LIMPET_WATCHED_IDLE] = {"uncalled", LIMPET_OP_NONE},
	[LIMPET_WATCHED_MALLOC] = {"malloc", LIMPET_OP_MALLOC},
	[LIMPET_WATCHED_CALLOC] = {"calloc", LIMPET_OP_CALLOC},
	[LIMPET_WATCHED_REALLOC] = {"realloc", LIMPET_OP_REALLOC},
	[LIMPET_WATCHED_FREE] = {"free", LIMPET_OP_FREE},
};

/* Nothing is known of it, although the program's code calls it like the allocator's others. */
static bool is_missing(enum limpet_watched_role role)
{
	return role == LIMPET_WATCHED_IDLE;
}

static void add(struct search *search, const struct limpet_slot_call *function,
		enum limpet_watched_role role)
{
	const enum limpet_op op = kinds[role].op;
	struct limpet_entry_listed *listed = &search->list->list[search->list->count++];

	*listed = (struct limpet_entry_listed){
		.what = {.family = LIMPET_ENTRY_FOUND,
			 .op = op,
			 .symbol = op == LIMPET_OP_NONE ? 0 : limpet_family_first(op)},
		.place = {.dev_major = search->module->dev_major,
			  .dev_minor = search->module->dev_minor,
			  .inode = search->module->inode,
			  .value = function->function,
			  .bytes = function->bytes},
	};
	snprintf(listed->name, sizeof(listed->name), "%s at %#" PRIx64, kinds[role].name,
		 function->function);
	snprintf(listed->owner, sizeof(listed->owner), "%s", search->name);
}

/* The roles are certain: those that matter become entries of the list. */
static void add_roles(struct search *search, const struct limpet_watched_verdict *verdict)
{
	unsigned taken = 0, missing = 0;
	bool moves = false;

	for (size_t i = 0; i < search->count; i++) {
		missing += is_missing(verdict->roles[i]);
		moves |= verdict->roles[i] == LIMPET_WATCHED_REALLOC;
	}
	/* A block that it moves would stay allocated for ever in the trace. */
	if (missing && !moves) {
		report_not_found(search, "its realloc was not called meanwhile",
				 "attach again while the program does more");
		return;
	}
	if (search->count > LIMPET_ENTRY_LIST_MAX - search->list->count) {
		report_not_found(search, "there are too many functions for one process", "");
		return;
	}
	for (size_t i = 0; i < search->count; i++) {
		const enum limpet_watched_role role = verdict->roles[i];

		if (role >= LIMPET_WATCHED_MALLOC && role <= LIMPET_WATCHED_FREE)
			taken++;
		else if (!is_missing(role))
			continue;
		add(search, &search->functions[i], role);
	}
	search->watcher->found(search->watcher->context, search->name, taken, verdict->pairs);
}

/* On Linux 6.11 to 6.13 a watched return makes a system call, which a filter may forbid: the
 * program would die of it. Unreadable threads count as filtered. */
static bool has_filter(const struct limpet_target *target)
{
	LIMPET_FREE pid_t *tids = NULL;
	const int count = limpet_proc_tasks(target->pid, &tids);
	uint64_t mode;

	for (int i = 0; i < count; i++)
		if (limpet_proc_task_number(target, tids[i], "Seccomp", &mode) < 0 || mode)
			return true;
	return count <= 0;
}

/* Whether each function is mapped from the file. */
static bool has_files_text(const struct search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		const struct limpet_map *map =
			limpet_proc_maps_find(&search->modules->maps,
					      search->module->bias + search->functions[i].function);

		if (!map || !limpet_module_is_of(search->module, map))
			return false;
	}
	return true;
}

static int watch(struct search *search)
{
	struct limpet_call_watch watch = {.target = search->target,
					  .fd = search->fd,
					  .count = (unsigned)search->count,
					  .most_ns = WATCH_NS,
					  .most_calls = WATCH_CALLS};
	LIMPET_FREE struct limpet_watched_call *calls = NULL;
	struct limpet_watched_verdict verdict;
	struct limpet_err err = {0};
	size_t count;
	int error;

	if (has_filter(search->target)) {
		report_not_found(search, "calls in a process with a seccomp filter are not watched",
				 "");
		return 0;
	}
	if (!has_files_text(search)) {
		report_not_found(
			search,
			"its code was moved to memory without a file (huge pages), where the "
			"kernel's uprobes see no call",
			"");
		return 0;
	}
	if (search->watches++ == MOST_WATCHES) {
		report_not_found(search, "there are too many allocators to watch", "");
		return 0;
	}
	for (size_t i = 0; i < search->count; i++) {
		watch.offsets[i] = search->functions[i].offset;
		watch.gives[i] = search->functions[i].tested > 0;
	}
	search->watcher->watching(search->watcher->context, search->name, WATCH_NS);
	error = limpet_call_watch_run(&watch, &calls, &count, &err);
	if (error == -ENOMEM)
		return error;
	if (error) {
		report_not_found(search, err.message, err.hint);
		return 0;
	}
	error = limpet_watched_judge(calls, count, (unsigned)search->count, &verdict);
	if (error)
		return error;
	if (verdict.sure)
		add_roles(search, &verdict);
	else
		report_not_found(search, verdict.why, "attach again while the program does more");
	return 0;
}

static int search_file(struct search *search, const struct limpet_elf_file *file,
		       const char *allocator)
{
	LIMPET_FREE struct limpet_slot_call *calls = NULL;
	char file_name[LIMPET_SHORT_NAME_BYTES];
	size_t count = 0;
	int error;

	snprintf(search->name, sizeof(search->name), "%s in %s", allocator,
		 limpet_short_base_name(search->module->path, file_name));
	error = limpet_slot_calls_find(file, &calls, &count);
	if (error == -ENOMEM)
		return error;
	search->count = error ? 0
			      : limpet_slot_calls_choose(calls, count, search->functions,
							 LIMPET_WATCHED_MAX);
	if (search->count && search->shown && !has_filter(search->target) && has_files_text(search))
		search->shown(search->context, search->name);
	return search->count && !search->shown ? watch(search) : 0;
}

/* 0 also for a module in which there is nothing to find. */
static int search_module(struct search *search)
{
	const struct limpet_module *module = search->module;
	LIMPET_CLOSE int fd = -1;
	struct limpet_elf_file *file;
	const char *allocator = NULL;
	int error = 0;

	if (module->vdso || module->agent)
		return 0;
	fd = limpet_module_open(search->target, module);
	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return 0;
	if (limpet_elf_file_is_native(file) && !limpet_elf_file_has_symtab(file))
		allocator = limpet_allocator_texts_find(file);
	if (allocator) {
		search->fd = fd;
		error = search_file(search, file, allocator);
	}
	limpet_elf_file_free(file);
	return error;
}

static int search_modules(const struct search *wanted)
{
	struct search search = *wanted;
	struct limpet_modules modules;
	int error = limpet_modules_of_files(search.target, &modules);

	if (error < 0)
		return error;
	search.modules = &modules;
	for (size_t i = 0; i < modules.count && !error; i++) {
		search.module = &modules.list[i];
		error = search_module(&search);
	}
	limpet_modules_done(&modules);
	return error;
}

int limpet_hidden_show(const struct limpet_target *target,
		       void (*shown)(void *context, const char *allocator), void *context)
{
	const struct search search = {
		.target = target, .shown = shown, .context = context, .fd = -1};

	return search_modules(&search);
}

int limpet_hidden_find(const struct limpet_target *target,
		       const struct limpet_hidden_watcher *watcher, struct limpet_entry_list *list)
{
	const struct search search = {.target = target, .watcher = watcher, .list = list, .fd = -1};

	return search_modules(&search);
}
