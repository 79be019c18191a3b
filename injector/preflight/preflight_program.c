/* Preflight: what kind of program this is, and whether its allocators can be followed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <unistd.h>

#include "common/open_file.h"
#include "injector/hook/plan.h"
#include "injector/image/entry_find.h"
#include "injector/image/memory_owners.h"
#include "injector/image/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"
#include "injector/proc/memory.h"

/* ------------------------------------------------------------------ what executables contain */

struct cache_entry {
	dev_t device;
	ino_t inode;
	struct timespec changed;
	struct limpet_program program;
};

struct limpet_preflight_cache {
	struct cache_entry *list;
	size_t count, room;
};

struct limpet_preflight_cache *limpet_preflight_cache_new(void)
{
	return calloc(1, sizeof(struct limpet_preflight_cache));
}

void limpet_preflight_cache_free(struct limpet_preflight_cache *cache)
{
	if (cache)
		free(cache->list);
	free(cache);
}

static const struct limpet_program *cache_find(const struct limpet_preflight_cache *cache,
					       const struct stat *st)
{
	for (size_t i = 0; cache && i < cache->count; i++)
		if (cache->list[i].inode == st->st_ino && cache->list[i].device == st->st_dev &&
		    !memcmp(&cache->list[i].changed, &st->st_ctim, sizeof(st->st_ctim)))
			return &cache->list[i].program;
	return NULL;
}

/* Forgetting is no error. */
static void cache_add(struct limpet_preflight_cache *cache, const struct stat *st,
		      const struct limpet_program *program)
{
	if (!cache)
		return;
	if (cache->count == cache->room) {
		size_t room = cache->room ? cache->room * 2 : 64;
		struct cache_entry *larger = realloc(cache->list, room * sizeof(*larger));

		if (!larger)
			return;
		cache->list = larger;
		cache->room = room;
	}
	cache->list[cache->count++] =
		(struct cache_entry){st->st_dev, st->st_ino, st->st_ctim, *program};
}

static int program_read(struct limpet_check *check, struct limpet_program *ret_program)
{
	const struct limpet_program *known;
	LIMPET_CLOSE int fd = -1;
	char process[PATH_MAX];
	struct stat st;
	int r;

	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root, check->resident);
	fd = limpet_open_linked(process, "exe", &st);
	if (fd < 0)
		return fd;
	known = cache_find(check->options.cache, &st);
	if (known) {
		*ret_program = *known;
		return 0;
	}
	r = limpet_program_read(fd, ret_program);
	if (r == 0)
		cache_add(check->options.cache, &st, ret_program);
	return r;
}

/* ------------------------------------------------------------------ the C library */

static bool base_is(const char *path, const char *prefix)
{
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, prefix, strlen(prefix));
}

/* "libc.so.6", "libc-2.31.so"; musl's loader is its library. */
static bool path_is_libc(const char *path)
{
	return base_is(path, "libc.so") || base_is(path, "libc-2.") || base_is(path, "ld-musl-") ||
	       base_is(path, "libc.musl-");
}

/* Looks for `needle` in a read-only map of the target, and copies what follows it. From memory: the
 * file may have been upgraded since. */
static bool map_search(struct limpet_check *check, const struct limpet_map *map, const char *needle,
		       char *ret, size_t room)
{
	size_t bytes = (size_t)(map->end - map->start);
	LIMPET_FREE char *copy = NULL;
	ssize_t got;
	char *at;

	if (map->perms[0] != 'r' || map->perms[1] == 'w' || bytes > (size_t)16 << 20)
		return false;
	copy = malloc(bytes + 1);
	if (!copy)
		return false;
	got = limpet_memory_read_some(check->pid, map->start, copy, bytes);
	if (got <= 0)
		return false;
	copy[got] = '\0';
	at = memmem(copy, (size_t)got, needle, strlen(needle));
	if (!at)
		return false;
	snprintf(ret, room, "%s", at + strlen(needle));
	return true;
}

/* The leading "2.36" or "1.2.3" of `text`. */
static void take_version(const char *text, char *ret, size_t room)
{
	size_t length = strspn(text, "0123456789.");

	while (length && text[length - 1] == '.')
		length--;
	if (length < room) {
		memcpy(ret, text, length);
		ret[length] = '\0';
	}
}

