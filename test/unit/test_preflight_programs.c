/* What preflight says of a program: its class, its libc, its allocators, and a file that is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"
#include "injector/proc/pages.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/skip_reason.h"
#include "test/unit/target_of.h"

const enum preflight_group preflight_group = PREFLIGHT_PROGRAMS;

static const char *const no_names[] = {"main", NULL};
static const char *const go_names[] = {"main.main", "runtime.mallocgc", NULL};
static const char *const glibc_names[] = {"main", "malloc", "free", "_IO_2_1_stdout_", NULL};
static const struct limpet_preflight_options partial = {.config.partial = true};
static const struct limpet_preflight_options launched = {.launched = true};

#define OTHER_MAP "400000-500000 r-xp 00000000 fe:00 11 /x\n"
#define MUSL_MAP "7ffff7f00000-7ffff7f20000 r--p 00000000 fe:00 5 /lib/ld-musl-x86_64.so.1\n"
#define APEX_MAP "7ffff7f00000-7ffff7f20000 r--p 00000000 fe:00 5 /apex/libc_other\n"

struct program_case {
	const char *name;
	struct proc_fixture_elf elf;
	const char *maps; /* NULL: as it was */
	const struct limpet_preflight_options *options;
	const char *id, *words, *hint; /* of the refusal; NULL: it is fine */
	const char *libc;              /* NULL: whatever it is */
};

static void check_programs(const struct program_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct program_case *row = &cases[i];
		const char *complaint;
		int code;

		if (row->maps)
			proc_fixture_write(in_proc("maps"), "%s", row->maps);
		put_program(&row->elf);
		code = preflight_look(preflight_pid, row->options);
		if (code != (row->id ? -ENOTSUP : 0))
			fail_msg("%s: %d", row->name, code);
		complaint = preflight_complaint(row->id, row->words, row->hint);
		if (complaint)
			fail_msg("%s: %s", row->name, complaint);
		if (row->id && strcmp(row->id, "static") != 0 && preflight_find("static"))
			fail_msg("%s: taken for static without a way in", row->name);
		if (row->libc && strcmp(preflight.libc, row->libc) != 0)
			fail_msg("%s: libc is '%s'", row->name, preflight.libc);
	}
}

static void test_other_classes_and_static_programs(void **state)
{
	static const struct program_case cases[] = {
		{"32-bit", {.class_bits = 32}, NULL, NULL, "elf-class", "32-bit", "", NULL},
		{"static, --partial",
		 {.symbols = no_names},
		 OTHER_MAP,
		 &partial,
		 "static",
		 "fully static,",
		 "",
		 NULL},
		{"Go",
		 {.symbols = go_names},
		 OTHER_MAP,
		 NULL,
		 "static",
		 "Go program without C code",
		 "go tool pprof",
		 NULL},
		/* with names, by which it may be hooked; not in this process, which has another
		 * program */
		{"static, with names",
		 {.symbols = glibc_names},
		 OTHER_MAP,
		 NULL,
		 "allocator",
		 "its malloc is linked into the executable",
		 "",
		 "glibc, static"},
		/* started as `ld.so program`: no interpreter, and dynamic all the same */
		{"by the loader", {.symbols = no_names}, libc_map, NULL, NULL, "", "", NULL},
	};

	(void)state;
	check_programs(cases, LIMPET_COUNT_OF(cases));
}

static void test_musl_and_others(void **state)
{
	static const struct program_case cases[] = {
		{"musl",
		 {.interpreter = "/lib/ld-musl-x86_64.so.1"},
		 MUSL_MAP,
		 NULL,
		 NULL,
		 "",
		 "",
		 "musl"},
		{"another libc",
		 {.interpreter = "/system/bin/linker64"},
		 APEX_MAP,
		 NULL,
		 "libc",
		 "/system/bin/linker64",
		 "",
		 NULL},
		/* before the loader has mapped anything */
		{"at its entry point",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2"},
		 OTHER_MAP,
		 &launched,
		 NULL,
		 "",
		 "",
		 NULL},
	};

	(void)state;
	check_programs(cases, LIMPET_COUNT_OF(cases));
}

