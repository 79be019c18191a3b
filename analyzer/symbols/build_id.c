#include "analyzer/symbols/build_id.h"

#include <elf.h>
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#define NOTES_MAX (64u << 10)
/* Maximum number of headers that are read, of sections and of segments. */
#define HEADS_MAX 65536u
#define HEADS_AT_ONCE 64u
/* Of all notes together. */
#define ALL_NOTES_MAX (4u << 20)

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define OUR_ORDER ELFDATA2LSB
#else
#define OUR_ORDER ELFDATA2MSB
#endif

struct search {
	int fd;
	uint8_t *id;
	size_t id_bytes;
	uint64_t notes_bytes; /* that were read */
};

static bool read_at(int fd, void *ret, size_t bytes, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, ret, bytes, (off_t)offset) == (ssize_t)bytes;
}

static uint64_t aligned(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/* Reads the note at `at`, with `left` bytes up to the end. Returns its length, 0: it is longer. */
static uint64_t read_note(struct search *search, const uint8_t *at, uint64_t left, uint64_t align)
{
	static const char gnu[] = ELF_NOTE_GNU;
	Elf64_Nhdr head;
	uint64_t desc;

	if (left < sizeof(head))
		return 0;
	memcpy(&head, at, sizeof(head));
	desc = aligned(sizeof(head) + head.n_namesz, align);
	if (desc > left || head.n_descsz > left - desc)
		return 0;
	if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == sizeof(gnu) &&
	    !memcmp(at + sizeof(head), gnu, sizeof(gnu)) && head.n_descsz &&
	    head.n_descsz <= LIMPET_BUILD_ID_ROOM) {
		memcpy(search->id, at + desc, head.n_descsz);
		search->id_bytes = head.n_descsz;
	}
	return desc + aligned(head.n_descsz, align);
}

static void read_notes(struct search *search, uint64_t offset, uint64_t bytes, uint64_t align)
{
	LIMPET_FREE uint8_t *notes = NULL;
	uint64_t at = 0, step;

	if (!bytes || bytes > NOTES_MAX || search->notes_bytes > ALL_NOTES_MAX)
		return;
	search->notes_bytes += bytes;
	notes = malloc(bytes);
	if (!notes || !read_at(search->fd, notes, bytes, offset))
		return;
	while (!search->id_bytes && at < bytes) {
		step = read_note(search, notes + at, bytes - at, align == 8 ? 8 : 4);
		if (!step)
			return;
		at += step;
	}
}

static void read_sections(struct search *search, const Elf64_Ehdr *file)
{
	Elf64_Shdr heads[HEADS_AT_ONCE];
	uint64_t count = file->e_shnum;

	if (!file->e_shoff || file->e_shentsize != sizeof(heads[0]))
		return;
	/* More than e_shnum can hold: the first header has the number. */
	if (!count && read_at(search->fd, heads, sizeof(heads[0]), file->e_shoff))
		count = heads[0].sh_size;
	if (count > HEADS_MAX)
		count = HEADS_MAX;
	for (uint64_t i = 0; i < count && !search->id_bytes; i += HEADS_AT_ONCE) {
		uint64_t some = count - i < HEADS_AT_ONCE ? count - i : HEADS_AT_ONCE;

		if (!read_at(search->fd, heads, some * sizeof(heads[0]),
			     file->e_shoff + i * sizeof(heads[0])))
			return;
		for (uint64_t j = 0; j < some && !search->id_bytes; j++)
			if (heads[j].sh_type == SHT_NOTE)
				read_notes(search, heads[j].sh_offset, heads[j].sh_size,
					   heads[j].sh_addralign);
	}
}

static void read_segments(struct search *search, const Elf64_Ehdr *file)
{
	Elf64_Phdr head;

	if (!file->e_phoff || file->e_phentsize != sizeof(head))
		return;
	for (uint64_t i = 0; i < file->e_phnum && !search->id_bytes; i++) {
		if (!read_at(search->fd, &head, sizeof(head), file->e_phoff + i * sizeof(head)))
			return;
		if (head.p_type == PT_NOTE)
			read_notes(search, head.p_offset, head.p_filesz, head.p_align);
	}
}

int limpet_build_id_read(int fd, uint8_t ret_id[LIMPET_BUILD_ID_ROOM], size_t *ret_bytes)
{
	struct search search = {.fd = fd, .id = ret_id};
	unsigned char ident[EI_NIDENT];
	Elf64_Ehdr file;

	if (!read_at(fd, ident, sizeof(ident), 0) || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	if (ident[EI_CLASS] == ELFCLASS64 && ident[EI_DATA] == OUR_ORDER &&
	    read_at(fd, &file, sizeof(file), 0)) {
		/* In a file of debug information only, the segments' offsets are not valid; other
		 * files may have no sections. */
		read_sections(&search, &file);
		if (!search.id_bytes)
			read_segments(&search, &file);
	}
	*ret_bytes = search.id_bytes;
	return 0;
}
