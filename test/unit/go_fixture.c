#include "test/unit/go_fixture.h"

#include <assert.h>
#include <elf.h>

/* All of the file is one segment. */
#define BASE 0x400000u
#define SEGMENTS 2u
/* Places in the file. */
#define DYNAMIC 0x100u
#define RELOCATIONS 0x140u
#define MODULE 0x240u
#define TREES 0x400u
#define TABLE 0x440u
/* Places in the table: parts with room to spare. */
#define NAMES 0x060u
#define UNITS 0x0c0u
#define FILES 0x0e0u
#define VALUES 0x120u
#define RECORDS 0x180u
#define SECOND_RECORD 0x80u
#define THIRD 0xe0u
#define TABLE_BYTES 0x280u

struct build {
	enum limpet_go_format format;
	enum go_fixture_kind kind;
	uint8_t *file;
	size_t relocations;
};

static void put(struct build *build, size_t at, uint64_t value, size_t width)
{
	assert(at + width <= GO_FIXTURE_ROOM);
	memcpy(build->file + at, &value, width);
}

static void put_text(struct build *build, size_t at, const char *text)
{
	memcpy(build->file + at, text, strlen(text) + 1);
}

static void put_pointer(struct build *build, size_t at, uint64_t value)
{
	const Elf64_Rela relocation = {.r_offset = BASE + at,
				       .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE),
				       .r_addend = (int64_t)value};

	if (build->kind != GO_FIXTURE_PIE) {
		put(build, at, value, 8);
		return;
	}
	memcpy(build->file + RELOCATIONS + build->relocations, &relocation, sizeof(relocation));
	build->relocations += sizeof(relocation);
}

/* ------------------------------------------------------------------ the table */

struct value {
	int value;
	unsigned bytes; /* for so many bytes of code */
};

/* Of small numbers. */
static uint32_t put_values(struct build *build, size_t *at, const struct value *list, size_t count)
{
	const size_t start = *at;
	int before = -1;

	for (size_t i = 0; i < count; i++) {
		int change = list[i].value - before;

		put(build, TABLE + VALUES + (*at)++,
		    (unsigned)(change < 0 ? -2 * change - 1 : 2 * change), 1);
		put(build, TABLE + VALUES + (*at)++, list[i].bytes, 1);
		before = list[i].value;
	}
	put(build, TABLE + VALUES + (*at)++, 0, 1);
	return (uint32_t)(start + (build->format == LIMPET_GO_2 ? VALUES : 0));
}

/* What is named by its place in a part is named by that in the table in Go 1.2. */
static uint32_t place(const struct build *build, uint32_t part, uint32_t offset)
{
	return offset + (build->format == LIMPET_GO_2 ? part : 0);
}

struct record {
	uint64_t start;
	uint32_t name, files, lines, inlined;
};

static void put_record(struct build *build, size_t at, const struct record *record)
{
	const bool narrow = build->format >= LIMPET_GO_18;
	const size_t word = narrow ? 4 : 8;
	static const size_t ends[] = {40, 44, 40, 44};
	const size_t end = ends[build->format];

	at += TABLE + (build->format == LIMPET_GO_2 ? 0 : RECORDS);
	put(build, at, record->start - (narrow ? GO_FIXTURE_TEXT : 0), word);
	put(build, at + word, record->name, 4);
	put(build, at + word + 16, record->files, 4);
	put(build, at + word + 20, record->lines, 4);
	put(build, at + word + 24, record->inlined ? 3 : 0, 4);
	put(build, at + end - 1, record->inlined ? 4 : 0, 1);
	if (!record->inlined)
		return;
	put(build, at + end + 8, record->inlined, 4);
	/* Without other data; before Go 1.18 the tree is a pointer, which is not followed. */
	for (unsigned i = 0; i < 3; i++)
		put(build, at + end + 12 + 4 * i, UINT32_MAX, 4);
	put(build, at + end + 24, 0, 4);
}

static void put_functions(struct build *build)
{
	const int first = build->format == LIMPET_GO_2;
	const struct value outer_files[] = {{first, 16}, {first + 1, 16}, {first, 32}},
			   outer_lines[] = {{10, 8}, {11, 8}, {5, 16}, {12, 32}},
			   outer_inlined[] = {{-1, 16}, {0, 16}, {-1, 32}}, loop[] = {{0, 64}},
			   plain_files[] = {{first, 32}}, plain_lines[] = {{20, 32}};
	struct record outer = {.start = GO_FIXTURE_OUTER, .name = place(build, NAMES, 1)};
	struct record plain = {.start = GO_FIXTURE_PLAIN, .name = place(build, NAMES, 12)};
	size_t at = 1; /* place 0 means no values */

	outer.files = put_values(build, &at, outer_files, 3);
	outer.lines = put_values(build, &at, outer_lines, 4);
	outer.inlined = build->kind == GO_FIXTURE_LOOP ? put_values(build, &at, loop, 1)
						       : put_values(build, &at, outer_inlined, 3);
	plain.files = put_values(build, &at, plain_files, 1);
	plain.lines = put_values(build, &at, plain_lines, 1);
	put_record(build, (build->format == LIMPET_GO_2 ? RECORDS : 0) + SECOND_RECORD, &outer);
	put_record(build, (build->format == LIMPET_GO_2 ? RECORDS : 0) + THIRD, &plain);
}