static void test_own_allocators_are_named(void **state)
{
	static const struct {
		const char *symbol, *name;
	} cases[] = {
		{"_rjem_malloc", "jemalloc"},
		{"je_malloc", "jemalloc"},
		{"_rjem_je_arena_malloc_hard", "jemalloc"},
		{"mi_malloc", "mimalloc"},
		{"_mi_malloc_generic", "mimalloc"},
		{"tc_malloc", "tcmalloc"},
		{"_ZN8tcmalloc10CentralFreeList", "tcmalloc"},
		{"rawAlloc__system_5334", "Nim's allocator"},
		{"rawAlloc__mE4QEVyMvGRVliDWDngZCQ", "Nim's allocator"},
		{"GC_malloc", "the Boehm collector"},
		{"__asan_init", "AddressSanitizer"},
		{"malloc", "its own malloc"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		const char *const symbols[] = {"_Zaa", "main", cases[i].symbol, "zz", NULL};
		char words[80];

		snprintf(words, sizeof(words), "%s is linked into the executable", cases[i].name);
		for (int dynamic = 0; dynamic < 2; dynamic++) {
			const struct program_case own = {
				.name = cases[i].symbol,
				.elf = {.interpreter = "/lib64/ld-linux-x86-64.so.2",
					.symbols = dynamic ? NULL : symbols,
					.dynamics = dynamic ? symbols : NULL},
				.id = "allocator",
				.words = words,
				.hint = "--partial",
			};
			struct program_case partly = own;

			check_programs(&own, 1);
			assert_error_is("allocator");
			if (strstr(preflight.allocators, cases[i].name) ||
			    !strstr(preflight.unfollowed, cases[i].name) ||
			    preflight.unseen_rss_share < 0 || preflight.unseen_rss_share > 1)
				fail_msg("%s: %s, %f unseen", cases[i].symbol, preflight.unfollowed,
					 preflight.unseen_rss_share);
			partly.options = &partial;
			partly.id = NULL;
			check_programs(&partly, 1);
			if (preflight_find("allocator")->severity != LIMPET_FINDING_WARNING ||
			    preflight.unseen_rss_share < 0)
				fail_msg("%s, --partial: no warning", cases[i].symbol);
		}
		/* a program that only calls it is no such program */
		check_programs(
			&(const struct program_case){
				.name = cases[i].symbol,
				.elf = {.interpreter = "/lib64/ld-linux-x86-64.so.2",
					.undefined = symbols},
			},
			1);
	}
}

static void test_stripped_allocators_are_found_by_their_texts(void **state)
{
	static const struct program_case cases[] = {
		{"jemalloc",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2",
		  .rodata = "usage: malloc\n<jemalloc>: Malformed conf string\n"
			    "<jemalloc>: Unsupported system page size\n"},
		 NULL,
		 NULL,
		 "allocator",
		 "jemalloc is linked",
		 "",
		 NULL},
		{"mimalloc",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2",
		  .rodata = "mimalloc: warning: environment option mimalloc_%s has an invalid "
			    "value.\n"},
		 NULL,
		 NULL,
		 "allocator",
		 "mimalloc is linked",
		 "",
		 NULL},
		{"tcmalloc",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2",
		  .rodata = "tcmalloc: large alloc %TCMALLOC_TRANSFER_NUM_OBJ"},
		 NULL,
		 NULL,
		 "allocator",
		 "tcmalloc is linked",
		 "",
		 NULL},
		{"one message of each, and texts that count once",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2",
		  .rodata = "<jemalloc>: Malformed conf string\n<jemalloc>: Malformed conf string\n"
			    "mimalloc: warning: mimalloc: error: "
			    "TCMALLOC_TRANSFER_NUM_OBJ TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"},
		 NULL,
		 NULL,
		 NULL,
		 "",
		 "",
		 NULL},
		{"texts that only look like it",
		 {.interpreter = "/lib64/ld-linux-x86-64.so.2",
		  .rodata = "malloc(%d): jemalloc-5.3.0 tcmalloc: mi"},
		 NULL,
		 NULL,
		 NULL,
		 "",
		 "",
		 NULL},
	};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2"};

	(void)state;
	check_programs(cases, LIMPET_COUNT_OF(cases));
	what.rodata = "x";
	/* dynamic: with a C side */
	what.section = ".go.buildinfo";
	put_program(&what);
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	assert_non_null(preflight_find("allocator"));
	assert_int_equal(preflight_find("allocator")->severity, LIMPET_FINDING_WARNING);
	assert_non_null(strstr(preflight_find("allocator")->text, "Go's own heap stays unseen"));
}