/* glibc's banner (csu/version.c): "GNU C Library (Debian GLIBC 2.36-9) stable release version
 * 2.36." musl's (ldso/dynlink.c): "musl libc (x86_64)\nVersion %s\n", its number stands apart. */
static void libc_version(struct limpet_check *check, const char *kind, char *ret, size_t room)
{
	char banner[160] = "", version[24] = "";
	unsigned tries = 16; /* anybody may give his files such a name */

	/* texts stand in a map without code, but before binutils 2.31 all was in one */
	for (size_t i = 0; i < 2 * check->maps.count && !version[0] && tries; i++) {
		const struct limpet_map *map = &check->maps.list[i % check->maps.count];
		const char *at;

		if (!path_is_libc(map->path) || (map->perms[2] == 'x') != (i >= check->maps.count))
			continue;
		tries--;
		if (!map_search(check, map, "GNU C Library ", banner, sizeof(banner)))
			continue;
		at = strstr(banner, "release version ");
		if (at)
			take_version(at + strlen("release version "), version, sizeof(version));
	}
	snprintf(ret, room, "%s%s%s", kind, version[0] ? " " : "", version);
}

/* Answers "glibc", "musl"..., NULL when the program is dynamic but its library is not known. */
static const char *libc_kind(const struct limpet_check *check, const struct limpet_program *program,
			     bool *ret_mapped)
{
	bool glibc = false, musl = false;

	for (size_t i = 0; i < check->maps.count; i++) {
		const char *path = check->maps.list[i].path;

		if (base_is(path, "libc.so.6") || base_is(path, "libc-2."))
			glibc = true;
		else if (path_is_libc(path))
			musl = true;
	}
	*ret_mapped = glibc || musl;
	if (glibc)
		return "glibc";
	if (musl || strstr(program->interpreter, "ld-musl-"))
		return "musl";
	/* stopped before the loader has mapped it; a wrapper may have the loader as its executable
	 */
	if (strstr(program->interpreter, "ld-linux"))
		return "glibc";
	return NULL;
}

static bool is_go(const struct limpet_program *program)
{
	return program->own_allocator && !strcmp(program->own_allocator, "the Go runtime");
}

/* Its allocator is hooked where its functions begin, or not at all. */
static void check_static(struct limpet_check *check, const struct limpet_program *program)
{
	const char *what = program->own_allocator ? program->own_allocator : program->static_libc;

	if (is_go(program) && !program->own_entries) {
		limpet_check_refuse(
			check, -ENOTSUP, "static", "static",
			"it is a Go program without C code to be seen: all of its memory is in "
			"Go's own heap");
		limpet_check_hint(check, "Go has a profiler of its own: go tool pprof");
		return;
	}
	if (!program->own_entries) {
		limpet_check_refuse(check, -ENOTSUP, "static", "static",
				    "it is fully static%s%s%s, and no names are left in it by "
				    "which its allocator could be found",
				    what ? " (" : "", what ? what : "", what ? ")" : "");
		limpet_check_hint(check, "a build that is not stripped works");
		return;
	}
	snprintf(check->out->libc, sizeof(check->out->libc), "%s, static",
		 program->static_libc ? program->static_libc : "libc");
	limpet_check_add(check, LIMPET_FINDING_OK, "libc", "",
			 "C library: %s, linked into the executable",
			 program->static_libc ? program->static_libc : "unknown");
}

static void check_libc(struct limpet_check *check, const struct limpet_program *program)
{
	bool mapped;
	const char *kind = libc_kind(check, program, &mapped);

	if (!kind && !program->interpreter[0]) {
		check_static(check, program);
		return;
	}
	if (!kind) {
		limpet_check_refuse(check, -ENOTSUP, "libc", "unknown libc",
				    "its C library is neither glibc nor musl (its loader is %s)",
				    program->interpreter);
		limpet_check_hint(check, "a build of the program for glibc works");
		return;
	}
	libc_version(check, kind, check->out->libc, sizeof(check->out->libc));
	limpet_check_add(check, LIMPET_FINDING_OK, "libc", "", "C library: %s%s", check->out->libc,
			 mapped ? "" : " (not loaded yet)");
}

