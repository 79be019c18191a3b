/* The allocation family by name, and the slots that lead to it: hostile tables, and those of real
 * files as libelf reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/family.h"
#include "common/slots.h"

#define PAGE 4096u

/* A copy that ends where its page does: one byte further there is nothing. */
struct guarded {
	uint8_t *map;
	size_t map_bytes;
	void *data;
};

static struct guarded guard(const void *from, size_t bytes)
{
	struct guarded guarded = {.map_bytes = (bytes + PAGE - 1) / PAGE * PAGE + PAGE};

	guarded.map = mmap(NULL, guarded.map_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(guarded.map != MAP_FAILED);
	assert_int_equal(mprotect(guarded.map + guarded.map_bytes - PAGE, PAGE, PROT_NONE), 0);
	guarded.data = guarded.map + guarded.map_bytes - PAGE - bytes;
	memcpy(guarded.data, from, bytes);
	return guarded;
}

static void unguard(struct guarded *guarded)
{
	munmap(guarded->map, guarded->map_bytes);
}

/* ------------------------------------------------------------------ names */

static const struct {
	const char *name;
	enum limpet_op op;
	unsigned flags;
} known_names[] = {
	{"malloc", LIMPET_OP_MALLOC, 0},
	{"calloc", LIMPET_OP_CALLOC, 0},
	{"realloc", LIMPET_OP_REALLOC, 0},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, 0},
	{"free", LIMPET_OP_FREE, 0},
	{"cfree", LIMPET_OP_FREE, 0},
	{"free_sized", LIMPET_OP_FREE, 0},
	{"free_aligned_sized", LIMPET_OP_FREE, 0},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0},
	{"aligned_alloc", LIMPET_OP_MEMALIGN, 0},
	{"memalign", LIMPET_OP_MEMALIGN, 0},
	{"valloc", LIMPET_OP_MALLOC, 0},
	{"pvalloc", LIMPET_OP_MALLOC, 0},
	{"__libc_malloc", LIMPET_OP_MALLOC, 0},
	{"__libc_free", LIMPET_OP_FREE, 0},
	{"__libc_memalign", LIMPET_OP_MEMALIGN, 0},
	{"__libc_reallocarray", LIMPET_OP_REALLOCARRAY, 0},
	{"mallctl", LIMPET_OP_CONTROL, LIMPET_FAMILY_CONTROL},
	{"mallctlbymib", LIMPET_OP_CONTROL_BY_MIB, LIMPET_FAMILY_CONTROL},
	{"mmap", LIMPET_OP_MMAP, LIMPET_FAMILY_MMAP},
	{"mmap64", LIMPET_OP_MMAP, LIMPET_FAMILY_MMAP},
	{"munmap", LIMPET_OP_MUNMAP, LIMPET_FAMILY_MMAP},
	{"mremap", LIMPET_OP_MREMAP, LIMPET_FAMILY_MMAP},
	{"_Znwm", LIMPET_OP_MALLOC, LIMPET_FAMILY_CXX},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", LIMPET_OP_MALLOC, LIMPET_FAMILY_CXX},
	{"_ZdlPv", LIMPET_OP_FREE, LIMPET_FAMILY_CXX},
	{"_ZdaPvSt11align_val_tRKSt9nothrow_t", LIMPET_OP_FREE, LIMPET_FAMILY_CXX},
	{"dlopen", LIMPET_OP_LOADER, LIMPET_FAMILY_LOADER},
	{"dlmopen", LIMPET_OP_LOADER, LIMPET_FAMILY_LOADER},
	{"dlclose", LIMPET_OP_LOADER, LIMPET_FAMILY_LOADER | LIMPET_FAMILY_CLOSES},
	{"_dl_find_object", LIMPET_OP_FINDER, LIMPET_FAMILY_FINDER},
};

