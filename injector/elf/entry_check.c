/* Decides which of the functions that were found can get an inline hook. */
#include "injector/elf/entry_find_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/modules_memory.h"
#include "injector/proc/memfd.h"

#define PAGE 4096u
#define WINDOW (1u << 20)

void limpet_entry_refuse(struct limpet_entries *entries, unsigned count, const char *why)
{
	entries->refused += count;
	if (why && !entries->why_refused[0])
		snprintf(entries->why_refused, sizeof(entries->why_refused), "%s", why);
}

static int refuse(struct limpet_entry_finder *finder, const struct limpet_entry *entry,
		  const char *why)
{
	char words[sizeof(finder->entries->why_refused)];

	/* Without it exceptions cannot pass, and nothing is missed. */
	if (entry->what.family == LIMPET_ENTRY_FINDER)
		return -ENOTSUP;
	snprintf(words, sizeof(words), "%.60s: %.90s", entry->name, why);
	limpet_entry_refuse(finder->entries, 1 + entry->jumps, words);
	if (limpet_op_releases(entry->what.op))
		snprintf(finder->entries->why, sizeof(finder->entries->why), "%s: %.100s",
			 entry->name, why);
	return -ENOTSUP;
}

/* Where a jump of an earlier limpet stands, which is removed before anything is hooked; `bytes`:
 * nowhere. */
static size_t find_own_jump(const struct limpet_entry_finder *finder,
			    const struct limpet_entry *entry, const uint8_t *code)
{
	for (size_t i = 0; i < LIMPET_ENTRY_CODE_MAX && i + LIMPET_ENTRY_JUMP_BYTES <= entry->bytes;
	     i++) {
		const uint64_t next = entry->address + i + LIMPET_ENTRY_JUMP_BYTES;
		const struct limpet_map *map;
		int32_t away;

		if (code[i] != 0xe9)
			continue;
		memcpy(&away, code + i + 1, sizeof(away));
		map = limpet_proc_maps_find(&finder->modules->maps, next + (uint64_t)(int64_t)away);
		if (map && limpet_memfd_is_agent(map->path))
			return i;
	}
	return entry->bytes;
}

/* Breakpoints of other tools hide what the kernel will execute in their place, a jump of an earlier
 * limpet what will be put back: the file's instructions. Writes these into `code`, if it is the
 * file's but for that, and notes where breakpoints are. */
static int see_through(const struct limpet_entry_finder *finder, const struct limpet_entry *entry,
		       uint8_t *code, uint8_t *ret_breakpoints)
{
	const size_t jump = find_own_jump(finder, entry, code);
	LIMPET_FREE uint8_t *file = NULL;

	if (jump == entry->bytes && !memchr(code, LIMPET_ENTRY_BREAKPOINT, entry->bytes))
		return 0;
	file = malloc(entry->bytes);
	if (!file)
		return -ENOMEM;
	if (!limpet_module_spend(finder->module, entry->bytes) ||
	    limpet_module_read_file(finder->modules->target, finder->module, &finder->modules->maps,
				    entry->address, file, entry->bytes) < 0)
		return 0;
	if (jump < entry->bytes)
		memcpy(code + jump, file + jump, LIMPET_ENTRY_JUMP_BYTES);
	for (size_t i = 0; i < entry->bytes; i++)
		if (code[i] != file[i] && code[i] != LIMPET_ENTRY_BREAKPOINT)
			return 0;
	for (size_t i = 0; i < entry->bytes; i++)
		ret_breakpoints[i] = code[i] != file[i] ? LIMPET_ENTRY_BREAKPOINT : 0;
	memcpy(code, file, entry->bytes);
	return 0;
}