/* ------------------------------------------------------------------ allocators */

static void append(char *list, size_t room, const char *word)
{
	size_t used = strlen(list);

	if (!strstr(list, word))
		snprintf(list + used, room - used, "%s%s", used ? ", " : "", word);
}

/* Its functions can be hooked where they begin: answers how many, 0: none; then why_not may say
 * why.
 */
static size_t count_entries(const struct limpet_check *check, const struct limpet_program *program,
			    unsigned *ret_refused, bool *ret_thread_heaps, char *why_not,
			    size_t room)
{
	const struct limpet_entry_list *list = check->options.entry_list;
	struct limpet_plan plan = {0};
	struct limpet_entries entries;
	struct limpet_modules modules;
	size_t count;

	*ret_refused = 0;
	*ret_thread_heaps = false;
	if (!limpet_allocator_has_entries(program))
		return 0;
	/* For a list the names have to do. */
	if (check->options.quick)
		return 1;
	/* Without the right to read its memory that was said already. */
	if (check->out->verdict != LIMPET_PREFLIGHT_OK ||
	    limpet_modules_read(check->pid, &modules, NULL) < 0)
		return 0;
	if (limpet_entries_find(&modules, list, &entries) < 0) {
		limpet_modules_done(&modules);
		return 0;
	}
	if (limpet_plan_find_loader(&modules, check->options.load, &plan, NULL) == 0 &&
	    plan.mapped && !limpet_plan_passes_exceptions(&modules, &entries))
		limpet_entries_leave_operators(&entries);
	count = entries.program ? entries.count - entries.families[LIMPET_ENTRY_LISTED] -
					  entries.families[LIMPET_ENTRY_FINDER]
				: 0;
	*ret_refused = entries.refused;
	*ret_thread_heaps = entries.thread_heaps;
	if (!count && entries.why[0])
		snprintf(why_not, room, " (%s)", entries.why);
	limpet_entries_done(&entries);
	limpet_modules_done(&modules);
	return count;
}

static void say_hooked(struct limpet_check *check, const char *name, size_t count, unsigned refused)
{
	if (!check->options.quick)
		limpet_check_add(check, LIMPET_FINDING_OK, "allocator", "",
				 "%s is linked into the executable: %zu function%s hooked where %s",
				 name, count, count == 1 ? " is" : "s are",
				 count == 1 ? "it begins" : "they begin");
	if (refused)
		limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
				 "%u of its functions cannot be hooked: what they hand out stays "
				 "unseen, and the trace will not be complete",
				 refused);
}

/* The share of what no allocator that is followed can hold. */
static void note_unseen(struct limpet_check *check, char *ret, size_t room)
{
	uint64_t unseen_bytes, rss_bytes;

	check->out->unseen_rss_share = 1.0;
	ret[0] = '\0';
	if (check->options.quick || limpet_unseen_rss(check->pid, &unseen_bytes, &rss_bytes) < 0 ||
	    !rss_bytes)
		return;
	check->out->unseen_rss_share = (double)unseen_bytes / (double)rss_bytes;
	/* At its entry point it holds nothing yet. */
	if (check->options.launched)
		return;
	snprintf(ret, room, ": up to %.0f%% of its resident memory",
		 100.0 * check->out->unseen_rss_share);
}

/* Built with -d:useMalloc it has no allocator of its own; that cannot be told from outside. */
static void check_nameless_nim(struct limpet_check *check)
{
	char share[64];

	note_unseen(check, share, sizeof(share));
	limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", "Nim, stripped",
			 "it is a Nim program without names: what Nim's own allocator holds stays "
			 "unseen%s",
			 share);
	limpet_check_hint(check, "a program that is not stripped, or built with -d:useMalloc, "
				 "shows every block");
}

/* Its blocks end without a call; and most are cut from larger ones in the program itself. */
static void check_garbage_collector(struct limpet_check *check, const char *name)
{
	char share[64];

	append(check->out->allocators, sizeof(check->out->allocators), name);
	note_unseen(check, share, sizeof(share));
	limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
			 "%s is loaded as a library: what it holds stays unseen%s", name, share);
}