/* Texts at every place relative to the window in which a file is searched. */
static void test_texts_across_the_search_window(void **state)
{
	enum { WINDOW = 1 << 20 };
	static const char text[] = "<jemalloc>: Malformed conf string\n"
				   "<jemalloc>: Conf string ends with key\n";
	char *rodata = malloc(2 * WINDOW + 1);

	(void)state;
	assert_non_null(rodata);
	for (int shift = -80; shift <= 80; shift++) {
		struct proc_fixture_elf what = {.rodata = rodata};
		struct limpet_program program;
		size_t bytes;
		void *elf;
		int fd;

		memset(rodata, 'x', 2 * WINDOW);
		rodata[2 * WINDOW] = '\0';
		memcpy(rodata + WINDOW + shift, text, strlen(text));
		elf = proc_fixture_elf(&what, &bytes);
		fd = memfd_create("elf", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, elf, bytes), bytes);
		assert_int_equal(limpet_program_read(fd, &program), 0);
		if (!program.own_allocator)
			fail_msg("not found at %d", shift);
		close(fd);
		free(elf);
	}
	free(rodata);
}

static void test_libraries_are_named_and_followed(void **state)
{
	(void)state;
	proc_fixture_write(
		in_proc("maps"),
		"7ffff7000000-7ffff7010000 r--p 00000000 fe:00 21 /usr/lib/libjemalloc.so.2\n"
		"7ffff7010000-7ffff7020000 r-xp 00010000 fe:00 21 /usr/lib/libjemalloc.so.2\n"
		"7ffff7100000-7ffff7110000 r--p 00000000 fe:00 22 /usr/lib/libpython3.11.so.1.0\n"
		"7ffff7200000-7ffff7210000 r--p 00000000 fe:00 23 /usr/lib/libjemallocator.so\n"
		"%s",
		libc_map);
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	assert_fine();
	assert_string_equal(preflight.allocators, "glibc, jemalloc");
	assert_non_null(strstr(preflight_find("allocator-library")->text, "jemalloc"));
	assert_non_null(strstr(preflight_find("runtime")->text, "pymalloc"));
	assert_true(preflight.unseen_rss_share < 0);

	assert_string_equal(limpet_allocator_of_library("/x/libtcmalloc_minimal.so.4"), "tcmalloc");
	assert_string_equal(limpet_allocator_of_library("/x/libmimalloc.so.2.0"), "mimalloc");
	assert_null(limpet_allocator_of_library("/x/libmimallocx.so"));
	assert_null(limpet_allocator_of_library("/libjemalloc.so/x"));
	assert_null(limpet_allocator_of_library("/x/libjemalloc.a"));
}

static void test_broken_executables(void **state)
{
	static const char *const symbols[] = {"main", "_rjem_malloc", NULL};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2",
					.symbols = symbols,
					.dynamics = symbols,
					.rodata = "malloc"};
	struct limpet_program program;
	unsigned char *elf, *copy;
	unsigned random = 1;
	size_t bytes;
	int fd;

	(void)state;
	proc_fixture_write(in_proc("exe"), "%s", "#!/bin/sh\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), -ENOEXEC);
	assert_refused("executable", "cannot be read", "");
	proc_fixture_remove(in_proc("exe"));
	assert_int_equal(preflight_look(preflight_pid, NULL), -ENOENT);
	assert_refused("executable", "cannot be read", "");

	elf = proc_fixture_elf(&what, &bytes);
	copy = malloc(bytes);
	fd = memfd_create("elf", MFD_CLOEXEC);
	assert_true(copy && fd >= 0);
	/* cut at every length */
	assert_int_equal(pwrite(fd, elf, bytes, 0), bytes);
	assert_int_equal(limpet_program_read(fd, &program), 0);
	assert_string_equal(program.own_allocator, "jemalloc");
	for (size_t length = bytes; length-- > 0;) {
		assert_int_equal(ftruncate(fd, (off_t)length), 0);
		(void)limpet_program_read(fd, &program);
	}
	/* and with bytes turned at random: any answer will do, but an answer */
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, elf, bytes);
		for (int i = 0; i < 4; i++) {
			random = random * 1103515245 + 12345;
			copy[(random >> 8) % (i % 2 ? bytes : 64)] = (unsigned char)(random >> 24);
		}
		assert_int_equal(pwrite(fd, copy, bytes, 0), bytes);
		(void)limpet_program_read(fd, &program);
	}
	close(fd);
	free(copy);
	free(elf);
}

