/* Preflight: which of the program's allocators limpet follows, and what remains unseen. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base_name.h"
#include "common/units.h"
#include "injector/elf/entry_find.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"

static void append(char *list, size_t room, const char *word)
{
	size_t used = strlen(list);

	if (!strstr(list, word))
		snprintf(list + used, room - used, "%s%s", used ? ", " : "", word);
}

/* Functions of its allocators that can get inline hooks. */
struct hooked {
	size_t count;
	unsigned refused;
	const char *why_refused; /* of limpet_check_plan() */
	const char *exposed;     /* a function that another tool's probe would break; NULL: none */
	bool thread_heaps;
	char why_not[208]; /* if none: " (reason)", or "" */
};

static bool is_found(const struct limpet_entry_listed *listed)
{
	return listed->place.inode != 0;
}

static bool has_found(const struct limpet_entry_list *list)
{
	for (size_t i = 0; list && i < list->count; i++)
		if (is_found(&list->list[i]))
			return true;
	return false;
}

static size_t count_of_program(const struct limpet_attach_plan *plan)
{
	const struct limpet_entries *entries = &plan->entries;
	size_t count = 0;

	for (size_t i = 0; i < entries->count; i++) {
		const enum limpet_entry_family family = entries->list[i].what.family;
		const struct limpet_module *module =
			limpet_modules_find(&plan->modules, entries->list[i].address);

		count += family != LIMPET_ENTRY_LISTED && family != LIMPET_ENTRY_FINDER &&
			 (family != LIMPET_ENTRY_FOUND || (module && module->executable));
	}
	return count;
}

static const char *find_exposed(const struct limpet_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		if (limpet_entry_code_is_exposed(&entries->list[i].code, entries->list[i].address))
			return entries->list[i].name;
	return NULL;
}

static struct hooked find_hooked(struct limpet_check *check, const struct limpet_program *program)
{
	const struct limpet_attach_plan *plan;
	struct hooked hooked = {.count = 0};

	if (!limpet_allocator_has_entries(program) && !has_found(check->options.config.entry_list))
		return hooked;
	/* For a list the names must suffice. */
	if (check->options.quick) {
		hooked.count = 1;
		return hooked;
	}
	plan = limpet_check_plan(check);
	if (!plan)
		return hooked;
	if (plan->entries.program)
		hooked.count = count_of_program(plan);
	hooked.refused = plan->entries.refused;
	hooked.why_refused = plan->entries.why_refused;
	hooked.exposed = find_exposed(&plan->entries);
	hooked.thread_heaps = plan->entries.thread_heaps;
	if (!hooked.count && plan->entries.why[0])
		snprintf(hooked.why_not, sizeof(hooked.why_not), " (%s)", plan->entries.why);
	return hooked;
}

static void report_hooked(struct limpet_check *check, const char *name, const struct hooked *hooked)
{
	const size_t count = hooked->count;

	if (!check->options.quick)
		limpet_check_add(check, LIMPET_FINDING_OK, "allocator", "",
				 "%s is linked into the executable: %zu function%s hooked where %s",
				 name, count, count == 1 ? " is" : "s are",
				 count == 1 ? "it begins" : "they begin");
	if (!check->options.quick && hooked->exposed)
		limpet_check_add(
			check, LIMPET_FINDING_OK, "allocator", "",
			"no other tool may set or remove a probe (uprobe) on its %s during "
			"the capture: the program would crash",
			hooked->exposed);
	if (hooked->refused)
		limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
				 "%u of its functions cannot be hooked%s%s%s: blocks that they "
				 "allocate stay unseen, and the trace will not be complete",
				 hooked->refused, hooked->why_refused[0] ? " (" : "",
				 hooked->why_refused, hooked->why_refused[0] ? ")" : "");
}