/* Its C side (cgo) is that of any other program. */
static void check_go(struct limpet_check *check, const struct limpet_program *program)
{
	char share[64], why_not[208] = "";
	bool thread_heaps;
	unsigned refused;
	size_t hooked =
		count_entries(check, program, &refused, &thread_heaps, why_not, sizeof(why_not));

	if (hooked)
		say_hooked(check, "its C library", hooked, refused);
	note_unseen(check, share, sizeof(share));
	limpet_check_add(
		check, LIMPET_FINDING_WARNING, "allocator", "Go",
		"it is a Go program: what its C code allocates (cgo) is followed, Go's own "
		"heap stays unseen%s%s",
		share, why_not);
	limpet_check_hint(check, "Go has a profiler of its own for the rest: go tool pprof");
}

static void check_own_allocator(struct limpet_check *check, const struct limpet_program *program)
{
	const char *name = program->own_allocator;
	char share[64] = "", why_not[208] = "";
	bool thread_heaps;
	unsigned refused;
	size_t hooked;

	if (!name && program->own_malloc)
		name = program->interpreter[0] ? "its own malloc" : "its malloc";
	if (!name && program->is_nim)
		check_nameless_nim(check);
	if (!name && program->own_pools) {
		hooked = count_entries(check, program, &refused, &thread_heaps, why_not,
				       sizeof(why_not));
		if (hooked)
			say_hooked(check, "a pool that reports itself (limpet.h)", hooked, refused);
	} else if (!name && program->own_operators) {
		hooked = count_entries(check, program, &refused, &thread_heaps, why_not,
				       sizeof(why_not));
		if (hooked)
			say_hooked(check, "a replacement of operator new and delete", hooked,
				   refused);
	}
	if (!name)
		return;
	append(check->out->allocators, sizeof(check->out->allocators), name);
	if (is_go(program)) {
		check_go(check, program);
		return;
	}
	hooked = count_entries(check, program, &refused, &thread_heaps, why_not, sizeof(why_not));
	if (hooked) {
		say_hooked(check, name, hooked, refused);
		if (thread_heaps)
			limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
					 "each of its threads has a heap of its own: what is in it "
					 "when the thread ends is not seen released, and the trace "
					 "will not be complete");
		return;
	}
	note_unseen(check, share, sizeof(share));
	if (check->options.partial) {
		limpet_check_add(check, LIMPET_FINDING_WARNING, "allocator", name,
				 "%s is linked into the executable, and what it holds stays "
				 "unseen%s%s",
				 name, share, why_not);
		return;
	}
	limpet_check_refuse(check, -ENOTSUP, "allocator", name,
			    "%s is linked into the executable, out of limpet's reach%s%s", name,
			    share, why_not);
	limpet_check_hint(check, "--partial captures what goes through the C library all the same");
}

/* Those of the list that lack a mark; answers how many. */
static size_t list_missing(const struct limpet_entry_list *list, const bool *marks, char *ret,
			   size_t room)
{
	size_t count = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < list->count; i++) {
		if (marks[i])
			continue;
		count++;
		append(ret, room, list->list[i].name);
	}
	return count;
}

/* What was asked for by name has to be there. */
static void check_listed(struct limpet_check *check)
{
	const struct limpet_entry_list *list = check->options.entry_list;
	struct limpet_entries entries;
	struct limpet_modules modules;
	char missing[160];

	if (!list || check->options.quick || check->out->verdict != LIMPET_PREFLIGHT_OK ||
	    limpet_modules_read(check->pid, &modules, NULL) < 0)
		return;
	if (limpet_entries_find(&modules, list, &entries) < 0) {
		limpet_modules_done(&modules);
		return;
	}
	if (list_missing(list, entries.is_there, missing, sizeof(missing))) {
		limpet_check_refuse(check, -ENOENT, "alloc-functions", "functions not found",
				    "functions that were named are not there: %s", missing);
		limpet_check_hint(check, "see what there is: nm --defined-only FILE");
	} else if (list_missing(list, entries.is_taken, missing, sizeof(missing))) {
		limpet_check_refuse(check, -ENOTSUP, "alloc-functions", "functions not hooked",
				    "functions that were named cannot be hooked: %s%s%.100s%s",
				    missing, entries.why[0] ? " (" : "", entries.why,
				    entries.why[0] ? ")" : "");
		limpet_check_hint(check, "name other functions of that allocator");
	} else {
		limpet_check_add(check, LIMPET_FINDING_OK, "alloc-functions", "",
				 list->count == 1
					 ? "the function that was named is hooked where it begins"
					 : "all %zu functions that were named are hooked where "
					   "they begin",
				 list->count);
	}
	limpet_entries_done(&entries);
	limpet_modules_done(&modules);
}