static void test_names_and_what_they_do(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(known_names); i++) {
		int found = limpet_family_find(known_names[i].name, 64);

		assert_in_range(found, 0, LIMPET_FAMILY_COUNT - 1);
		assert_string_equal(limpet_family[found].name, known_names[i].name);
		assert_int_equal(limpet_family[found].op, known_names[i].op);
		assert_int_equal(limpet_family[found].flags, known_names[i].flags);
	}
	/* The start message has room for all of them. */
	assert_true(LIMPET_FAMILY_COUNT <= LIMPET_MAX_FAMILY);
	for (int i = 0; i < LIMPET_FAMILY_COUNT; i++) {
		assert_true(strlen(limpet_family[i].name) < sizeof(limpet_family[i].name));
		assert_int_equal(limpet_family_find(limpet_family[i].name, UINT64_MAX), i);
		assert_in_range(limpet_family[i].op, LIMPET_OP_NONE + 1, LIMPET_OP_COUNT - 1);
	}
}

static void test_names_that_are_not_ours(void **state)
{
	static const char *const strangers[] = {
		"",
		"m",
		"mallo",
		"malloc_usable_size",
		"mallocx",
		"Malloc",
		"xmalloc",
		"free_hook",
		"__libc_mallopt",
		"__libc_freeres",
		"mallctlnametomib",
		"_Zn",
		"_ZnwmX",
		"_ZdlPvX",
		"posix_memaligned",
		"mmap65",
		"dlopen2",
		"realloca",
		"rea\0lloc",
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(strangers); i++)
		assert_int_equal(limpet_family_find(strangers[i], 64), -1);
}

/* A name counts only with its NUL, and not a byte behind the limit is looked at. */
static void test_names_at_the_end_of_memory(void **state)
{
	(void)state;
	for (int i = 0; i < LIMPET_FAMILY_COUNT; i++) {
		size_t length = strlen(limpet_family[i].name);

		for (size_t bytes = 0; bytes <= length + 1; bytes++) {
			struct guarded text = guard(limpet_family[i].name, bytes);

			assert_int_equal(limpet_family_find(text.data, bytes),
					 bytes == length + 1 ? i : -1);
			unguard(&text);
		}
	}
}

/* ------------------------------------------------------------------ tables made by hand */

struct found {
	struct limpet_slot_found slots[64];
	unsigned count, stop_after;
};

static int note(const struct limpet_slot_found *slot, void *context)
{
	struct found *found = context;

	assert_true(found->count < LIMPET_COUNT_OF(found->slots));
	found->slots[found->count++] = *slot;
	return found->count == found->stop_after ? 42 : 0;
}

static const char strings[] = "\0malloc\0free\0puts\0calloc\0mallo";
#define NAME_MALLOC 1
#define NAME_FREE 8
#define NAME_PUTS 13
#define NAME_CALLOC 18
#define NAME_CUT (sizeof(strings) - 6) /* "mallo", its NUL left out of the table */
#define STRING_BYTES (sizeof(strings) - 1)

static const Elf64_Sym symbols[] = {
	{0},
	{.st_name = NAME_MALLOC, .st_shndx = SHN_UNDEF},
	{.st_name = NAME_FREE, .st_shndx = 12, .st_value = 0x4711},
	{.st_name = NAME_PUTS},
	{.st_name = NAME_CALLOC, .st_shndx = SHN_UNDEF, .st_value = 0x1030}, /* canonical PLT */
	{.st_name = NAME_CUT},
	{.st_name = STRING_BYTES},
	{.st_name = UINT32_MAX},
};

