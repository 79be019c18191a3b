#include "injector/remote/agent_image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/arch.h"
#include "common/err.h"
#include "injector/proc/memory.h"

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

static uint64_t page_down(uint64_t value)
{
	return value / PAGE * PAGE;
}

static uint64_t page_up(uint64_t value)
{
	return page_down(value + PAGE - 1);
}

static int add_segment(struct limpet_agent_image *image, const Elf64_Phdr *phdr)
{
	struct limpet_boot_map *layout = &image->layout;
	const uint64_t end = page_up(phdr->p_vaddr + phdr->p_memsz);
	struct limpet_boot_mapping mapping = {
		.offset = page_down(phdr->p_vaddr),
		.protection = (phdr->p_flags & PF_X ? LIMPET_PROT_CODE : LIMPET_PROT_DATA) |
			      image->readable,
	};

	if (layout->mapping_count == LIMPET_BOOT_MAPPINGS_MAX)
		return -ENOEXEC;
	mapping.bytes = end - mapping.offset;
	layout->mappings[layout->mapping_count++] = mapping;
	if (end > layout->bytes)
		layout->bytes = end;
	return 0;
}

/* Before relocation, as in the file. */
static int find_relocations(const Elf64_Phdr *dynamic_phdr, struct limpet_agent_image *image)
{
	const uint8_t *bytes = image->bytes;
	const Elf64_Dyn *dynamic =
		(const Elf64_Dyn *)(const void *)(bytes + dynamic_phdr->p_offset);

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		/* In the first segment, whose addresses equal its offsets in the file. */
		if (dynamic->d_tag == DT_RELA)
			image->relocations =
				(const Elf64_Rela *)(const void *)(bytes + dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_RELASZ)
			image->relocation_count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
		else if (dynamic->d_tag == DT_JMPREL || dynamic->d_tag == DT_RELR)
			return -ENOEXEC;
	}
	for (uint64_t i = 0; i < image->relocation_count; i++)
		if (!LIMPET_ARCH_RELOCATION_IS_RELATIVE(ELF64_R_TYPE(image->relocations[i].r_info)))
			return -ENOEXEC;
	return 0;
}

static int lay_out(const Elf64_Phdr *phdrs, unsigned count, struct limpet_agent_image *image)
{
	struct limpet_boot_map *layout = &image->layout;
	int error = 0;

	memset(layout, 0, sizeof(*layout));
	for (unsigned i = 0; i < count && !error; i++) {
		if (phdrs[i].p_type == PT_LOAD) {
			error = add_segment(image, &phdrs[i]);
		} else if (phdrs[i].p_type == PT_DYNAMIC) {
			error = find_relocations(&phdrs[i], image);
		}
	}
	return error;
}

static int compose(const Elf64_Phdr *phdrs, unsigned count, struct limpet_agent_image *image)
{
	image->memory = calloc(1, image->layout.bytes);
	if (!image->memory)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		if (phdrs[i].p_type != PT_LOAD)
			continue;
		memcpy(image->memory + phdrs[i].p_vaddr, image->bytes + phdrs[i].p_offset,
		       phdrs[i].p_filesz);
		image->memory_bytes = phdrs[i].p_vaddr + phdrs[i].p_filesz;
	}
	image->memory[0] = 0;
	for (uint64_t i = 0; i < image->relocation_count; i++)
		if (image->relocations[i].r_offset + sizeof(uint64_t) > image->memory_bytes)
			return -ENOEXEC;
	return 0;
}

static int parse(struct limpet_agent_image *image)
{
	const uint8_t *bytes = limpet_agent_image;
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)bytes;
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(const void *)(bytes + head->e_phoff);
	uint64_t boot, thunks;
	int error;

	image->bytes = bytes;
	image->readable = limpet_memory_is_forced() ? 0 : PROT_READ;
	image->size = (size_t)(limpet_agent_image_end - bytes);
	for (unsigned i = 0; i < head->e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD && phdrs[i].p_flags & PF_X) {
			image->text_offset = phdrs[i].p_offset;
			image->text_address = phdrs[i].p_vaddr;
			image->text_bytes = page_up(phdrs[i].p_filesz);
		} else if (phdrs[i].p_type == PT_NOTE &&
			   phdrs[i].p_filesz >= sizeof(Elf64_Nhdr) + 4 + sizeof(image->build_id)) {
			memcpy(image->build_id, bytes + phdrs[i].p_offset + sizeof(Elf64_Nhdr) + 4,
			       sizeof(image->build_id));
		}
	}
	boot = symbol_value(bytes, head, SHT_SYMTAB, "limpet_boot_entry");
	thunks = symbol_value(bytes, head, SHT_SYMTAB, "limpet_thunk_code");
	image->info_offset = symbol_value(bytes, head, SHT_DYNSYM, "limpet_agent_info");
	if (!image->text_bytes || image->text_offset % PAGE || boot < image->text_address ||
	    thunks < image->text_address || thunks % PAGE || !image->info_offset)
		return -ENOEXEC;
	image->boot_entry = boot - image->text_address;
	image->thunks_offset = image->text_offset + thunks - image->text_address;
	error = lay_out(phdrs, head->e_phnum, image);
	return error ? error : compose(phdrs, head->e_phnum, image);
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

void limpet_agent_image_relocate(const struct limpet_agent_image *image, uint64_t start)
{
	for (uint64_t i = 0; i < image->relocation_count; i++) {
		const Elf64_Rela *relocation = &image->relocations[i];
		const uint64_t value = start + (uint64_t)relocation->r_addend;

		memcpy(image->memory + relocation->r_offset, &value, sizeof(value));
	}
}

/* To get pages takes the kernel many times as long as to write to them, on a virtual machine most
 * of all: those that this file gives back are at hand then, on this processor. Twice as many, since
 * others want some, too. */
void limpet_agent_image_rehearse(void)
{
	const size_t size = (size_t)(limpet_agent_image_end - limpet_agent_image);
	LIMPET_CLOSE int file = memfd_create("rehearsal", MFD_CLOEXEC);

	for (unsigned i = 0; i < 2 && file >= 0; i++)
		(void)!write(file, limpet_agent_image, size);
}