static void check_libraries(struct limpet_check *check, const struct limpet_program *program)
{
	const char *runtime = program->runtime, *note = program->runtime_note;

	if (check->out->libc[0])
		append(check->out->allocators, sizeof(check->out->allocators), check->out->libc);
	for (size_t i = 0; i < check->maps.count; i++) {
		const struct limpet_map *map = &check->maps.list[i];
		const char *name;

		/* once a library is enough: its first map */
		if (map->offset || map->path[0] != '/')
			continue;
		name = limpet_allocator_of_library(map->path);
		if (name && !strstr(check->out->allocators, name)) {
			append(check->out->allocators, sizeof(check->out->allocators), name);
			limpet_check_add(check, LIMPET_FINDING_OK, "allocator-library", "",
					 "%s is loaded as a library, and is followed", name);
		}
		name = limpet_garbage_collector_of_library(map->path);
		if (name && !strstr(check->out->allocators, name))
			check_garbage_collector(check, name);
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

/* One that glibc's lists do not show: before 2.35 it had none of other namespaces. */
static void check_other_libcs(struct limpet_check *check, struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *name = strrchr(module->path, '/');

		if (module->in_list || !name || strcmp(name, "/libc.so.6") != 0)
			continue;
		limpet_check_add(check, LIMPET_FINDING_WARNING, "other-libc", "a second libc",
				 "it has modules in a namespace of their own (dlmopen) that its C "
				 "library does not show: what they allocate is not seen");
		return;
	}
}

/* From memory, so that it is the library that runs, not the one that was installed since. A program
 * whose list of modules cannot be read, or that is only starting, stays without a word: then the
 * attach says so. */
static int check_way(struct limpet_check *check)
{
	struct limpet_plan plan = {0};
	struct limpet_modules modules;
	struct limpet_err err = {0};
	int r;

	/* Without the right to read its memory that was said already. */
	if (check->options.quick || check->out->verdict != LIMPET_PREFLIGHT_OK)
		return 0;
	r = limpet_modules_read(check->pid, &modules, &err);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = limpet_plan_find_loader(&modules, check->options.load, &plan, &err);
	if (r == 0 && plan.mapped)
		limpet_check_add(check, LIMPET_FINDING_NOTE, "agent", "",
				 "the agent is mapped, without a dynamic linker (%s)", plan.mapped);
	else if (r == 0)
		limpet_check_add(check, LIMPET_FINDING_OK, "agent", "",
				 "the agent is loaded by the program's own dlopen");
	if (r == -ENOTSUP) {
		limpet_check_refuse(check, r, "agent", "no dlopen", "%s", err.message);
		limpet_check_hint(check, "%s", err.hint);
	}
	if (modules.r_debug)
		check_other_libcs(check, &modules);
	limpet_modules_done(&modules);
	return 0;
}

static bool has_entries(void *context, const struct limpet_module *module)
{
	const struct limpet_entries *entries = context;

	for (size_t i = 0; i < entries->count; i++)
		if (entries->list[i].address >= module->start &&
		    entries->list[i].address < module->end)
			return true;
	return false;
}

/* Of other allocators that are followed it cannot be told from outside what is theirs: those that
 * are hooked where they begin, and libraries that bring a malloc. */
static bool follows_others(pid_t pid, struct limpet_modules *modules,
			   const struct limpet_entries *entries)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];

		if (!module->loader && limpet_module_has_malloc(pid, module) &&
		    !limpet_modules_is_libc(modules, module))
			return true;
	}
	return entries->count > entries->families[LIMPET_ENTRY_FINDER];
}

/* What no allocator has that is followed, where all that are followed is glibc's. A program that
 * is out of reach in part has been told its share. */