static int check_code(struct limpet_entry_finder *finder, struct limpet_entry *entry,
		      uint64_t place)
{
	LIMPET_FREE uint8_t *code = malloc(entry->bytes);
	LIMPET_FREE uint8_t *breakpoints = calloc(1, entry->bytes);
	struct limpet_err err = {0};

	if (!code || !breakpoints)
		return -ENOMEM;
	if (!limpet_module_spend(finder->module, entry->bytes) ||
	    limpet_module_read(finder->modules->target, finder->module, entry->address, code,
			       entry->bytes) < 0)
		return refuse(finder, entry, "its code cannot be read");
	if (see_through(finder, entry, code, breakpoints) < 0)
		return -ENOMEM;
	if (limpet_code_reader_entry(finder->reader, entry->code.kind,
				     &(struct limpet_code){code, entry->bytes, entry->address},
				     place, &entry->code, &err) < 0)
		return err.code == -ENOMEM ? -ENOMEM : refuse(finder, entry, err.message);
	/* The jump would replace it, and it the jump. */
	if (memchr(breakpoints + (entry->code.from - entry->address), LIMPET_ENTRY_BREAKPOINT,
		   entry->code.original_bytes))
		return refuse(finder, entry, "another tool has set a breakpoint there");
	if (limpet_entry_code_crosses_page(&entry->code))
		return refuse(finder, entry, "its beginning crosses the end of a page");
	return 0;
}

static bool is_short_jump(const struct limpet_entry_finder *finder,
			  const struct limpet_entry *entry, uint64_t *ret_target)
{
	uint8_t code[LIMPET_SHORT_JUMP_MAX];

	return entry->bytes <= sizeof(code) && limpet_module_spend(finder->module, entry->bytes) &&
	       limpet_module_read(finder->modules->target, finder->module, entry->address, code,
				  entry->bytes) >= 0 &&
	       limpet_entry_code_is_short_jump(code, entry->bytes, entry->address, ret_target);
}

static void drop(struct limpet_entry_finder *finder, size_t index)
{
	memmove(&finder->found[index], &finder->found[index + 1],
		(--finder->count - index) * sizeof(finder->found[0]));
}