void limpet_check_note_unseen(struct limpet_check *check, const char *name, const char *file,
			      char *ret_share, size_t room)
{
	uint64_t unseen_bytes, rss_bytes;
	char where[96], bytes[LIMPET_UNITS_TEXT];

	snprintf(where, sizeof(where), "%s in %s", name, file ? file : check->out->name);
	append(check->out->unfollowed, sizeof(check->out->unfollowed), where);
	check->out->unseen_rss_share = 1.0;
	ret_share[0] = '\0';
	if (check->options.quick ||
	    limpet_unseen_rss(check->target, &unseen_bytes, &rss_bytes) < 0 || !rss_bytes)
		return;
	check->out->unseen_rss_share = (double)unseen_bytes / (double)rss_bytes;
	/* At its entry point it holds nothing yet; and a share of nothing tells nothing. */
	if (check->options.launched || check->out->unseen_rss_share < 0.005)
		return;
	snprintf(ret_share, room, ": up to %.0f%% of its resident memory, %s",
		 100.0 * check->out->unseen_rss_share,
		 limpet_units_format_bytes(bytes, unseen_bytes));
}

/* Built with -d:useMalloc it has no allocator of its own; this cannot be told from outside. */
static void check_nameless_nim(struct limpet_check *check)
{
	char share[64];

	limpet_check_note_unseen(check, "Nim's allocator", NULL, share, sizeof(share));
	limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", "Nim, stripped",
			 "it is a Nim program without names: what Nim's own allocator holds stays "
			 "unseen%s",
			 share);
	limpet_check_hint(check, "a program that is not stripped, or built with -d:useMalloc, "
				 "shows every block");
}

/* It releases blocks without a call, and the program itself divides larger blocks into most of
 * them. */
static void check_garbage_collector(struct limpet_check *check, const char *name, const char *file)
{
	char share[64];

	limpet_check_note_unseen(check, name, file, share, sizeof(share));
	limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
			 "%s is loaded as a library: what it holds stays unseen%s", name, share);
}

/* Its C side (cgo) is like any other program. */
static void check_go(struct limpet_check *check, const struct limpet_program *program)
{
	const struct hooked hooked = find_hooked(check, program);
	char share[64];

	if (hooked.count)
		report_hooked(check, "its C library", &hooked);
	limpet_check_note_unseen(check, "the Go runtime", NULL, share, sizeof(share));
	limpet_check_add(
		check, LIMPET_FINDING_WARNING, "allocator", "Go",
		"it is a Go program: what its C code allocates (cgo) is followed, Go's own "
		"heap stays unseen%s%s",
		share, hooked.why_not);
	limpet_check_hint_pages(check, "", "; Go has a profiler of its own: go tool pprof");
}

void limpet_check_own_allocator(struct limpet_check *check, const struct limpet_program *program)
{
	const char *name = program->own_allocator;
	struct hooked hooked;
	char share[64];

	if (!name && program->own_malloc)
		name = program->interpreter[0] ? "its own malloc" : "its malloc";
	if (!name && program->is_nim)
		check_nameless_nim(check);
	if (!name && (program->own_pools || program->own_operators)) {
		hooked = find_hooked(check, program);
		if (hooked.count)
			report_hooked(check,
				      program->own_pools
					      ? "a pool that reports itself (limpet.h)"
					      : "a replacement of operator new and delete",
				      &hooked);
	}
	if (!name)
		return;
	if (limpet_program_is_go(program)) {
		check_go(check, program);
		return;
	}
	hooked = find_hooked(check, program);
	/* Said with those of libraries (check_found). */
	if (hooked.count && !limpet_allocator_has_entries(program))
		return;
	if (hooked.count) {
		append(check->out->allocators, sizeof(check->out->allocators), name);
		report_hooked(check, name, &hooked);
		if (hooked.thread_heaps)
			limpet_check_add(
				check, LIMPET_FINDING_WARNING, "allocator", name,
				"each thread has its own heap: blocks in it when the thread ends "
				"are not seen released, and the trace will not be complete");
		return;
	}
	limpet_check_note_unseen(check, name, NULL, share, sizeof(share));
	if (check->options.config.partial) {
		limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
				 "%s is linked into the executable, and what it holds stays "
				 "unseen%s%s",
				 name, share, hooked.why_not);
		return;
	}
	limpet_check_refuse(check, -ENOTSUP, "allocator", name,
			    "%s is linked into the executable, out of limpet's reach%s%s", name,
			    share, hooked.why_not);
	limpet_check_hint_pages(check, "--partial captures only what goes through the C library; ",
				"");
}

