#include "injector/agent_image.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define PAGE 4096u

extern const uint8_t limpet_agent_image[], limpet_agent_image_end[];

static uint64_t symbol_value(const uint8_t *bytes, const Elf64_Ehdr *head, uint32_t table_type,
			     const char *name)
{
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(bytes + head->e_shoff);

	for (unsigned i = 0; i < head->e_shnum; i++) {
		const Elf64_Sym *symbols;
		const char *strings;

		if (sections[i].sh_type != table_type)
			continue;
		symbols = (const Elf64_Sym *)(const void *)(bytes + sections[i].sh_offset);
		strings = (const char *)bytes + sections[sections[i].sh_link].sh_offset;
		for (uint64_t k = 0; k < sections[i].sh_size / sizeof(*symbols); k++)
			if (!strcmp(strings + symbols[k].st_name, name))
				return symbols[k].st_value;
	}
	return 0;
}

static int parse(struct limpet_agent_image *image)
{
	const uint8_t *bytes = limpet_agent_image;
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)bytes;
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(const void *)(bytes + head->e_phoff);
	uint64_t text_address = 0, boot;

	image->bytes = bytes;
	image->size = (size_t)(limpet_agent_image_end - bytes);
	for (unsigned i = 0; i < head->e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD && phdrs[i].p_flags & PF_X) {
			image->text_offset = phdrs[i].p_offset;
			text_address = phdrs[i].p_vaddr;
			image->text_bytes = (phdrs[i].p_filesz + PAGE - 1) / PAGE * PAGE;
		} else if (phdrs[i].p_type == PT_NOTE &&
			   phdrs[i].p_filesz >= sizeof(Elf64_Nhdr) + 4 + sizeof(image->build_id)) {
			memcpy(image->build_id, bytes + phdrs[i].p_offset + sizeof(Elf64_Nhdr) + 4,
			       sizeof(image->build_id));
		}
	}
	boot = symbol_value(bytes, head, SHT_SYMTAB, "limpet_boot_entry");
	image->info_offset = symbol_value(bytes, head, SHT_DYNSYM, "limpet_agent_info");
	if (!image->text_bytes || image->text_offset % PAGE || boot < text_address ||
	    !image->info_offset)
		return -ENOEXEC;
	image->boot_entry = boot - text_address;
	return 0;
}

int limpet_agent_image_get(const struct limpet_agent_image **ret)
{
	static struct limpet_agent_image image;

	if (!image.bytes) {
		int error = parse(&image);

		if (error) {
			image.bytes = NULL;
			return error;
		}
	}
	*ret = &image;
	return 0;
}