static void test_what_makes_a_slot(void **state)
{
	const Elf64_Rela relocations[] = {
		{0x10, ELF64_R_INFO(1ull, R_X86_64_JUMP_SLOT), 0},
		{0x18, ELF64_R_INFO(1ull, R_X86_64_GLOB_DAT), 0},
		{0x20, ELF64_R_INFO(1ull, R_X86_64_64), 0},
		{0x28, ELF64_R_INFO(1ull, R_X86_64_64), 8}, /* &malloc + 8 is not malloc */
		{0x30, ELF64_R_INFO(1ull, R_X86_64_64), -1},
		{0x38, ELF64_R_INFO(1ull, R_X86_64_RELATIVE), 0},
		{0x40, ELF64_R_INFO(1ull, R_X86_64_COPY), 0},
		{0x48, ELF64_R_INFO(1ull, R_X86_64_DTPMOD64), 0},
		{0x50, ELF64_R_INFO(1ull, R_X86_64_PC32), -4},     /* an instruction's operand */
		{0x58, ELF64_R_INFO(0ull, R_X86_64_JUMP_SLOT), 0}, /* no symbol */
		{0x60, ELF64_R_INFO(3ull, R_X86_64_JUMP_SLOT), 0}, /* puts */
		{0x68, ELF64_R_INFO(2ull, R_X86_64_GLOB_DAT), 0},
		{0x70, ELF64_R_INFO(4ull, R_X86_64_JUMP_SLOT), 0},
	};
	const struct limpet_slot_tables tables = {
		.rela = {relocations, NULL},
		.rela_count = {LIMPET_COUNT_OF(relocations), 99},
		.symbols = symbols,
		.symbol_count = LIMPET_COUNT_OF(symbols),
		.strings = strings,
		.string_bytes = STRING_BYTES,
	};
	struct found found = {.count = 0};
	const unsigned malloc_index = (unsigned)limpet_family_find("malloc", 7);
	const struct limpet_slot_found *slots = found.slots;

	(void)state;
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 6);
	assert_int_equal(slots[0].offset, 0x10);
	assert_int_equal(slots[0].type, R_X86_64_JUMP_SLOT);
	assert_int_equal(slots[0].symbol, malloc_index);
	assert_false(slots[0].defined);
	assert_int_equal(slots[1].offset, 0x18);
	assert_int_equal(slots[1].type, R_X86_64_GLOB_DAT);
	assert_int_equal(slots[2].offset, 0x20);
	assert_int_equal(slots[2].type, R_X86_64_64);
	assert_int_equal(slots[3].offset, 0x50);
	assert_int_equal(slots[3].type, R_X86_64_PC32);
	assert_int_equal(slots[4].offset, 0x68);
	assert_int_equal(slots[4].symbol, limpet_family_find("free", 5));
	assert_int_equal(slots[4].symbol_value, 0x4711);
	assert_true(slots[4].defined);
	assert_int_equal(slots[5].offset, 0x70);
	assert_int_equal(slots[5].symbol_value, 0x1030);
	assert_false(slots[5].defined);
}

static int free_by_word(uint64_t offset, void *context)
{
	(void)context;
	return offset == 0x68 ? limpet_family_find("free", 5) : -1;
}

/* By a name that is known to stand for a function, or by what the word holds; operands in code have
 * no such word. */
static void test_other_names(void **state)
{
	const Elf64_Rela relocations[] = {
		{0x60, ELF64_R_INFO(3ull, R_X86_64_JUMP_SLOT), 0}, /* puts */
		{0x68, ELF64_R_INFO(3ull, R_X86_64_GLOB_DAT), 0},
		{0x68, ELF64_R_INFO(3ull, R_X86_64_PLT32), 0},
		{0x70, ELF64_R_INFO(1ull, R_X86_64_GLOB_DAT), 0}, /* malloc */
	};
	const struct limpet_slot_alias alias = {(char *)(uintptr_t) "puts", 0x4711,
						(uint32_t)limpet_family_find("calloc", 7)};
	struct limpet_slot_tables tables = {
		.rela = {relocations, NULL},
		.rela_count = {LIMPET_COUNT_OF(relocations), 0},
		.symbols = symbols,
		.symbol_count = LIMPET_COUNT_OF(symbols),
		.strings = strings,
		.string_bytes = STRING_BYTES,
		.by_word = free_by_word,
	};
	struct found found = {.count = 0};

	(void)state;
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 2);
	assert_int_equal(found.slots[0].offset, 0x68);
	assert_int_equal(found.slots[0].symbol, limpet_family_find("free", 5));
	assert_null(found.slots[0].alias);
	assert_null(found.slots[1].alias);
	tables.aliases = &alias;
	tables.alias_count = 1;
	found.count = 0;
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 4);
	assert_ptr_equal(found.slots[0].alias, &alias);
	assert_int_equal(found.slots[0].symbol, alias.symbol);
	assert_null(found.slots[3].alias);
}

