#include "analyzer/symbols/go_file.h"

#include <elf.h>
#include <errno.h>

/* No real file has more of them. */
#define SEGMENTS_MAX 64u
#define DYNAMIC_MAX 4096u
/* Places that are examined closely because they may be the module's data. */
#define CANDIDATES_MAX 8u

/* Of struct moduledata, in 64-bit programs; its start has not changed since Go 1.16. */
#define MODULE_NAMES 8u
#define MODULE_FIRST 160u
#define MODULE_TEXT 176u
#define MODULE_TREES_18 304u
#define MODULE_TREES_20 320u
#define HEADER_TEXT 24u

struct image {
	struct limpet_go_bytes file;
	Elf64_Ehdr head;
	Elf64_Phdr segments[SEGMENTS_MAX];
	unsigned segment_count;
	struct limpet_go_bytes relocations; /* .rela.dyn */
};

/* ------------------------------------------------------------------ the file */

static struct limpet_go_bytes from(struct limpet_go_bytes bytes, uint64_t offset)
{
	if (offset > bytes.left)
		return (struct limpet_go_bytes){.at = bytes.at};
	return (struct limpet_go_bytes){bytes.at + offset, bytes.left - (size_t)offset};
}

static struct limpet_go_bytes part(struct limpet_go_bytes bytes, uint64_t offset, uint64_t limit)
{
	bytes = from(bytes, offset);
	if (bytes.left > limit)
		bytes.left = (size_t)limit;
	return bytes;
}

static bool read_head(struct image *image)
{
	Elf64_Ehdr *head = &image->head;
	unsigned count;

	if (!limpet_go_read(image->file, 0, head, sizeof(*head)) ||
	    memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_phentsize != sizeof(Elf64_Phdr))
		return false;
	count = head->e_phnum < SEGMENTS_MAX ? head->e_phnum : SEGMENTS_MAX;
	for (unsigned i = 0; i < count; i++) {
		Elf64_Phdr *segment = &image->segments[image->segment_count];

		if (!limpet_go_read(from(image->file, head->e_phoff), i * sizeof(*segment), segment,
				    sizeof(*segment)))
			return false;
		image->segment_count += segment->p_type == PT_LOAD || segment->p_type == PT_DYNAMIC;
	}
	return true;
}

static struct limpet_go_bytes segment_bytes(const struct image *image, const Elf64_Phdr *segment)
{
	return part(image->file, segment->p_offset, segment->p_filesz);
}

/* What is loaded at `address`, up to the end of its segment in the file. */
static struct limpet_go_bytes loaded(const struct image *image, uint64_t address)
{
	for (unsigned i = 0; i < image->segment_count; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && address - segment->p_vaddr < segment->p_filesz)
			return from(segment_bytes(image, segment), address - segment->p_vaddr);
	}
	return (struct limpet_go_bytes){.at = NULL};
}

