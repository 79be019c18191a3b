#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "injector/hook/kept_values.h"
#include "injector/hook/plan.h"
#include "injector/hook/slot_aliases.h"
#include "test/unit/target_of.h"

/* Programs with C libraries of other versions: this process's memory holds a loader's list whose
 * modules have the symbols that are at issue and nothing else. */
enum { MODULES = 3, SYMBOLS = 10, STRINGS = 256 };

static struct image {
	ElfW(Dyn) dynamic[2];
	struct link_map entry;
	Elf64_Sym symbols[SYMBOLS];
	char strings[STRINGS];
} images[MODULES];

static struct r_debug debug;
static struct limpet_module list[MODULES];
static struct limpet_modules modules;
static struct limpet_entries entries;

static void begin(void)
{
	memset(images, 0, sizeof(images));
	memset(list, 0, sizeof(list));
	memset(&entries, 0, sizeof(entries));
	debug = (struct r_debug){.r_version = 1};
	modules = (struct limpet_modules){.target = target_of(getpid()),
					  .list = list,
					  .r_debug = (uint64_t)(uintptr_t)&debug};
}

/* A module that defines the functions of this list ("name name"), at the address 1000 * its number
 * in the program + the place in the list. */
static uint64_t add(const char *names)
{
	size_t number = modules.count++;
	struct image *image = &images[number];
	struct limpet_module *module = &list[number];
	char copy[STRINGS], *save;
	uint64_t count = 1, bytes = 1;

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
		assert_true(count < SYMBOLS && bytes + strlen(name) + 1 < STRINGS);
		image->symbols[count] = (Elf64_Sym){.st_name = (Elf64_Word)bytes,
						    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
						    .st_shndx = 1,
						    .st_value = count};
		strcpy(image->strings + bytes, name);
		bytes += strlen(name) + 1;
		count++;
	}
	image->entry.l_ld = image->dynamic;
	image->entry.l_addr = 1000 * (number + 1);
	if (number)
		images[number - 1].entry.l_next = &image->entry;
	else
		debug.r_map = &image->entry;
	module->start = (uint64_t)(uintptr_t)image->dynamic;
	module->end = module->start + sizeof(image->dynamic);
	module->bias = image->entry.l_addr;
	module->symbols = image->symbols;
	module->symbol_count = count;
	module->strings = image->strings;
	module->string_bytes = bytes;
	return module->bias;
}

static void test_dlopen_in_libc(void **state)
{
	struct limpet_plan plan = {0};
	uint64_t libc;

	(void)state;
	begin();
	add("main");
	libc = add("malloc dlopen dlclose dlerror dl_iterate_phdr gnu_get_libc_version");
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY, &plan, NULL), 0);
	assert_int_equal(plan.dlopen, libc + 2);
	assert_int_equal(plan.dlclose, libc + 3);
	assert_int_equal(plan.dlerror, libc + 4);
	assert_int_equal(plan.start.dl_iterate_phdr, libc + 5);
	assert_int_equal(plan.dlopen_mode, 2);
}

/* glibc before 2.34: dlopen is in libdl. */
static void test_dlopen_in_libdl(void **state)
{
	struct limpet_plan plan = {0};
	uint64_t libdl, libc;

	(void)state;
	begin();
	add("main");
	libdl = add("dlopen dlclose dlerror");
	libc = add("malloc dl_iterate_phdr __libc_dlopen_mode __libc_dlclose gnu_get_libc_version");
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY, &plan, NULL), 0);
	assert_int_equal(plan.dlopen, libdl + 1);
	assert_int_equal(plan.dlclose, libdl + 2);
	assert_int_equal(plan.dlerror, libdl + 3);
	assert_int_equal(plan.start.dl_iterate_phdr, libc + 2);
	assert_int_equal(plan.dlopen_mode, 2);
}

/* The same without libdl: its inner functions do, with the flag that dlopen itself sets
 * (__RTLD_DLOPEN), or the agent could not be unloaded. */