/* Both tables, in their order; the callback's answer ends the scan. */
static void test_both_tables_and_the_end(void **state)
{
	const Elf64_Rela first[] = {{8, ELF64_R_INFO(1ull, R_X86_64_GLOB_DAT), 0}};
	const Elf64_Rela second[] = {{16, ELF64_R_INFO(1ull, R_X86_64_JUMP_SLOT), 0},
				     {24, ELF64_R_INFO(2ull, R_X86_64_JUMP_SLOT), 0}};
	struct limpet_slot_tables tables = {
		.rela = {first, second},
		.rela_count = {1, 2},
		.symbols = symbols,
		.symbol_count = LIMPET_COUNT_OF(symbols),
		.strings = strings,
		.string_bytes = STRING_BYTES,
	};
	struct found found = {.count = 0};

	(void)state;
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 3);
	assert_int_equal(found.slots[2].offset, 24);
	for (unsigned stop = 1; stop <= 3; stop++) {
		found = (struct found){.stop_after = stop};
		assert_int_equal(limpet_slots_scan(&tables, note, &found), 42);
		assert_int_equal(found.count, stop);
	}
	tables.rela_count[0] = tables.rela_count[1] = 0;
	found = (struct found){.count = 0};
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 0);
}

/* Indices and names that lead out of their tables are no slots, and are never followed. */
static void test_hostile_indices(void **state)
{
	const Elf64_Rela relocations[] = {
		{0x10, ELF64_R_INFO(5ull, R_X86_64_JUMP_SLOT), 0}, /* name without a NUL */
		{0x18, ELF64_R_INFO(6ull, R_X86_64_JUMP_SLOT), 0}, /* at the end of the strings */
		{0x20, ELF64_R_INFO(7ull, R_X86_64_JUMP_SLOT), 0}, /* far behind it */
		{0x28, ELF64_R_INFO(8ull, R_X86_64_JUMP_SLOT), 0}, /* one symbol too far */
		{0x30, ELF64_R_INFO((uint64_t)UINT32_MAX, R_X86_64_GLOB_DAT), 0},
		{UINT64_MAX, ELF64_R_INFO(1ull, R_X86_64_64), 0}, /* the caller's to check */
	};
	struct guarded rela = guard(relocations, sizeof(relocations));
	struct guarded table = guard(symbols, sizeof(symbols));
	struct guarded text = guard(strings, STRING_BYTES);
	const struct limpet_slot_tables tables = {
		.rela = {NULL, rela.data},
		.rela_count = {7, LIMPET_COUNT_OF(relocations)},
		.symbols = table.data,
		.symbol_count = LIMPET_COUNT_OF(symbols),
		.strings = text.data,
		.string_bytes = STRING_BYTES,
	};
	struct found found = {.count = 0};

	(void)state;
	assert_int_equal(limpet_slots_scan(&tables, note, &found), 0);
	assert_int_equal(found.count, 1);
	assert_true(found.slots[0].offset == UINT64_MAX);
	unguard(&rela);
	unguard(&table);
	unguard(&text);
}