static void put_starts(struct build *build)
{
	const bool narrow = build->format >= LIMPET_GO_18, old = build->format == LIMPET_GO_2;
	const size_t width = narrow ? 4 : 8, at = TABLE + (old ? 16 : RECORDS);
	const uint64_t base = narrow ? GO_FIXTURE_TEXT : 0, records = old ? RECORDS : 0;
	const uint64_t list[] = {GO_FIXTURE_OUTER - base, records + SECOND_RECORD,
				 GO_FIXTURE_PLAIN - base, records + THIRD, GO_FIXTURE_END - base};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		put(build, at + i * width, list[i], width);
	if (old)
		put(build, at + 5 * width, FILES, 4);
}

static void put_table(struct build *build)
{
	static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	static const uint32_t parts[] = {NAMES, UNITS, FILES, VALUES, RECORDS};
	const size_t first = TABLE + (build->format == LIMPET_GO_16 ? 24 : 32);

	put(build, TABLE, magics[build->format], 4);
	put(build, TABLE + 6, 1, 1);
	put(build, TABLE + 7, 8, 1);
	put(build, TABLE + 8, 2, 8);
	put_text(build, TABLE + NAMES + 1, "main.outer");
	put_text(build, TABLE + NAMES + 12, "main.(*T).plain");
	put_text(build, TABLE + NAMES + 28, "main.inner");
	put_text(build, TABLE + FILES + 0x10, "/src/outer.go");
	put_text(build, TABLE + FILES + 0x20, "/src/inner.go");
	put_functions(build);
	put_starts(build);
	if (build->format == LIMPET_GO_2) {
		put(build, TABLE + FILES, 3, 4);
		put(build, TABLE + FILES + 4, FILES + 0x10, 4);
		put(build, TABLE + FILES + 8, FILES + 0x20, 4);
		return;
	}
	put(build, TABLE + 16, 2, 8);
	for (size_t i = 0; i < 5; i++)
		put(build, first + 8 * i, parts[i], 8);
	put(build, TABLE + UNITS, 0x10, 4);
	put(build, TABLE + UNITS + 4, 0x20, 4);
	if (build->format >= LIMPET_GO_18)
		put_pointer(build, TABLE + 24, GO_FIXTURE_TEXT);
}

/* ------------------------------------------------------------------ around it */

static void put_module(struct build *build)
{
	const size_t trees = build->format == LIMPET_GO_20 ? 320 : 304;
	const unsigned caller = build->kind == GO_FIXTURE_LOOP ? 16 : 8;

	put_pointer(build, MODULE, BASE + TABLE);
	put_pointer(build, MODULE + 8, BASE + TABLE + NAMES);
	put_pointer(build, MODULE + 160, GO_FIXTURE_OUTER);
	put_pointer(build, MODULE + 176, GO_FIXTURE_TEXT);
	put_pointer(build, MODULE + trees, BASE + TREES);
	put(build, TREES + (build->format == LIMPET_GO_20 ? 4 : 12), 28, 4);
	put(build, TREES + (build->format == LIMPET_GO_20 ? 8 : 16), caller, 4);
}

static void put_head(struct build *build)
{
	Elf64_Ehdr head = {.e_ident = ELFMAG,
			   .e_type = build->kind == GO_FIXTURE_PIE ? ET_DYN : ET_EXEC,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(head),
			   .e_ehsize = sizeof(head),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = SEGMENTS};
	const Elf64_Phdr segments[SEGMENTS] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W | PF_X,
		 .p_vaddr = BASE,
		 .p_filesz = TABLE + TABLE_BYTES,
		 .p_memsz = 0x2000,
		 .p_align = 4096},
		{.p_type = PT_DYNAMIC,
		 .p_flags = PF_R | PF_W,
		 .p_offset = DYNAMIC,
		 .p_vaddr = BASE + DYNAMIC,
		 .p_filesz = MODULE - DYNAMIC,
		 .p_memsz = MODULE - DYNAMIC,
		 .p_align = 8},
	};
	const Elf64_Dyn dynamic[] = {
		{.d_tag = DT_RELA, .d_un.d_ptr = BASE + RELOCATIONS},
		{.d_tag = DT_RELASZ, .d_un.d_val = build->relocations},
	};

	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	head.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(build->file, &head, sizeof(head));
	memcpy(build->file + sizeof(head), segments, sizeof(segments));
	memcpy(build->file + DYNAMIC, dynamic, sizeof(dynamic));
}

size_t go_fixture_make(enum limpet_go_format format, enum go_fixture_kind kind,
		       uint8_t file[GO_FIXTURE_ROOM])
{
	struct build build = {.format = format, .kind = kind, .file = file};

	memset(file, 0, GO_FIXTURE_ROOM);
	put_table(&build);
	if (format >= LIMPET_GO_18 && kind != GO_FIXTURE_NO_MODULE)
		put_module(&build);
	put_head(&build);
	return TABLE + TABLE_BYTES;
}
