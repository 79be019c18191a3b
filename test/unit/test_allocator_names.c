/* Each function that an allocator's library exports, or its header declares, is followed, noted
 * when it is called, or in a list here that says why not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/family.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/entry_names.h"

#define LIBRARIES "/usr/lib/x86_64-linux-gnu/"

/* A name that ends in '*' is a prefix. */
struct harmless {
	const char *name, *why;
};

static const struct harmless of_allocators[] = {
	{"malloc_usable_size", "asks"},
	{"malloc_size", "asks"},
	{"malloc_good_size", "asks"},
	{"malloc_stats*", "asks"},
	{"mallinfo*", "asks"},
	{"mallopt", "sets options"},
	{"mallctlnametomib", "asks"},
	{"nallocx", "asks"},
	{"sallocx", "asks"},
	{"je_malloc_usable_size", "asks"},
	{"je_malloc_stats_print", "asks"},
	{"je_malloc_size", "asks"},
	{"je_malloc_conf", "a variable"},
	{"je_mallctlnametomib", "asks"},
	{"je_nallocx", "asks"},
	{"je_sallocx", "asks"},
	{"mi_good_size", "asks"},
	{"mi_malloc_good_size", "asks"},
	{"mi_malloc_size", "asks"},
	{"mi_malloc_usable_size", "asks"},
	{"mi_usable_size", "asks"},
	{"mi_option_*", "sets options"},
	{"mi_stats_*", "asks"},
	{"mi_thread_*", "blocks of a thread that has ended are still there"},
	{"mi_process_*", "begins, ends, asks"},
	{"mi_version", "asks"},
	{"mi_register_*", "names functions"},
	{"mi_collect", "releases free pages"},
	{"mi_heap_collect", "releases free pages"},
	{"mi_heap_new", "makes a heap, whose own block comes from mi_heap_malloc"},
	{"mi_heap_new_in_arena", "the same"},
	{"mi_heap_new_ex", "the same"},
	{"mi_heap_delete", "gives the blocks to another heap"},
	{"mi_heap_get_*", "asks"},
	{"mi_heap_set_*", "sets options"},
	{"mi_heap_contains_block", "asks"},
	{"mi_heap_check_owned", "asks"},
	{"mi_check_owned", "asks"},
	{"mi_heap_visit_blocks", "asks"},
	{"mi_is_in_heap_region", "asks"},
	{"mi_is_redirected", "asks"},
	{"mi_reserve_*", "gets memory from the system"},
	{"mi_manage_os_memory*", "gets memory from the program"},
	{"mi_arena_area", "asks"},
	{"mi_debug_*", "asks"},
	{"mi_stl_allocator", "a class of the header"},
	{"mi_heap_stl_allocator", "a class of the header"},
	{"mi_heap_destroy_stl_allocator", "a class of the header"},
	{"_mi_heap_stl_allocator_common", "a class of the header"},
	{"*_tp", "a macro of the header"},
	{"mi_attr_*", "a macro of the header"},
	{"mi_decl_*", "a macro of the header"},
	{"_mi_*", "internal"},
	{"tc_malloc_size", "asks"},
	{"tc_nallocx", "asks"},
	{"tc_mallinfo*", "asks"},
	{"tc_malloc_stats", "asks"},
	{"tc_mallopt", "sets options"},
	{"tc_set_new_mode", "sets options"},
	{"tc_query_new_mode", "asks"},
	{"tc_version", "asks"},
	{"mmap*", "mappings are followed apart"},
	{"munmap", "mappings are followed apart"},
	{"mremap", "mappings are followed apart"},
	{"sbrk", "memory, not blocks"},
	{"MallocExtension_*", "asks, sets options"},
	{"MallocHook_*", "names functions"},
	{"HeapProfiler*", "writes profiles"},
	{"GetHeapProfile", "writes profiles"},
	{"IsHeapProfilerRunning", "asks"},
	{"Profil*", "writes profiles"},
	{"RunningOnValgrind", "asks"},
	{"TCMalloc*", "internal"},
	{"__start_*", "a section"},
	{"__stop_*", "a section"},
	{"_Z*", "internal, and C++: operators are known by their own names"},
	{"_init", "of every library"},
	{"_fini", "of every library"},
};

