#include "injector/elf/entry_nim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"
#include "injector/elf/modules_memory.h"
#include "injector/elf/nim_code.h"
#include "injector/proc/target_process.h"

#define WINDOW (1u << 20)
#define MAX_SITES 1024u
#define MAX_FUNCTION_BYTES 262144u

/* Functions that return their block, or the data in it after a header, and the index of the size
 * among their arguments, if it is one: Nim's own count includes the header. */
static const struct word {
	const char *name;
	int size;
} words[] = {
	{"rawAlloc", 1},
	{"rawAlloc0", 1},
	{"alloc", 1},
	{"alloc0", 1},
	{"realloc", 2},
	{"realloc0", 3},
	{"allocImpl", 0},
	{"alloc0Impl", 0},
	{"reallocImpl", 1},
	{"realloc0Impl", 2},
	{"allocSharedImpl", 0},
	{"allocShared0Impl", 0},
	{"reallocSharedImpl", 1},
	{"reallocShared0Impl", 2},
	{"allocShared", 0},
	{"allocShared0", 0},
	{"alignedAlloc", 0},
	{"alignedAlloc0", 0},
	{"newObj", 1},
	{"newObjRC1", 1},
	{"newObjNoInit", 1},
	{"rawNewObj", 1},
	{"nimNewObj", 0},
	{"nimNewObjUninit", 0},
	{"rawNewStringNoInit", -1},
	{"newSeq", -1},
	{"newSeqRC1", -1},
	{"nimNewSeqOfCap", -1},
	{"newSeqPayload", -1},
};

struct search {
	const struct limpet_target *target;
	const struct limpet_module *module;
	struct limpet_nim_targets targets;
	uint64_t sites[MAX_SITES]; /* instructions that may lead to them, sorted by address */
	bool is_listed[MAX_SITES];
	size_t site_count;
	unsigned releases;
	bool has_threads, has_heaps;
	struct limpet_code_reader *reader;
	struct limpet_nim_places *places;
	int error;
};

/* "rawAlloc__system_5080.constprop.0": returns the length of the first word, or -1 if the rest is
 * not Nim's. *ret_clone: its arguments may differ. */
static int base_of(const char *name, bool *ret_clone)
{
	const char *dot = strchr(name, '.'), *end = strstr(name, "__system_");

	*ret_clone = dot && strncmp(dot, ".lto_priv.", 10) != 0;
	if (end)
		return (int)(end - name);
	return dot ? (int)(dot - name) : (int)strlen(name);
}

static bool starts_with(const char *text, const char *head)
{
	return !strncmp(text, head, strlen(head));
}

static bool is_part(const char *name)
{
	return strstr(name, ".cold") || strstr(name, ".part.");
}

/* ---------------------------------------------------------------- what copies call */

static bool visit_target(void *context, const struct limpet_elf_function *function)
{
	struct search *search = context;
	struct limpet_nim_targets *targets = &search->targets;
	uint64_t address = search->module->bias + function->value;

	if (address < search->module->text_start || address >= search->module->text_end)
		return true;
	if ((starts_with(function->name, "getBigChunk__system_") ||
	     starts_with(function->name, "getSmallChunk__system_")) &&
	    targets->get_count < LIMPET_NIM_TARGETS_MAX)
		targets->get[targets->get_count++] = address;
	search->has_threads |= starts_with(function->name, "threadProcWrapper__");
	search->has_heaps |= starts_with(function->name, "rawNewObj__system_");
	if (starts_with(function->name, "freeBigChunk__system_") &&
	    targets->put_count < LIMPET_NIM_TARGETS_MAX)
		targets->put[targets->put_count++] = address;
	return true;
}