/* Lists the functions without a mark; returns how many. */
static size_t list_missing(const struct limpet_entry_list *list, const bool *marks, char *ret,
			   size_t room)
{
	size_t count = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < list->count; i++) {
		if (marks[i] || is_found(&list->list[i]))
			continue;
		count++;
		append(ret, room, list->list[i].name);
	}
	return count;
}

/* Functions that were found by their calls: an allocator whose functions cannot be hooked stays as
 * unseen as it was. */
static void check_found(struct limpet_check *check, const struct limpet_attach_plan *plan)
{
	const struct limpet_entry_list *list = check->options.config.entry_list;
	const struct limpet_entries *entries = &plan->entries;

	for (size_t i = 0; i < list->count; i++) {
		const char *owner = list->list[i].owner;
		const bool is_first = !i || strcmp(list->list[i - 1].owner, owner) != 0;
		size_t taken = 0, unknown = 0;

		if (!is_found(&list->list[i]) || !is_first)
			continue;
		for (size_t k = i; k < list->count && !strcmp(list->list[k].owner, owner); k++) {
			taken += entries->is_listed[k] && list->list[k].what.op != LIMPET_OP_NONE;
			unknown += list->list[k].what.op == LIMPET_OP_NONE;
		}
		if (taken) {
			append(check->out->allocators, sizeof(check->out->allocators), owner);
			limpet_check_add(check, LIMPET_FINDING_OK, "allocator", "",
					 "%s is followed: %zu functions without a name are hooked "
					 "where they begin",
					 owner, taken);
			if (unknown)
				limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", owner,
						 "%zu more of its functions %s not called while "
						 "limpet looked: blocks that they allocate stay "
						 "unseen, and the trace will not be complete",
						 unknown, unknown == 1 ? "was" : "were");
		} else {
			limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", owner,
					 "%s was found, but cannot be hooked%s%.100s%s", owner,
					 entries->why[0] ? " (" : "", entries->why,
					 entries->why[0] ? ")" : "");
		}
	}
}

/* Functions that the user named must exist. */
void limpet_check_listed(struct limpet_check *check)
{
	const struct limpet_entry_list *list = check->options.config.entry_list;
	const struct limpet_attach_plan *plan = list ? limpet_check_plan(check) : NULL;
	const char *why;
	char missing[160];
	size_t named = 0;

	if (!plan)
		return;
	check_found(check, plan);
	for (size_t i = 0; i < list->count; i++)
		named += !is_found(&list->list[i]);
	if (!named)
		return;
	why = plan->entries.why;
	if (list_missing(list, plan->entries.is_there, missing, sizeof(missing))) {
		limpet_check_refuse(check, -ENOENT, "alloc-functions", "functions not found",
				    "functions that you named do not exist: %s", missing);
		limpet_check_hint(check, "list those that exist: nm --defined-only FILE");
	} else if (list_missing(list, plan->entries.is_listed, missing, sizeof(missing))) {
		limpet_check_refuse(check, -ENOTSUP, "alloc-functions", "functions not hooked",
				    "functions that you named cannot be hooked: %s%s%.100s%s",
				    missing, why[0] ? " (" : "", why, why[0] ? ")" : "");
		limpet_check_hint(check, "name other functions of that allocator");
	} else {
		limpet_check_add(check, LIMPET_FINDING_OK, "alloc-functions", "",
				 named == 1 ? "the function that you named is hooked at its entry"
					    : "all %zu functions that you named are hooked at "
					      "their entries",
				 named);
	}
}