/* Of libc only what is about memory. */
static const struct harmless of_libc[] = {
	{"malloc_usable_size", "asks"},
	{"malloc_info", "asks"},
	{"malloc_stats", "asks"},
	{"malloc_trim", "releases free pages"},
	{"mallinfo*", "asks"},
	{"mallopt", "sets options"},
	{"__libc_mallinfo", "asks"},
	{"__libc_mallopt", "sets options"},
	{"__libc_freeres", "at the end, for checkers: releases by free"},
	{"__libc_alloca_cutoff", "the stack"},
	{"__libc_alloc_buffer_*", "private, of other memory"},
	{"__libc_allocate_*", "private; calls malloc"},
	{"__libc_scratch_buffer_dupfree", "private; calls malloc"},
	{"__sched_cpu*", "calls malloc"},
	{"*fallocate*", "files"},
	{"pkey_*", "protection keys"},
	{"_IO_*", "calls malloc"},
	{"*obstack*", "calls what the program names"},
	{"*freelocale", "calls free"},
	{"freeaddrinfo", "calls free"},
	{"*freeif*", "calls free"},
	{"if_freenameindex", "calls free"},
	{"globfree*", "calls free"},
	{"regfree", "calls free"},
	{"wordfree", "calls free"},
	{"xdr_free", "calls what the program names"},
	{"inet6_option_alloc", "memory of the caller"},
	{"__strdup", "calls malloc"},
	{"__strndup", "calls malloc"},
	{"strdup", "calls malloc"},
	{"strndup", "calls malloc"},
	{"wcsdup", "calls malloc"},
	{"*duplocale", "calls malloc"},
};

/* With a '*' at either end. */
static bool matches(const char *name, const char *pattern)
{
	const size_t length = strlen(pattern);
	char middle[64];

	if (pattern[0] == '*') {
		snprintf(middle, sizeof(middle), "%s", pattern + 1);
		if (pattern[length - 1] != '*')
			return strlen(name) >= length - 1 &&
			       !strcmp(name + strlen(name) - (length - 1), middle);
		middle[length - 2] = '\0';
		return strstr(name, middle);
	}
	return pattern[length - 1] == '*' ? !strncmp(name, pattern, length - 1)
					  : !strcmp(name, pattern);
}

struct check {
	const char *where;
	const struct harmless *list;
	size_t count;
	bool libc;
	unsigned known, wrong;
};

static bool is_known(const char *name)
{
	struct limpet_entry_name found;

	return limpet_family_find(name, strlen(name) + 1) >= 0 ||
	       (limpet_entry_name_find(name, &found) && found.op != LIMPET_OP_NONE) ||
	       limpet_entry_name_is_forwarded(name);
}

static void check_name(struct check *check, const char *name)
{
	if (is_known(name)) {
		check->known++;
		return;
	}
	for (size_t i = 0; i < check->count; i++)
		if (matches(name, check->list[i].name))
			return;
	print_error("%s: %s is neither followed nor listed here\n", check->where, name);
	check->wrong++;
}