static bool find_section(const struct image *image, const char *name, Elf64_Shdr *ret)
{
	const Elf64_Ehdr *head = &image->head;
	const struct limpet_go_bytes table = from(image->file, head->e_shoff);
	struct limpet_go_bytes names;
	Elf64_Shdr section;

	if (!head->e_shoff || head->e_shentsize != sizeof(section) ||
	    !limpet_go_read(table, head->e_shstrndx * sizeof(section), &section, sizeof(section)))
		return false;
	names = part(image->file, section.sh_offset, section.sh_size);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		char found[32];

		if (!limpet_go_read(table, i * sizeof(section), &section, sizeof(section)))
			return false;
		if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_ALLOC) &&
		    limpet_go_read(names, section.sh_name, found, strlen(name) + 1) &&
		    !memcmp(found, name, strlen(name) + 1)) {
			*ret = section;
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------------ pointers */

static void find_relocations(struct image *image)
{
	uint64_t address = 0, bytes = 0;

	for (unsigned i = 0; i < image->segment_count; i++) {
		struct limpet_go_bytes list = segment_bytes(image, &image->segments[i]);
		Elf64_Dyn entry;

		if (image->segments[i].p_type != PT_DYNAMIC)
			continue;
		for (uint64_t k = 0; k < DYNAMIC_MAX; k++) {
			if (!limpet_go_read(list, k * sizeof(entry), &entry, sizeof(entry)) ||
			    entry.d_tag == DT_NULL)
				break;
			if (entry.d_tag == DT_RELA)
				address = entry.d_un.d_ptr;
			else if (entry.d_tag == DT_RELASZ)
				bytes = entry.d_un.d_val;
		}
	}
	if (address)
		image->relocations = part(loaded(image, address), 0, bytes);
}

/* The pointer at `address`; in a position-independent program it may be in the relocations only. */
static uint64_t pointer_at(const struct image *image, uint64_t address)
{
	Elf64_Rela relocation;
	uint64_t value;

	if (!limpet_go_read(loaded(image, address), 0, &value, sizeof(value)))
		return 0;
	if (value)
		return value;
	for (size_t at = 0; limpet_go_read(image->relocations, at, &relocation, sizeof(relocation));
	     at += sizeof(relocation))
		if (relocation.r_offset == address &&
		    ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE)
			return (uint64_t)relocation.r_addend;
	return 0;
}

/* ------------------------------------------------------------------ the table */

/* Of Go 1.2 to 1.15: one table, with everything's offset from its start. */
static bool read_old(struct limpet_go_bytes table, struct limpet_go_file *ret)
{
	uint32_t files;

	ret->starts = from(table, 16);
	ret->records = ret->names = ret->values = table;
	if (ret->count >= ret->starts.left / 16 ||
	    !limpet_go_read(ret->starts, 16 * ret->count + 8, &files, sizeof(files)))
		return false;
	ret->files = from(table, files);
	return true;
}

static bool read_parts(struct limpet_go_bytes table, struct limpet_go_file *ret)
{
	const unsigned first = ret->format == LIMPET_GO_16 ? 24 : 32;
	uint64_t offsets[5];

	if (!limpet_go_read(table, first, offsets, sizeof(offsets)))
		return false;
	for (unsigned i = 0; i < 5; i++)
		if (offsets[i] < first || offsets[i] >= table.left)
			return false;
	ret->names = from(table, offsets[0]);
	ret->units = from(table, offsets[1]);
	ret->files = from(table, offsets[2]);
	ret->values = from(table, offsets[3]);
	ret->records = ret->starts = from(table, offsets[4]);
	return ret->count < ret->starts.left / (ret->format == LIMPET_GO_16 ? 16 : 8);
}

static bool read_header(struct limpet_go_bytes table, struct limpet_go_file *ret)
{
	static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	uint32_t magic;
	uint8_t rest[4]; /* 0, 0, quantum, bytes of a pointer */

	*ret = (struct limpet_go_file){.format = LIMPET_GO_2, .table = table};
	if (!limpet_go_read(table, 0, &magic, sizeof(magic)) ||
	    !limpet_go_read(table, 4, rest, sizeof(rest)) ||
	    !limpet_go_read(table, 8, &ret->count, sizeof(ret->count)))
		return false;
	while (magic != magics[ret->format])
		if (ret->format++ == LIMPET_GO_20)
			return false;
	ret->quantum = rest[2];
	if (rest[0] || rest[1] || !rest[2] || rest[2] > 4 || rest[3] != 8 || !ret->count)
		return false;
	return ret->format == LIMPET_GO_2 ? read_old(table, ret) : read_parts(table, ret);
}

/* By name, or by its first bytes: a linker may have merged it with other data (.data.rel.ro of a
 * position-independent program), and some tools remove the names. */
static bool find_table(const struct image *image, struct limpet_go_file *ret, uint64_t *ret_address)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	Elf64_Shdr section;

	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		if (find_section(image, names[i], &section) &&
		    read_header(part(image->file, section.sh_offset, section.sh_size), ret)) {
			*ret_address = section.sh_addr;
			return true;
		}
	/* Only of a Go program: reading the whole file takes time. */
	if (image->head.e_shnum && !find_section(image, ".go.buildinfo", &section))
		return false;
	for (unsigned i = 0; i < image->segment_count; i++) {
		const struct limpet_go_bytes all = segment_bytes(image, &image->segments[i]);

		for (size_t at = 0; image->segments[i].p_type == PT_LOAD && at < all.left; at += 8)
			if (all.at[at] >= 0xf0 && read_header(from(all, at), ret)) {
				*ret_address = image->segments[i].p_vaddr + at;
				return true;
			}
	}
	return false;
}

/* ------------------------------------------------------------------ what it is relative to */

/* Whether the runtime's description of the module is at `module`; sets `text` and `trees`. */
static bool read_module(const struct image *image, uint64_t table, uint64_t module,
			struct limpet_go_file *ret)
{
	const uint64_t trees = ret->format == LIMPET_GO_18 ? MODULE_TREES_18 : MODULE_TREES_20;
	const uint64_t names = table + (uint64_t)(ret->names.at - ret->table.at);
	uint64_t text;
	uint32_t first;

	if (!limpet_go_read(ret->starts, 0, &first, sizeof(first)))
		return false;
	text = pointer_at(image, module + MODULE_TEXT);
	if (!text || pointer_at(image, module) != table ||
	    pointer_at(image, module + MODULE_NAMES) != names ||
	    pointer_at(image, module + MODULE_FIRST) != text + first)
		return false;
	ret->text = text;
	ret->trees = loaded(image, pointer_at(image, module + trees));
	return true;
}

/* In data, or in the relocations of a position-independent program. */
static bool find_module(const struct image *image, uint64_t table, struct limpet_go_file *ret)
{
	unsigned candidates = 0;
	Elf64_Rela relocation;
	uint64_t value;

	for (unsigned i = 0; i < image->segment_count; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		const struct limpet_go_bytes all = segment_bytes(image, segment);

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
			continue;
		for (size_t at = 0; limpet_go_read(all, at, &value, sizeof(value)); at += 8)
			if (value == table && candidates++ < CANDIDATES_MAX &&
			    read_module(image, table, segment->p_vaddr + at, ret))
				return true;
	}
	for (size_t at = 0; candidates < CANDIDATES_MAX &&
			    limpet_go_read(image->relocations, at, &relocation, sizeof(relocation));
	     at += sizeof(relocation))
		if ((uint64_t)relocation.r_addend == table && ++candidates &&
		    read_module(image, table, relocation.r_offset, ret))
			return true;
	return false;
}

int limpet_go_file_find(const uint8_t *file, size_t bytes, struct limpet_go_file *ret)
{
	struct image image = {.file = {file, bytes}};
	Elf64_Shdr section;
	uint64_t table;

	if (!read_head(&image) || !find_table(&image, ret, &table))
		return -ENOENT;
	/* Absolute addresses; a position-independent program has them in its relocations only. */
	if (ret->format < LIMPET_GO_18)
		return image.head.e_type == ET_EXEC ? 0 : -ENOENT;
	find_relocations(&image);
	if (find_module(&image, table, ret))
		return 0;
	/* Until Go 1.25 the header has it, too. */
	ret->text = pointer_at(&image, table + HEADER_TEXT);
	if (!ret->text && find_section(&image, ".text", &section))
		ret->text = section.sh_addr;
	return ret->text ? 0 : -ENOENT;
}