static int find_sites(struct search *search)
{
	const size_t longest = 6;
	const struct limpet_module *module = search->module;
	LIMPET_FREE uint8_t *code = malloc(WINDOW + longest);

	if (!code)
		return -ENOMEM;
	if (!limpet_module_spend(module, module->text_end - module->text_start))
		return -ENOTSUP;
	for (uint64_t at = module->text_start; at < module->text_end; at += WINDOW) {
		ssize_t got =
			limpet_module_read_some(search->target, module, at, code, WINDOW + longest);

		for (ssize_t i = 0; i + (ssize_t)longest <= got && i < WINDOW; i++) {
			if (!limpet_nim_code_leads(code + i, at + (uint64_t)i, &search->targets))
				continue;
			if (search->site_count == MAX_SITES)
				return -ENOTSUP;
			search->sites[search->site_count++] = at + (uint64_t)i;
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- the functions with copies */

static int refuse(struct search *search, const char *name, const char *why)
{
	snprintf(search->places->why, sizeof(search->places->why), "%.80s: %s", name, why);
	return -ENOTSUP;
}

static int add(struct search *search, const struct limpet_nim_place *place, const char *name)
{
	struct limpet_nim_places *places = search->places;

	for (size_t i = 0; i < places->count; i++)
		if (places->list[i].address == place->address)
			return 0;
	if (places->count == LIMPET_NIM_PLACES_MAX)
		return refuse(search, name, "there are too many copies of Nim's allocator");
	places->list[places->count] = *place;
	snprintf(places->list[places->count].name, sizeof(places->list[0].name), "%s", name);
	places->count++;
	return 0;
}

/* Adds a function's copies of rawDealloc: all of them or none. */
static int add_releases(struct search *search, const char *name, const struct limpet_nim_code *code)
{
	unsigned whole = (unsigned)code->page_count, more = code->small - 2 * whole;
	int error = 0;

	/* realloc gets the size of the block that it will release from the same page. */
	if (!whole || code->huge != whole || more > starts_with(name, "realloc") || is_part(name))
		return refuse(search, name, "a copy of rawDealloc that is not as expected");
	for (size_t i = 0; i < code->page_count && !error; i++)
		error = add(search,
			    &(struct limpet_nim_place){
				    .address = code->pages[i].address,
				    .bytes = code->pages[i].bytes,
				    .kind = LIMPET_ENTRY_PROBE,
				    .op = LIMPET_OP_FREE,
				    .hook_flags = LIMPET_HOOK_NIM | LIMPET_HOOK_PROBE |
						  LIMPET_HOOK_REGISTER_FLAG(code->pages[i].reg),
			    },
			    name);
	search->releases += whole;
	return error;
}

/* Large blocks only: the lists of Nim's collector. */
static int add_calls(struct search *search, const char *name, const struct limpet_nim_code *code)
{
	int error = 0;

	for (size_t i = 0; i < code->call_count && !error; i++) {
		if (code->calls[i].size == LIMPET_NIM_SMALL_CHUNK)
			continue;
		error = add(search,
			    &(struct limpet_nim_place){
				    .address = code->calls[i].address,
				    .bytes = LIMPET_ENTRY_JUMP_BYTES,
				    .kind = LIMPET_ENTRY_CALL,
				    .op = LIMPET_OP_MALLOC,
				    .hook_flags = LIMPET_HOOK_NIM | LIMPET_HOOK_SIZELESS,
			    },
			    name);
	}
	return error;
}

/* Whether the function allocates only blocks of constant sizes, none of them small; or only the
 * initial buffer of such a list, which is never small. */
static bool makes_large_only(const char *name, const struct limpet_nim_code *code)
{
	if (code->call_count != code->gets)
		return false;
	if (starts_with(name, "init__system_"))
		return true;
	for (size_t i = 0; i < code->call_count; i++)
		if (!code->calls[i].size || code->calls[i].size == LIMPET_NIM_SMALL_CHUNK)
			return false;
	return true;
}

static const struct word *find_word(const char *name, int length)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(words); i++)
		if ((int)strlen(words[i].name) == length &&
		    !strncmp(words[i].name, name, (size_t)length))
			return &words[i];
	return NULL;
}

static int add_allocations(struct search *search, const struct limpet_elf_function *function,
			   const struct limpet_nim_code *code)
{
	bool is_clone;
	int length = base_of(function->name, &is_clone);
	const struct word *word =
		is_part(function->name) ? NULL : find_word(function->name, length);
	struct limpet_nim_place place = {
		.address = search->module->bias + function->value,
		.bytes = function->bytes,
		.kind = LIMPET_ENTRY_FUNCTION,
		.op = LIMPET_OP_MALLOC,
		.hook_flags = LIMPET_HOOK_NIM,
	};

	if (starts_with(function->name, "getSmallChunk__system_"))
		return 0;
	if (makes_large_only(function->name, code))
		return add_calls(search, function->name, code);
	if (starts_with(function->name, "nimPrepareStrMutationImpl__system_") && !is_clone) {
		place.op = LIMPET_OP_POSIX_MEMALIGN;
		place.hook_flags |= LIMPET_HOOK_SIZELESS;
		return add(search, &place, function->name);
	}
	/* For a constant size the function has only half of a copy. */
	if (!word || (code->huge != 1 && (code->huge || code->gets != 1))) {
		search->places->unseen++;
		return 0;
	}
	place.hook_flags |= word->size < 0 || is_clone ? LIMPET_HOOK_SIZELESS
						       : LIMPET_HOOK_SKIP_FLAG(word->size);
	return add(search, &place, function->name);
}

static bool has_site(struct search *search, uint64_t address, uint64_t bytes)
{
	bool any = false;

	for (size_t i = 0; i < search->site_count; i++)
		if (search->sites[i] - address < bytes && !search->is_listed[i]) {
			search->is_listed[i] = true;
			any = true;
		}
	return any;
}

static int read_function(struct search *search, const struct limpet_elf_function *function)
{
	uint64_t address = search->module->bias + function->value;
	LIMPET_FREE uint8_t *bytes = malloc(function->bytes);
	struct limpet_nim_code code;
	int error;

	if (!bytes)
		return -ENOMEM;
	if (!limpet_module_spend(search->module, function->bytes) ||
	    limpet_module_read(search->target, search->module, address, bytes, function->bytes) < 0)
		return refuse(search, function->name, "its code cannot be read");
	error = limpet_code_reader_nim(search->reader, bytes, function->bytes, address,
				       &search->targets, &code);
	if (error)
		return error == -ENOMEM
			       ? error
			       : refuse(search, function->name, "code that is not understood");
	if (code.puts && code.gets && !makes_large_only(function->name, &code))
		return refuse(search, function->name, "copies that cannot be told apart");
	if (code.puts)
		error = add_releases(search, function->name, &code);
	if (code.puts && code.gets && !error)
		return add_calls(search, function->name, &code);
	return error || !code.gets ? error : add_allocations(search, function, &code);
}

static bool visit_function(void *context, const struct limpet_elf_function *function)
{
	struct search *search = context;
	const struct limpet_module *module = search->module;
	uint64_t address = module->bias + function->value;

	if (address < module->text_start || address >= module->text_end || !function->bytes ||
	    function->bytes > MAX_FUNCTION_BYTES || !has_site(search, address, function->bytes))
		return !search->error;
	search->error = read_function(search, function);
	return !search->error;
}

int limpet_entry_nim_find(const struct limpet_target *target, const struct limpet_module *module,
			  struct limpet_elf_file *file, struct limpet_code_reader *reader,
			  struct limpet_nim_places *ret)
{
	LIMPET_FREE struct search *search = calloc(1, sizeof(*search));
	int error;

	if (!search)
		return -ENOMEM;
	memset(ret, 0, sizeof(*ret));
	search->target = target;
	search->module = module;
	search->reader = reader;
	search->places = ret;
	limpet_elf_file_functions(file, visit_target, search);
	if (!search->targets.get_count && !search->targets.put_count)
		return -ENOENT;
	error = find_sites(search);
	if (error)
		return error == -ENOMEM ? error
					: refuse(search, "rawAlloc", "too many copies of it");
	limpet_elf_file_functions(file, visit_function, search);
	if (search->error)
		return search->error;
	for (size_t i = 0; i < search->site_count; i++)
		if (!search->is_listed[i])
			return refuse(search, "freeBigChunk", "called from code without a name");
	ret->thread_heaps = search->has_threads && search->has_heaps;
	if (!search->releases || !ret->count)
		return refuse(search, "rawDealloc", "none is there");
	return 0;
}