/* Any bytes at all, at the end of memory. */
static void test_noise(void **state)
{
	uint64_t random = 0x9e3779b97f4a7c15ull;
	uint8_t bytes[24 * 64];

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct guarded rela, table, text;
		struct limpet_slot_tables tables = {.symbol_count = 64};
		struct found found = {.stop_after = 60};

		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(random >> 56) & (round % 3 ? 0x0f : 0xff);
		}
		rela = guard(bytes, sizeof(bytes));
		table = guard(bytes, sizeof(bytes));
		text = guard(strings, STRING_BYTES);
		tables.rela[0] = rela.data;
		tables.rela_count[0] = 64;
		tables.symbols = table.data;
		tables.strings = text.data;
		tables.string_bytes = STRING_BYTES;
		limpet_slots_scan(&tables, note, &found);
		for (unsigned i = 0; i < found.count; i++)
			assert_true(found.slots[i].symbol < LIMPET_FAMILY_COUNT);
		unguard(&rela);
		unguard(&table);
		unguard(&text);
	}
}

/* ------------------------------------------------------------------ real files */

struct expected {
	uint64_t offset, value;
	uint32_t type;
	bool defined, seen;
	char name[64];
};

struct file {
	uint8_t *bytes;
	size_t size;
	Elf *elf;
	struct limpet_slot_tables tables;
	struct expected *expected;
	size_t count;
	const char *path;
};

static bool is_family(const char *name)
{
	for (int i = 0; i < LIMPET_FAMILY_COUNT; i++)
		if (!strcmp(name, limpet_family[i].name))
			return true;
	return false;
}

/* By section headers, which our own reader never looks at. */
static void expect_section(struct file *file, Elf_Scn *section, const GElf_Shdr *head)
{
	Elf_Data *data = elf_getdata(section, NULL);
	Elf_Scn *symbol_section = elf_getscn(file->elf, head->sh_link);
	Elf_Data *symbol_data = elf_getdata(symbol_section, NULL);
	GElf_Shdr symbol_head;

	assert_non_null(gelf_getshdr(symbol_section, &symbol_head));
	for (size_t i = 0; i < head->sh_size / head->sh_entsize; i++) {
		struct expected *expected;
		GElf_Rela rela;
		GElf_Sym symbol;
		const char *name;

		assert_non_null(gelf_getrela(data, (int)i, &rela));
		if (GELF_R_SYM(rela.r_info) == 0 || rela.r_addend != 0 ||
		    (GELF_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
		     GELF_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT &&
		     GELF_R_TYPE(rela.r_info) != R_X86_64_64))
			continue;
		assert_non_null(gelf_getsym(symbol_data, (int)GELF_R_SYM(rela.r_info), &symbol));
		name = elf_strptr(file->elf, symbol_head.sh_link, symbol.st_name);
		assert_non_null(name);
		if (!is_family(name))
			continue;
		file->expected =
			realloc(file->expected, (file->count + 1) * sizeof(*file->expected));
		assert_non_null(file->expected);
		expected = &file->expected[file->count++];
		*expected = (struct expected){.offset = rela.r_offset,
					      .value = symbol.st_value,
					      .type = (uint32_t)GELF_R_TYPE(rela.r_info),
					      .defined = symbol.st_shndx != SHN_UNDEF};
		strncpy(expected->name, name, sizeof(expected->name) - 1);
	}
}

/* Where a file's own address lies in the file. */
static const void *at_address(const struct file *file, uint64_t address)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file->bytes;
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(const void *)(file->bytes + head->e_phoff);

	for (int i = 0; i < head->e_phnum; i++)
		if (phdrs[i].p_type == PT_LOAD && address >= phdrs[i].p_vaddr &&
		    address < phdrs[i].p_vaddr + phdrs[i].p_filesz)
			return file->bytes + phdrs[i].p_offset + (address - phdrs[i].p_vaddr);
	return NULL;
}

