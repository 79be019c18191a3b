#include "agent/late_modules.h"

#include <elf.h>

#include "agent/agent.h"
#include "agent/record.h"

/* Returns its length with the end; 0: it cannot be read, or does not fit. */
static uint32_t copy_path(const char *path, volatile char *to)
{
	for (uint32_t i = 0; path && i < LIMPET_LATE_PATH; i++) {
		if (!limpet_loaded_may_read(path + i, 1))
			return 0;
		to[i] = path[i];
		if (!path[i])
			return i ? i + 1 : 0;
	}
	return 0;
}

static uint64_t aligned(uint64_t bytes, uint64_t alignment)
{
	return (bytes + alignment - 1) & ~(alignment - 1);
}

/* The note of type NT_GNU_BUILD_ID, by the notes' header: its size, and *ret_id; 0: none. */
static uint32_t find_in_notes(uint64_t at, uint64_t end, uint64_t alignment, const uint8_t **ret_id)
{
	static const char gnu[] = "GNU";

	while (end - at >= sizeof(Elf64_Nhdr) &&
	       limpet_loaded_may_read((const void *)(uintptr_t)at, sizeof(Elf64_Nhdr))) {
		const Elf64_Nhdr note = *(const Elf64_Nhdr *)(uintptr_t)at;
		const uint64_t name = at + sizeof(note);
		const uint64_t content = name + aligned(note.n_namesz, alignment);
		const uint64_t next = content + aligned(note.n_descsz, alignment);

		if (next > end || next <= at ||
		    !limpet_loaded_may_read((const void *)(uintptr_t)name, next - name))
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(gnu) &&
		    !__builtin_memcmp((const void *)(uintptr_t)name, gnu, sizeof(gnu))) {
			*ret_id = (const uint8_t *)(uintptr_t)content;
			return note.n_descsz;
		}
		at = next;
	}
	return 0;
}

static uint32_t find_build_id(const struct limpet_image *image, const uint8_t **ret_id)
{
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(uintptr_t)image->phdr;
	uint32_t bytes = 0;

	for (uint64_t i = 0; i < image->phdr_count && !bytes; i++) {
		const uint64_t at = image->bias + phdrs[i].p_vaddr;

		if (phdrs[i].p_type == PT_NOTE && at >= image->low &&
		    phdrs[i].p_filesz <= image->high - at && at % 4 == 0)
			bytes = find_in_notes(at, at + phdrs[i].p_filesz,
					      phdrs[i].p_align == 8 ? 8 : 4, ret_id);
	}
	return bytes;
}

void limpet_late_module_note(const struct limpet_image *image)
{
	const uint32_t number = limpet_shm->late_count + 1;
	struct limpet_late_module *late = &limpet_shm->late[number % LIMPET_LATE_MODULES];
	const uint8_t *build_id = NULL;
	const uint32_t bytes = find_build_id(image, &build_id);

	if (!bytes || bytes > LIMPET_LATE_BUILD_ID)
		return;
	/* Pairs with limpet_late_modules_find() of the collector: 0 while it is being written. */
	__atomic_store_n(&late->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (!copy_path(image->name, late->path))
		return;
	late->start = image->low;
	late->end = image->high;
	late->bias = image->bias;
	late->gone = limpet_gone_find(limpet_shm->gone, limpet_shm->gone_places, image->low);
	late->build_id_bytes = bytes;
	for (uint32_t i = 0; i < bytes; i++)
		((volatile uint8_t *)late->build_id)[i] = build_id[i];
	__atomic_store_n(&late->number, number, __ATOMIC_RELEASE);
	__atomic_store_n(&limpet_shm->late_count, number, __ATOMIC_RELEASE);
}