static void test_no_libdl(void **state)
{
	struct limpet_plan plan = {0};
	uint64_t libc;

	(void)state;
	begin();
	add("main");
	libc = add("malloc dl_iterate_phdr __libc_dlopen_mode __libc_dlclose gnu_get_libc_version");
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY, &plan, NULL), 0);
	assert_int_equal(plan.dlopen, libc + 3);
	assert_int_equal(plan.dlclose, libc + 4);
	assert_int_equal(plan.dlerror, 0);
	assert_int_equal(plan.dlopen_mode, 0x80000002u);
}

/* Halves of a pair are of no use, nor is a dlclose that does nothing: then the agent is mapped. */
static void test_mapped(void **state)
{
	static const struct {
		const char *symbols, *why;
	} cases[] = {
		{"malloc dl_iterate_phdr gnu_get_libc_version", "no dlopen"},
		{"malloc dl_iterate_phdr dlopen __libc_dlopen_mode gnu_get_libc_version",
		 "no dlopen"},
		{"malloc dl_iterate_phdr dlclose __libc_dlclose gnu_get_libc_version", "no dlopen"},
		{"malloc dlopen dlclose gnu_get_libc_version", "no dlopen"},
		{"malloc dlopen dlclose dl_iterate_phdr", "musl"},
	};
	struct limpet_plan plan = {0};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		begin();
		add("main");
		add(cases[i].symbols);
		assert_int_equal(limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY,
							   &plan, NULL),
				 0);
		assert_int_equal(plan.method, LIMPET_METHOD_OUTSIDE);
		assert_non_null(strstr(plan.reason, cases[i].why));
		assert_int_equal(plan.start.method, LIMPET_METHOD_OUTSIDE);
	}
	begin();
	add("main");
	modules.fully_static = true;
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY, &plan, NULL), 0);
	assert_non_null(strstr(plan.reason, "none"));
	modules.fully_static = false;
}

/* The usual way; but by dlopen where an exception could be in the way of a mapped agent. That an
 * unwinder asks _dl_find_object is in its tables, which these modules do not have. */
static void test_exceptions(void **state)
{
	static const struct {
		const char *libc, *other;
		enum limpet_entry_family family;
		bool mapped;
	} cases[] = {
		{"", "malloc_usable_size", LIMPET_ENTRY_PLAIN, false}, /* glibc before 2.35 */
		{"_dl_find_object", "malloc_usable_size", LIMPET_ENTRY_PLAIN, true},
		{"_dl_find_object", "_Unwind_RaiseException", LIMPET_ENTRY_PLAIN, false},
		{"_dl_find_object", "_Znwm", LIMPET_ENTRY_PLAIN, true}, /* it calls malloc */
		{"_dl_find_object", "_Znwm malloc", LIMPET_ENTRY_PLAIN, false},
		{"_dl_find_object", "malloc_usable_size", LIMPET_ENTRY_OPERATORS, false},
		{"_dl_find_object", "malloc_usable_size", LIMPET_ENTRY_LISTED, false},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		struct limpet_plan plan = {0};
		char libc[STRINGS];

		begin();
		entries.families[cases[i].family] = 1;
		add("main");
		snprintf(libc, sizeof(libc),
			 "malloc dlopen dlclose dlerror dl_iterate_phdr gnu_get_libc_version %s",
			 cases[i].libc);
		add(libc);
		add(cases[i].other);
		assert_int_equal(limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY,
							   &plan, NULL),
				 0);
		assert_int_equal(plan.method,
				 cases[i].mapped ? LIMPET_METHOD_MAP : LIMPET_METHOD_DLOPEN);
		assert_int_equal(plan.start.method, plan.method);
		if (cases[i].mapped)
			assert_null(plan.reason);
		else
			assert_non_null(strstr(plan.reason, "exceptions"));
	}
}