/* Whether a function of a C library may give memory or take it. */
static bool is_about_memory(const char *name)
{
	static const char *const parts[] = {"alloc", "free", "memalign", "dup"};

	if (strstr(name, "unlocked") || strstr(name, "dup2") || strstr(name, "dup3") ||
	    !strcmp(name, "dup"))
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

static bool visit(void *context, const struct limpet_elf_function *function)
{
	struct check *check = context;

	if (!function->local && (!check->libc || is_about_memory(function->name)))
		check_name(check, function->name);
	return true;
}

/* Returns how many of its functions are followed. */
static unsigned check_library(const char *path, bool libc)
{
	struct check check = {.where = path,
			      .list = libc ? of_libc : of_allocators,
			      .count = libc ? LIMPET_COUNT_OF(of_libc)
					    : LIMPET_COUNT_OF(of_allocators),
			      .libc = libc};
	struct limpet_elf_file *file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s is not there: scripts/bootstrap installs what has it", path);
	assert_int_equal(limpet_elf_file_open(fd, &file), 0);
	assert_int_equal(limpet_elf_file_functions(file, visit, &check), 0);
	limpet_elf_file_free(file);
	close(fd);
	assert_int_equal(check.wrong, 0);
	return check.known;
}

static void test_libraries(void **state)
{
	(void)state;
	assert_true(check_library(LIBRARIES "libjemalloc.so.2", false) > 30);
	assert_true(check_library(LIBRARIES "libmimalloc.so.2", false) > 120);
	assert_true(check_library(LIBRARIES "libtcmalloc.so.4", false) > 60);
	assert_true(check_library(LIBRARIES "libtcmalloc_minimal.so.4", false) > 60);
	assert_true(check_library(LIBRARIES "libc.so.6", true) > 15);
	assert_true(check_library("/lib/ld-musl-x86_64.so.1", true) > 7);
}

/* Each name before a parenthesis that begins with the prefix. */
static unsigned check_header(const char *path, const char *prefix)
{
	struct check check = {
		.where = path, .list = of_allocators, .count = LIMPET_COUNT_OF(of_allocators)};
	char line[512];
	FILE *file = fopen(path, "re");

	if (!file)
		fail_msg("%s is not there: scripts/bootstrap installs what has it", path);
	while (fgets(line, sizeof(line), file)) {
		for (char *at = line; (at = strstr(at, prefix));) {
			size_t length = 0;
			char *name = at;

			while (isalnum((unsigned char)name[length]) || name[length] == '_')
				length++;
			at += length;
			if (*at != '(' ||
			    (name > line && (isalnum((unsigned char)name[-1]) || name[-1] == '_')))
				continue;
			*at++ = '\0';
			check_name(&check, name);
		}
	}
	fclose(file);
	assert_int_equal(check.wrong, 0);
	return check.known;
}

static void test_headers(void **state)
{
	(void)state;
	assert_true(check_header("/usr/include/mimalloc.h", "mi_") > 90);
	assert_true(check_header("/usr/include/gperftools/tcmalloc.h", "tc_") > 12);
	assert_true(check_header("/usr/include/jemalloc/jemalloc.h", "je_") > 12);
}

/* Of versions that Debian does not have: mimalloc 2.2 to 3.3, Google's tcmalloc, C23. */
static void test_names_of_others(void **state)
{
	static const struct {
		const char *name;
		enum limpet_op op;
		unsigned skip;
	} list[] = {
		{"mi_heap_zalloc_small", LIMPET_OP_MALLOC, 1},
		{"mi_theap_malloc_aligned", LIMPET_OP_MALLOC, 1},
		{"mi_theap_realloc", LIMPET_OP_REALLOC, 1},
		{"mi_umalloc", LIMPET_OP_MALLOC, 0},
		{"mi_ucalloc", LIMPET_OP_CALLOC, 0},
		{"mi_urealloc", LIMPET_OP_REALLOC, 0},
		{"mi_ufree", LIMPET_OP_FREE, 0},
		{"mi_uzalloc_aligned", LIMPET_OP_MALLOC, 0},
		{"mi_free_small", LIMPET_OP_FREE, 0},
		{"mi_heap_destroy", LIMPET_OP_DESTROY, 0},
		{"mi_subproc_destroy", LIMPET_OP_DESTROY, 0},
		{"TCMallocInternalMalloc", LIMPET_OP_MALLOC, 0},
		{"TCMallocInternalPosixMemalign", LIMPET_OP_POSIX_MEMALIGN, 0},
		{"TCMallocInternalDeleteArraySizedAligned", LIMPET_OP_FREE, 0},
		{"TCMallocInternalAlignedAllocAtLeast", LIMPET_OP_MEMALIGN, 0},
		{"TCMallocInternalSizeReturningNew", LIMPET_OP_MALLOC, 0},
		{"__size_returning_new_aligned_hot_cold", LIMPET_OP_MALLOC, 0},
		{"_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t", LIMPET_OP_MALLOC, 0},
		{"__alloc_token_0_malloc", LIMPET_OP_MALLOC, 0},
		{"__alloc_token_11__Znwm", LIMPET_OP_MALLOC, 0},
		{"__alloc_token_1___size_returning_new", LIMPET_OP_MALLOC, 0},
		{"free_sized", LIMPET_OP_FREE, 0},
		{"free_aligned_sized", LIMPET_OP_FREE, 0},
		{"je_free_aligned_sized", LIMPET_OP_FREE, 0},
		{"je_xallocx", LIMPET_OP_RESIZE, 0},
		{"_rjem_mallctl", LIMPET_OP_CONTROL, 0},
		{"je_mallctlbymib", LIMPET_OP_CONTROL_BY_MIB, 0},
	};
	static const char *const others[] = {
		"mi_heap_new", "mi_heap_expand",       "mi_theap_new",  "mi_heap_free",
		"je_mallctlx", "__alloc_token_malloc", "__libc_malloc", "TCMallocInternal"};
	struct limpet_entry_name found;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		if (!limpet_entry_name_find(list[i].name, &found))
			fail_msg("%s is not known", list[i].name);
		if (found.op != list[i].op || LIMPET_HOOK_SKIP(found.hook_flags) != list[i].skip)
			fail_msg("%s: op %d, skips %u", list[i].name, found.op,
				 LIMPET_HOOK_SKIP(found.hook_flags));
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if (limpet_entry_name_find(others[i], &found))
			fail_msg("%s is taken for something", others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_names_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
