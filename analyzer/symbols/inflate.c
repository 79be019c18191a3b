#include "analyzer/symbols/inflate.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* What libelf allows zlib: a section that promises more only serves to use up memory. */
#define MOST_TIMES 1032u

/* libelf does not free what it did not allocate. */
struct inflated {
	struct inflated *next;
	max_align_t data[];
};
static struct inflated *all;
static bool failed;

static void *inflate(const Elf_Data *compressed, uint64_t bytes)
{
	const size_t from = compressed->d_size - sizeof(Elf64_Chdr);
	struct inflated *inflated;

	if (!bytes || bytes / MOST_TIMES > from)
		return NULL;
	inflated = malloc(sizeof(*inflated) + bytes);
	if (!inflated)
		return NULL;
	if (ZSTD_decompress(inflated->data, bytes,
			    (const uint8_t *)compressed->d_buf + sizeof(Elf64_Chdr),
			    from) != bytes) {
		free(inflated);
		return NULL;
	}
	inflated->next = all;
	all = inflated;
	return inflated->data;
}

/* Replaces the section's data, of both kinds that libelf has: it would make one from the other with
 * the sizes of before. */
static int replace(Elf_Scn *section, Elf64_Shdr *head)
{
	const Elf64_Chdr compressed = *elf64_getchdr(section);
	Elf_Data *raw = elf_rawdata(section, NULL), *data = elf_getdata(section, NULL);
	void *inflated;

	if (!raw || !data || !raw->d_buf || raw->d_size < sizeof(compressed))
		return -1;
	inflated = inflate(raw, compressed.ch_size);
	if (!inflated)
		return -1;
	head->sh_flags &= ~(Elf64_Xword)SHF_COMPRESSED;
	head->sh_size = compressed.ch_size;
	head->sh_addralign = compressed.ch_addralign;
	raw->d_buf = data->d_buf = inflated;
	raw->d_size = data->d_size = compressed.ch_size;
	raw->d_type = data->d_type = ELF_T_BYTE;
	raw->d_align = data->d_align = compressed.ch_addralign;
	return 1;
}

int limpet_inflate_section(Elf_Scn *section, int type, unsigned flags)
{
	Elf64_Shdr *head = elf64_getshdr(section);
	const Elf64_Chdr *compressed =
		head && head->sh_flags & SHF_COMPRESSED ? elf64_getchdr(section) : NULL;
	int result = compressed && !type && compressed->ch_type == ELFCOMPRESS_ZSTD
			     ? replace(section, head)
			     : limpet_libelf_compress(section, type, flags);

	failed |= result < 0;
	return result;
}

bool limpet_inflate_has_failed(void)
{
	return failed;
}

void limpet_inflate_done(void)
{
	while (all) {
		struct inflated *next = all->next;

		free(all);
		all = next;
	}
	failed = false;
}