static void test_told(void **state)
{
	struct limpet_plan plan = {0};
	struct limpet_err err = {0};

	(void)state;
	begin();
	add("main");
	add("malloc dlopen dlclose dlerror dl_iterate_phdr gnu_get_libc_version");
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_DLOPEN, &plan, &err),
		0);
	assert_int_equal(plan.method, LIMPET_METHOD_DLOPEN);
	assert_non_null(strstr(plan.reason, "LIMPET_LOAD=dlopen"));
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_OUTSIDE, &plan, &err),
		0);
	assert_int_equal(plan.method, LIMPET_METHOD_OUTSIDE);
	assert_non_null(strstr(plan.reason, "LIMPET_LOAD=map"));
	assert_int_equal(plan.start.method, LIMPET_METHOD_OUTSIDE);
	modules.fully_static = true;
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_OUTSIDE, &plan, &err),
		0);
	assert_non_null(strstr(plan.reason, "none"));
	assert_int_equal(
		limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_DLOPEN, &plan, &err),
		-ENOTSUP);
	assert_non_null(strstr(err.message, "the program has none"));
	assert_non_null(strstr(err.hint, "LIMPET_LOAD"));
	modules.fully_static = false;
}

/* Nothing of libc is there yet; an agent that an earlier limpet left does not count. */
static void test_starting(void **state)
{
	(void)state;
	for (int agent = 0; agent < 2; agent++) {
		struct limpet_plan plan = {0};
		struct limpet_err err = {0};

		begin();
		add("main");
		add("dl_iterate_phdr dlopen dlclose gnu_get_libc_version");
		list[1].agent = agent;
		assert_int_equal(limpet_plan_choose_method(&modules, &entries, LIMPET_METHOD_ANY,
							   &plan, &err),
				 agent ? -ENOENT : 0);
		assert_true(!agent || strstr(err.message, "starting"));
	}
}

/* A library may have any number of symbols at malloc's address, of any length. */
static void test_other_names_are_bounded(void **state)
{
	enum { NAMES = LIMPET_SLOT_ALIASES_MAX, LONG = LIMPET_SLOT_ALIAS_BYTES };
	static const struct {
		unsigned names, longest;
		size_t taken;
		bool left_out;
	} cases[] = {
		{NAMES, LONG - 1, NAMES, false},
		{NAMES + 1, LONG - 1, NAMES, true},
		{NAMES - 1, LONG, NAMES - 2, true},
	};
	static Elf64_Sym symbols[NAMES + 3];
	static char strings[LONG + 1 + sizeof("malloc")];

	(void)state;
	memset(strings, 'x', LONG);
	strings[LONG] = '\0';
	strcpy(strings + LONG + 1, "malloc");
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		struct limpet_slot_aliases aliases = {0};

		begin();
		add("malloc");
		list[0].in_list = true;
		list[0].symbols = symbols;
		list[0].symbol_count = cases[i].names + 2;
		list[0].strings = strings;
		list[0].string_bytes = sizeof(strings);
		for (unsigned k = 0; k <= cases[i].names; k++)
			symbols[k + 1] = (Elf64_Sym){.st_name = k ? LONG - cases[i].longest + k - 1
								  : LONG + 1,
						     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
						     .st_shndx = 1,
						     .st_value = 1};
		assert_int_equal(limpet_slot_aliases_find(&modules, &aliases), 0);
		assert_int_equal(aliases.count, cases[i].taken);
		assert_int_equal(aliases.left_out, cases[i].left_out);
		limpet_slot_aliases_done(&aliases);
	}
}

enum { KEPT_PAGES = 3, KEPT_PAGE = 4096, KEPT_WORDS = KEPT_PAGE / 8 };

static struct limpet_slot variable(const uint64_t *word, uint16_t kind)
{
	return (struct limpet_slot){.address = (uint64_t)(uintptr_t)word,
				    .old_value = *word,
				    .module = list[1].bias,
				    .module_phdr = list[1].phdr,
				    .kind = kind};
}