static int compare_entries(const void *a, const void *b)
{
	const struct limpet_entry *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Another part of the module may jump into the middle of the instructions that move: a part of the
 * function that was placed elsewhere, or handwritten code. A byte that only looks like a jump costs
 * one entry. */
static bool is_jumped_into(const struct limpet_entry_finder *finder, const uint8_t *at,
			   uint64_t address, size_t *ret_index)
{
	size_t length = 0;
	uint64_t target;
	int32_t away;

	if (at[0] == 0xe9)
		length = 5;
	else if (at[0] == 0x0f && (at[1] & 0xf0) == 0x80)
		length = 6;
	else
		return false;
	memcpy(&away, at + length - sizeof(away), sizeof(away));
	target = address + length + (uint64_t)(int64_t)away;
	if (target <= finder->found[0].address ||
	    target >= finder->found[finder->count - 1].address + LIMPET_ENTRY_MOVED_MAX)
		return false;
	for (size_t i = 0; i < finder->count; i++) {
		const struct limpet_entry_code *code = &finder->found[i].code;

		if (target > code->from - code->stays &&
		    target < code->from + code->original_bytes) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* 0; 1: such a jump; -errno. */
static int find_short_jump(const struct limpet_entry_finder *finder,
			   const struct limpet_entry *entry)
{
	const struct limpet_module *module = finder->module;
	const struct limpet_entry_code *moved = &entry->code;
	const uint64_t low = moved->from - module->text_start,
		       high = module->text_end - moved->from;
	struct limpet_entry_surroundings around = {
		.address = moved->from -
			   (low < LIMPET_SURROUNDINGS_REACH ? low : LIMPET_SURROUNDINGS_REACH),
		.own = entry->address,
		.own_bytes = entry->bytes,
		.moved = moved->from - moved->stays,
		.moved_bytes = moved->stays + moved->original_bytes,
	};
	uint8_t code[2 * LIMPET_SURROUNDINGS_REACH];
	const uint64_t above = high < LIMPET_SURROUNDINGS_REACH ? high : LIMPET_SURROUNDINGS_REACH;
	const uint64_t end = moved->from + moved->original_bytes;
	ssize_t got;

	around.bytes = moved->from + above - around.address;
	if (!limpet_module_spend(module, around.bytes))
		return -ENOTSUP;
	got = limpet_module_read_some(finder->modules->target, module, around.address, code,
				      around.bytes);
	/* Between the segments of the module there may be nothing. */
	if (got < (ssize_t)(end - around.address) && around.address < moved->from / PAGE * PAGE) {
		around.address = moved->from / PAGE * PAGE;
		got = limpet_module_read_some(finder->modules->target, module, around.address, code,
					      moved->from + above - around.address);
	}
	if (got < (ssize_t)(end - around.address))
		return -ENOTSUP;
	around.bytes = (uint64_t)got;
	return limpet_entry_code_may_be_jumped_into(&around, code)
		       ? limpet_code_reader_jumps(finder->reader, &around, code)
		       : 0;
}

/* The same for jumps with a displacement of a byte, which are too many to be taken for what they
 * look like. */
static int check_short_jumps(struct limpet_entry_finder *finder)
{
	for (size_t i = 0; i < finder->count;) {
		struct limpet_entry *entry = &finder->found[i];
		const int found = entry->code.kind == LIMPET_ENTRY_FUNCTION
					  ? find_short_jump(finder, entry)
					  : 0;

		if (found == -ENOMEM)
			return found;
		if (!found) {
			i++;
			continue;
		}
		if (refuse(finder, entry,
			   found > 0 ? "another function jumps into its beginning"
				     : "the code around it cannot be read") &&
		    (limpet_op_releases(entry->what.op) || entry->what.family == LIMPET_ENTRY_POOL))
			return -ENOTSUP;
		drop(finder, i);
	}
	return 0;
}

static int check_jumps(struct limpet_entry_finder *finder)
{
	const size_t longest = 6;
	const struct limpet_module *module = finder->module;
	LIMPET_FREE uint8_t *code = malloc(WINDOW + longest);

	if (!code)
		return -ENOMEM;
	if (!limpet_module_spend(module, module->text_end - module->text_start))
		return -EFBIG;
	for (uint64_t at = module->text_start; at < module->text_end; at += WINDOW) {
		ssize_t got = limpet_module_read_some(finder->modules->target, module, at, code,
						      WINDOW + longest);

		for (ssize_t i = 0; i + (ssize_t)longest <= got && finder->count; i++) {
			size_t index;

			if (!is_jumped_into(finder, code + i, at + (uint64_t)i, &index))
				continue;
			if (refuse(finder, &finder->found[index],
				   "a jump leads into its beginning") &&
			    limpet_op_releases(finder->found[index].what.op))
				return -ENOTSUP;
			drop(finder, index);
		}
	}
	return 0;
}

/* A fully static program has one malloc: libc's is local, unless another function has that name,
 * too. */
static bool is_of_libc(const struct limpet_entry_finder *finder, size_t index)
{
	if (!finder->modules->fully_static)
		return false;
	for (size_t i = 0; i < finder->count; i++)
		if (i != index && !strcmp(finder->found[i].name, finder->found[index].name))
			return false;
	return true;
}

/* An allocator has many names for the same thing; functions that the user named form a group of
 * their own. */
static unsigned group_of(const struct limpet_entry_name *what)
{
	return what->family < LIMPET_ENTRY_LISTED ? LIMPET_ENTRY_PLAIN : what->family;
}

/* Functions of a group that can release nothing, or allocate nothing, are not an allocator's. */
static void drop_halves(struct limpet_entry_finder *finder)
{
	unsigned releases[LIMPET_ENTRY_FAMILIES] = {0}, allocates[LIMPET_ENTRY_FAMILIES] = {0};

	for (size_t i = 0; i < finder->count; i++) {
		const struct limpet_entry_name *what = &finder->found[i].what;

		releases[group_of(what)] += limpet_op_releases(what->op);
		allocates[group_of(what)] += what->op != LIMPET_OP_FREE &&
					     what->op < LIMPET_OP_NOTED &&
					     what->op != LIMPET_OP_INSIDE;
	}
	for (size_t i = 0; i < finder->count;) {
		unsigned group = group_of(&finder->found[i].what);

		if (releases[group] && allocates[group])
			i++;
		else
			drop(finder, i);
	}
}

/* Without this hook exceptions cannot pass the agent: then functions that throw are not hooked, and
 * nothing is missed. 0, -ENOMEM. */
static int add_tables_function(struct limpet_entry_finder *finder, uint64_t place)
{
	struct limpet_entry *entry = &finder->found[finder->count];
	int error;

	if (!finder->tables || finder->count == LIMPET_MAX_ENTRIES ||
	    finder->tables_bytes > MAX_FUNCTION_BYTES)
		return 0;
	*entry = (struct limpet_entry){
		.address = finder->tables,
		.bytes = finder->tables_bytes,
		.what = {.family = LIMPET_ENTRY_FINDER,
			 .op = LIMPET_OP_FINDER,
			 .symbol = limpet_family_first(LIMPET_OP_FINDER)},
		.name = TABLES_FUNCTION,
		.listed = -1,
	};
	error = check_code(finder, entry, place);
	finder->count += !error;
	return error == -ENOMEM ? error : 0;
}

/* Whether calls of the function are calls of `other`, and may be taken for these alone. */
static bool may_stand_for(const struct limpet_entry *other, const struct limpet_entry *entry)
{
	return other != entry && other->what.op == entry->what.op && entry->listed < 0 &&
	       group_of(&other->what) == group_of(&entry->what) &&
	       entry->what.family != LIMPET_ENTRY_POOL && other->what.family != LIMPET_ENTRY_POOL;
}

/* The function that one of them leads to, by short jumps alone; NULL: none, or in a circle. */
static struct limpet_entry *find_destination(const struct limpet_entry_finder *finder,
					     struct limpet_entry *entry)
{
	uint64_t target;

	for (size_t steps = 0; entry && steps < finder->count; steps++) {
		struct limpet_entry *next = NULL;

		if (!is_short_jump(finder, entry, &target))
			return entry;
		for (size_t i = 0; i < finder->count && !next; i++)
			if (finder->found[i].address == target)
				next = &finder->found[i];
		entry = next;
	}
	return NULL;
}

/* Functions whose every call is a call of another one that is hooked. */
static void drop_jumps(struct limpet_entry_finder *finder)
{
	bool needless[LIMPET_MAX_ENTRIES] = {false};

	for (size_t i = 0; i < finder->count; i++) {
		struct limpet_entry *entry = &finder->found[i];
		struct limpet_entry *destination = find_destination(finder, entry);

		needless[i] = destination && may_stand_for(destination, entry);
		if (needless[i])
			destination->jumps++;
	}
	for (size_t i = finder->count; i-- > 0;)
		if (needless[i])
			drop(finder, i);
}

/* Static functions of the program that happen to have such a name. But if libc is linked in, some
 * of its own functions are local, too; of two local ones libc's is the later one. */
static void drop_others(struct limpet_entry_finder *finder)
{
	for (size_t i = 0; i < finder->count;) {
		if (finder->found[i].what.only_exported && !finder->inside &&
		    !is_of_libc(finder, i))
			drop(finder, i);
		else
			i++;
	}
}

int limpet_entry_check(struct limpet_entry_finder *finder, uint64_t place)
{
	int error;

	drop_others(finder);
	drop_jumps(finder);
	for (size_t i = 0; i < finder->count;) {
		struct limpet_entry *entry = &finder->found[i];

		error = check_code(finder, entry, place);
		/* A pool is hooked completely or not at all: what it gets from malloc would
		 * otherwise count as well. */
		if (error == -ENOTSUP && !limpet_op_releases(entry->what.op) &&
		    entry->what.family != LIMPET_ENTRY_POOL) {
			drop(finder, i);
			continue;
		}
		/* All or nothing: a block whose release is not seen would be reported as a leak. */
		if (error)
			return error;
		i++;
	}
	drop_halves(finder);
	if (!finder->count)
		return -ENOENT;
	error = add_tables_function(finder, place);
	if (error)
		return error;
	qsort(finder->found, finder->count, sizeof(finder->found[0]), compare_entries);
	error = check_short_jumps(finder);
	return error ? error : check_jumps(finder);
}