void limpet_check_libraries(struct limpet_check *check, const struct limpet_program *program)
{
	const char *runtime = program->runtime, *note = program->runtime_note;

	if (check->out->libc[0])
		append(check->out->allocators, sizeof(check->out->allocators), check->out->libc);
	for (size_t i = 0; i < check->maps.count; i++) {
		const struct limpet_map *map = &check->maps.list[i];
		const char *name;

		/* once per library: its first map */
		if (map->offset || map->path[0] != '/')
			continue;
		name = limpet_allocator_of_library(map->path);
		if (name && !strstr(check->out->allocators, name)) {
			append(check->out->allocators, sizeof(check->out->allocators), name);
			limpet_check_add(check, LIMPET_FINDING_OK, "allocator-library", "",
					 "%s is loaded as a library, and is followed", name);
		}
		name = limpet_garbage_collector_of_library(map->path);
		if (name && !strstr(check->out->unfollowed, name))
			check_garbage_collector(check, name, limpet_base_name(map->path));
		if (!runtime)
			runtime = limpet_runtime_of_library(map->path, &note);
	}
	if (runtime) {
		snprintf(check->out->runtime, sizeof(check->out->runtime), "%s", runtime);
		limpet_check_add(check, LIMPET_FINDING_NOTE, "runtime", runtime, "%s", note);
	}
	if (program->cut)
		limpet_check_add(check, LIMPET_FINDING_NOTE, "symbols", "",
				 "its symbol table is broken or too large: an allocator that is "
				 "linked in may go unnoticed");
}

/* Memory of no followed allocator, and allocators inside the modules that are not followed, if
 * glibc's is the only one that is: also those that hold little so far, since what is allocated
 * there will not be in the trace. For a program that is partly out of reach the share was reported
 * already. */
void limpet_check_unfollowed(struct limpet_check *check)
{
	struct limpet_memory_owners_options options = {0};
	struct limpet_unfollowed_part *others = &check->out->others;
	struct limpet_unfollowed unfollowed;
	struct limpet_memory memory;
	struct limpet_attach_plan *plan;
	char names[256] = "", words[512];
	bool is_large;

	if (check->options.launched || check->out->unseen_rss_share >= 0)
		return;
	plan = limpet_check_plan(check);
	if (!plan)
		return;
	options.modules = &plan->modules;
	if (limpet_entries_have_others(&plan->entries, check->target, &plan->modules) ||
	    limpet_memory_owners_read(check->target, &options, &memory) != 0)
		return;
	/* Both figures are of the same moment. */
	check->out->rss_bytes = memory.bytes[LIMPET_MEMORY_RSS];
	*others = (struct limpet_unfollowed_part){.known = true,
						  .bytes = memory.bytes[LIMPET_MEMORY_UNKNOWN],
						  .rss_bytes = check->out->rss_bytes};
	is_large = limpet_unfollowed_judge(others, NULL, 0, "").is_large;
	limpet_memory_owners_name(
		&plan->modules,
		&(struct limpet_owners_followed){limpet_entries_are_in, &plan->entries},
		is_large ? check->out->runtime : "", &check->out->unfollowed_files, names,
		sizeof(names));
	if (!is_large && !names[0])
		return;
	append(check->out->unfollowed, sizeof(check->out->unfollowed), names);
	unfollowed = limpet_unfollowed_judge(others, NULL, 0, names);
	limpet_unfollowed_format(&unfollowed, words, sizeof(words));
	limpet_check_add(check, LIMPET_FINDING_WARNING, "unfollowed", "memory of others", "%s",
			 words);
	limpet_check_hint_pages(check, "", "");
}