/* The second module's data is at `words`; the first is the program, with a word of its own. */
static void begin_kept(uint64_t *words)
{
	begin();
	modules.count = 2;
	list[0].bias = 1000;
	list[1].bias = 2000;
	list[1].start = (uint64_t)(uintptr_t)words;
	list[1].end = list[1].start + (KEPT_PAGES * KEPT_PAGE);
	assert_int_equal(limpet_proc_maps_read(getpid(), &modules.maps), 0);
}

/* Of three variables one has a value that the module has kept; of that one the program has a copy.
 * A second variable with the value of the third is none that was kept. */
static void test_variables_whose_values_were_kept(void **state)
{
	uint64_t *words = mmap(NULL, KEPT_PAGES * KEPT_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t copy = 0x4711, other = 0x4711;
	const struct limpet_copied copied = {.from = (uint64_t)(uintptr_t)words,
					     .to = (uint64_t)(uintptr_t)&copy,
					     .bytes = sizeof(copy)};
	const struct limpet_kept_values kept = {
		.modules = &modules, .copied = &copied, .copied_count = 1};

	(void)state;
	assert_true(words != MAP_FAILED);
	for (unsigned keeps = 0; keeps < 2; keeps++) {
		struct limpet_slot slots[6];
		uint32_t count = LIMPET_COUNT_OF(slots);
		unsigned char present;

		words[0] = 0x4711;
		words[1] = words[KEPT_WORDS] = 0x4712;
		words[2] = 0x4711;
		words[KEPT_WORDS + 1] = keeps ? 0x4711 : 0;
		begin_kept(words);
		slots[0] = variable(&words[0], LIMPET_SLOT_OF_VARIABLE);
		slots[1] = variable(&words[1], LIMPET_SLOT_OF_VARIABLE);
		slots[2] = variable(&words[2], LIMPET_SLOT_OF_CALLS);
		slots[3] = variable(&words[KEPT_WORDS], LIMPET_SLOT_OF_VARIABLE);
		slots[4] = variable(&copy, LIMPET_SLOT_OF_VARIABLE);
		slots[5] = variable(&other, LIMPET_SLOT_OF_VARIABLE);
		slots[4].module = slots[5].module = list[0].bias;
		assert_int_equal(limpet_kept_values_leave(&kept, slots, &count), keeps ? 2 : 0);
		assert_int_equal(count, keeps ? 4 : 6);
		assert_int_equal(slots[0].address, (uint64_t)(uintptr_t)&words[keeps ? 1 : 0]);
		assert_int_equal(slots[count - 1].address, (uint64_t)(uintptr_t)&other);
		/* What was never touched still is not. */
		assert_int_equal(mincore(&words[2 * KEPT_WORDS], KEPT_PAGE, &present), 0);
		assert_int_equal(present & 1, 0);
		limpet_proc_maps_done(&modules.maps);
	}
	munmap(words, KEPT_PAGES * KEPT_PAGE);
}

/* What cannot be looked for may be there. */
static void test_variables_of_a_module_that_cannot_be_read(void **state)
{
	uint64_t *words = mmap(NULL, KEPT_PAGES * KEPT_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct limpet_kept_values kept = {.modules = &modules};
	struct limpet_slot slot;
	uint32_t count = 1;

	(void)state;
	assert_true(words != MAP_FAILED);
	words[0] = 0x4711;
	begin_kept(words);
	slot = variable(&words[0], LIMPET_SLOT_OF_VARIABLE);
	modules.target = target_of(0); /* nobody's */
	assert_int_equal(limpet_kept_values_leave(&kept, &slot, &count), 1);
	assert_int_equal(count, 0);
	limpet_proc_maps_done(&modules.maps);
	munmap(words, KEPT_PAGES * KEPT_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dlopen_in_libc),
		cmocka_unit_test(test_dlopen_in_libdl),
		cmocka_unit_test(test_no_libdl),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_exceptions),
		cmocka_unit_test(test_starting),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_other_names_are_bounded),
		cmocka_unit_test(test_variables_whose_values_were_kept),
		cmocka_unit_test(test_variables_of_a_module_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