static void check_unfollowed(struct limpet_check *check)
{
	struct limpet_memory_owners_options options = {.mapped_count = 0};
	struct limpet_memory *memory = &check->out->memory;
	struct limpet_unfollowed unfollowed;
	struct limpet_entries entries;
	struct limpet_modules modules;
	char names[256] = "", words[512];

	if (check->options.quick || check->options.launched ||
	    check->out->verdict != LIMPET_PREFLIGHT_OK || check->out->unseen_rss_share >= 0 ||
	    limpet_modules_read(check->pid, &modules, NULL) < 0)
		return;
	options.modules = &modules;
	if (limpet_entries_find(&modules, check->options.entry_list, &entries) < 0) {
		limpet_modules_done(&modules);
		return;
	}
	if (!follows_others(check->pid, &modules, &entries) &&
	    limpet_memory_owners_take(check->pid, &options, memory) == 0) {
		/* One moment for both figures. */
		check->out->rss_bytes = memory->bytes[LIMPET_MEMORY_RSS];
		if (limpet_unfollowed_judge(memory, NULL, "").is_large) {
			limpet_memory_owners_name(&modules, has_entries, &entries,
						  check->out->runtime, names, sizeof(names));
			unfollowed = limpet_unfollowed_judge(memory, NULL, names);
			limpet_unfollowed_say(&unfollowed, words, sizeof(words));
			limpet_check_add(check, LIMPET_FINDING_WARNING, "unfollowed",
					 "memory of others", "%s", words);
		}
	}
	limpet_entries_done(&entries);
	limpet_modules_done(&modules);
}

/* `ld.so PROGRAM`: the kernel has the dynamic linker as the executable. Whether it has loaded
 * anything is answered apart. */
static bool is_loader_by_hand(const struct limpet_check *check, bool *ret_loaded)
{
	char link[64], path[PATH_MAX];
	ssize_t bytes;

	snprintf(link, sizeof(link), "%s/%d/exe", limpet_proc_root, check->resident);
	bytes = readlink(link, path, sizeof(path) - 1);
	path[bytes < 0 ? 0 : bytes] = '\0';
	if (!base_is(path, "ld-linux") && !base_is(path, "ld-2.") && !path_is_libc(path))
		return false;
	*ret_loaded = false;
	for (size_t i = 0; i < check->maps.count && !*ret_loaded; i++) {
		const struct limpet_map *map = &check->maps.list[i];

		*ret_loaded =
			map->perms[2] == 'x' && map->path[0] == '/' && strcmp(map->path, path) != 0;
	}
	return true;
}

int limpet_check_program(struct limpet_check *check)
{
	struct limpet_program program = {0};
	bool loaded;
	int r = program_read(check, &program);

	if (r == -ENOMEM || r == -ESRCH)
		return r;
	if (r < 0) {
		limpet_check_refuse(
			check, r, "executable", "unreadable", "its executable cannot be read: %s",
			r == -ETIMEDOUT ? "its file system does not answer" : strerror(-r));
		limpet_check_hint(check, "see what it is: sudo file -L /proc/%d/exe", check->pid);
		return 0;
	}
	if (!program.native) {
		if (program.bits == 32 && sizeof(void *) == 8)
			limpet_check_refuse(check, -ENOTSUP, "elf-class", "32-bit",
					    "it is a 32-bit program");
		else
			limpet_check_refuse(check, -ENOTSUP, "elf-class", "other processor",
					    "it is a program for another kind of processor");
		limpet_check_hint(check,
				  "a build of the program for this machine's processor works");
		return 0;
	}
	if (!program.interpreter[0] && is_loader_by_hand(check, &loaded)) {
		if (!loaded) {
			limpet_check_refuse(check, -ENOTSUP, "static", "dynamic linker",
					    "it is a dynamic linker, and has not loaded its "
					    "program yet");
			limpet_check_hint(check, "limpet run PROGRAM, without the linker, or "
						 "limpet attach once it runs");
			return 0;
		}
		/* musl's has a malloc, and is a library here like others. */
		program.own_allocator = NULL;
		program.own_malloc = false;
	}
	check_libc(check, &program);
	check_libraries(check, &program);
	/* what has been refused needs no more words */
	if (check->out->libc[0])
		check_own_allocator(check, &program);
	check_listed(check);
	check_unfollowed(check);
	return check_way(check);
}