/* By the dynamic section, as the loader and limpet do. */
static void find_tables(struct file *file)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file->bytes;
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(const void *)(file->bytes + head->e_phoff);
	const Elf64_Dyn *dynamic = NULL;

	for (int i = 0; i < head->e_phnum; i++)
		if (phdrs[i].p_type == PT_DYNAMIC)
			dynamic =
				(const Elf64_Dyn *)(const void *)(file->bytes + phdrs[i].p_offset);
	assert_non_null(dynamic);
	file->tables.symbol_count = UINT32_MAX;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		uint64_t value = dynamic->d_un.d_val;

		switch (dynamic->d_tag) {
		case DT_RELA:
			file->tables.rela[0] = at_address(file, value);
			break;
		case DT_RELASZ:
			file->tables.rela_count[0] = value / sizeof(Elf64_Rela);
			break;
		case DT_JMPREL:
			file->tables.rela[1] = at_address(file, value);
			break;
		case DT_PLTRELSZ:
			file->tables.rela_count[1] = value / sizeof(Elf64_Rela);
			break;
		case DT_SYMTAB:
			file->tables.symbols = at_address(file, value);
			break;
		case DT_STRTAB:
			file->tables.strings = at_address(file, value);
			break;
		case DT_STRSZ:
			file->tables.string_bytes = value;
			break;
		default:
			break;
		}
	}
}

static int tick_off(const struct limpet_slot_found *slot, void *context)
{
	struct file *file = context;

	for (size_t i = 0; i < file->count; i++) {
		struct expected *expected = &file->expected[i];

		if (expected->seen || expected->offset != slot->offset ||
		    expected->type != slot->type ||
		    strcmp(expected->name, limpet_family[slot->symbol].name) != 0)
			continue;
		assert_int_equal(expected->value, slot->symbol_value);
		assert_int_equal(expected->defined, slot->defined);
		expected->seen = true;
		return 0;
	}
	fail_msg("%s: %s at 0x%lx is not in the file's tables", file->path,
		 limpet_family[slot->symbol].name, (unsigned long)slot->offset);
	return 0;
}

/* Answers the number of slots; -1: there is no such file here. */
static int compare_file(const char *path)
{
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct file file = {.path = path};
	Elf_Scn *section = NULL;
	struct stat status;

	if (fd < 0)
		return -1;
	assert_int_equal(fstat(fd, &status), 0);
	file.size = (size_t)status.st_size;
	file.bytes = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(file.bytes != MAP_FAILED);
	elf_version(EV_CURRENT);
	file.elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(file.elf);
	while ((section = elf_nextscn(file.elf, section)) != NULL) {
		GElf_Shdr head;

		assert_non_null(gelf_getshdr(section, &head));
		if (head.sh_type == SHT_RELA && head.sh_flags & SHF_ALLOC && head.sh_size)
			expect_section(&file, section, &head);
	}
	find_tables(&file);
	assert_int_equal(limpet_slots_scan(&file.tables, tick_off, &file), 0);
	for (size_t i = 0; i < file.count; i++)
		if (!file.expected[i].seen)
			fail_msg("%s: %s at 0x%lx was not found", path, file.expected[i].name,
				 (unsigned long)file.expected[i].offset);
	elf_end(file.elf);
	munmap(file.bytes, file.size);
	free(file.expected);
	return (int)file.count;
}

static void test_real_files(void **state)
{
	static const char *const others[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libm.so.6",
		"/lib/x86_64-linux-gnu/libz.so.1",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/bin/node",
		"/usr/bin/python3.11",
		"/usr/bin/redis-server",
		"/lib64/libc.so.6",
		"/usr/lib64/libstdc++.so.6",
	};
	unsigned files = 0, slots = 0;

	(void)state;
	assert_true(compare_file("/proc/self/exe") > 3);
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++) {
		int count = compare_file(others[i]);

		if (count < 0)
			continue;
		files++;
		slots += (unsigned)count;
		if (strstr(others[i], "libc.so"))
			assert_true(count >= 4);
	}
	assert_true(files >= 3);
	assert_true(slots > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_what_they_do),
		cmocka_unit_test(test_names_that_are_not_ours),
		cmocka_unit_test(test_names_at_the_end_of_memory),
		cmocka_unit_test(test_what_makes_a_slot),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_both_tables_and_the_end),
		cmocka_unit_test(test_hostile_indices),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_real_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