static void test_cache_knows_changed_files(void **state)
{
	static const char *const symbols[] = {"mi_malloc", NULL};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2"};
	struct limpet_preflight_options options = {.cache = limpet_preflight_cache_new()};

	(void)state;
	assert_non_null(options.cache);
	for (int i = 0; i < 3; i++) {
		what.symbols = i == 1 ? symbols : NULL;
		put_program(&what);
		for (int again = 0; again < 2; again++)
			assert_int_equal(preflight_look(preflight_pid, &options),
					 i == 1 ? -ENOTSUP : 0);
	}
	limpet_preflight_cache_free(options.cache);
}

static void test_huge_maps(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(file);
	for (unsigned i = 0; i < 65000; i++)
		fprintf(file, "%x-%x rw-p 00000000 fe:00 77 /srv/data (%u).bin\n",
			0x10000 + i * 0x2000, 0x11000 + i * 0x2000, i);
	fputs(libc_map, file);
	fclose(file);
	proc_fixture_write_bytes(in_proc("maps"), text, bytes);
	free(text);
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	assert_fine();
}

/* ------------------------------------------------------------------ memory that is not seen */

static void *fill_arena(void *unused)
{
	/* a secondary arena, in small blocks; never freed: the child is killed */
	for (int i = 0; i < 16 * 1024; i++) {
		volatile char *block = malloc(1000);

		if (!block)
			_exit(1);
		block[0] = 1;
		block[999] = 1;
	}
	return unused;
}

#define ARENA_BYTES (64 * MIB)
static char *regions; /* as large and aligned as arenas, and never touched */

static void reserve_regions(void)
{
	char *room = mmap(regions, 3 * ARENA_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (room == MAP_FAILED || madvise(room, 3 * ARENA_BYTES, MADV_NOHUGEPAGE))
		_exit(1);
}

static void fill_memory(void)
{
	pthread_t thread;
	char *maps =
		mmap(NULL, 24 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (maps == MAP_FAILED)
		_exit(1);
	memset(maps, 1, 24 * MIB);
	reserve_regions();
	if (pthread_create(&thread, NULL, fill_arena, NULL) || pthread_join(thread, NULL))
		_exit(1);
}

static void test_unseen_share_leaves_arenas_out(void **state)
{
	uint64_t unseen_bytes, rss_bytes, touched_bytes = 1;
	pid_t child;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	limpet_skip("no glibc arenas under a sanitizer");
#endif
	regions = mmap(NULL, 4 * ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(regions != MAP_FAILED);
	regions += ARENA_BYTES - (uintptr_t)regions % ARENA_BYTES;
	child = child_of(fill_memory);
	assert_int_equal(limpet_unseen_rss(target_of(child), &unseen_bytes, &rss_bytes), 0);
	assert_true(rss_bytes > 40 * MIB);
	if (unseen_bytes < 24 * MIB || unseen_bytes > 28 * MIB)
		fail_msg("%llu of %llu bytes", (unsigned long long)unseen_bytes,
			 (unsigned long long)rss_bytes);
	assert_int_equal(limpet_pages_count(target_of(child), (uint64_t)(uintptr_t)regions,
					    3 * ARENA_BYTES, &touched_bytes, NULL),
			 0);
	assert_int_equal(touched_bytes, 0);
	reap(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_other_classes_and_static_programs),
		WITH_ROOT(test_musl_and_others),
		WITH_ROOT(test_own_allocators_are_named),
		WITH_ROOT(test_stripped_allocators_are_found_by_their_texts),
		cmocka_unit_test(test_texts_across_the_search_window),
		WITH_ROOT(test_libraries_are_named_and_followed),
		WITH_ROOT(test_broken_executables),
		WITH_ROOT(test_cache_knows_changed_files),
		WITH_ROOT(test_huge_maps),
		cmocka_unit_test(test_unseen_share_leaves_arenas_out),
		cmocka_unit_test(test_every_refusal_was_seen),
	};

	return cmocka_run_group_tests(tests, preflight_group_begin, NULL);
}
