/* Preflight: the program's C library. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "injector/elf/modules_memory.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"

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

/* Looks for `needle` in a read-only map of the target, and copies what follows it. Reads what is
 * mapped, since the file may have been upgraded meanwhile. */
static bool map_search(struct limpet_module_memory *memory, const struct limpet_map *map,
		       const char *needle, char *ret, size_t room)
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
	got = limpet_module_memory_read_map(memory, map, copy, bytes);
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
static void parse_version(const char *text, char *ret, size_t room)
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
 * 2.36." musl's (ldso/dynlink.c): "musl libc (x86_64)\nVersion %s\n", stored separately from its
 * number. */
static void libc_version(struct limpet_check *check, const char *kind, char *ret, size_t room)
{
	char banner[160] = "", version[24] = "";
	struct limpet_module_memory *memory = limpet_module_memory_new(check->target, &check->maps);
	unsigned tries = 16; /* a file of any kind may have such a name */

	/* texts are in a map without code, but before binutils 2.31 everything was in one map */
	for (size_t i = 0; memory && i < 2 * check->maps.count && !version[0] && tries; i++) {
		const struct limpet_map *map = &check->maps.list[i % check->maps.count];
		const char *at;

		if (!path_is_libc(map->path) || (map->perms[2] == 'x') != (i >= check->maps.count))
			continue;
		tries--;
		if (!map_search(memory, map, "GNU C Library ", banner, sizeof(banner)))
			continue;
		at = strstr(banner, "release version ");
		if (at)
			parse_version(at + strlen("release version "), version, sizeof(version));
	}
	limpet_module_memory_free(memory);
	snprintf(ret, room, "%s%s%s", kind, version[0] ? " " : "", version);
}

/* Returns "glibc", "musl"..., NULL if the program is dynamic but its library is unknown. */
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
	/* it was stopped before the loader mapped the library; a wrapper may execute the loader */
	if (strstr(program->interpreter, "ld-linux"))
		return "glibc";
	return NULL;
}

bool limpet_program_is_go(const struct limpet_program *program)
{
	return program->own_allocator && !strcmp(program->own_allocator, "the Go runtime");
}

/* Its allocator gets inline hooks, or is not followed at all. */
static void check_static(struct limpet_check *check, const struct limpet_program *program)
{
	const char *what = program->own_allocator ? program->own_allocator : program->static_libc;
	char share[64] = "";

	if (limpet_program_is_go(program) && !program->own_entries) {
		limpet_check_refuse(check, -ENOTSUP, "static", "Go without C code",
				    "it is a Go program without C code that limpet can see: all of "
				    "its memory is in Go's own heap");
		limpet_check_hint_pages(check, "", "; Go has a profiler of its own: go tool pprof");
		return;
	}
	if (!program->own_entries) {
		if (program->own_allocator)
			limpet_check_note_unseen(check, program->own_allocator, NULL, share,
						 sizeof(share));
		limpet_check_refuse(check, -ENOTSUP, "static", "static",
				    "it is fully static%s%s%s, and stripped of the names by which "
				    "its allocator could be found%s",
				    what ? " (" : "", what ? what : "", what ? ")" : "", share);
		limpet_check_hint_pages(check, "a build that is not stripped works; ", "");
		return;
	}
	snprintf(check->out->libc, sizeof(check->out->libc), "%s, static",
		 program->static_libc ? program->static_libc : "libc");
	limpet_check_add(check, LIMPET_FINDING_OK, "libc", "",
			 "C library: %s, linked into the executable",
			 program->static_libc ? program->static_libc : "unknown");
}

void limpet_check_libc(struct limpet_check *check, const struct limpet_program *program)
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
		limpet_check_hint_pages(check, "a build of the program for glibc works; ", "");
		return;
	}
	libc_version(check, kind, check->out->libc, sizeof(check->out->libc));
	limpet_check_add(check, LIMPET_FINDING_OK, "libc", "", "C library: %s%s", check->out->libc,
			 mapped ? "" : " (not loaded yet)");
}

bool limpet_check_is_loader_by_hand(const struct limpet_check *check, bool *ret_loaded)
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
