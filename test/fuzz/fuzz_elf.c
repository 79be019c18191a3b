/* An executable as preflight reads it, and its symbols' names as seal reads them: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/symbols/demangle.h"
#include "common/err.h"
#include "injector/elf/allocator_texts.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/hidden/slot_calls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool visit_name(void *context, const char *name)
{
	char *plain = limpet_demangle(name), *brief = plain ? limpet_demangle_shorten(plain) : NULL;

	*(size_t *)context += brief ? strlen(brief) : 0;
	free(brief);
	free(plain);
	return true;
}

static bool visit_text(void *context, const char *at, size_t before, size_t after)
{
	unsigned sum = 0;

	for (size_t i = 0; i < before; i++)
		sum += (unsigned char)at[-(ptrdiff_t)i - 1];
	for (size_t i = 0; i < after; i++)
		sum += (unsigned char)at[i];
	*(size_t *)context += sum;
	return true;
}

/* Whatever is chosen lies within the code of the file. */
static void find_slot_calls(struct limpet_elf_file *file, size_t size)
{
	struct limpet_slot_call *list, chosen[4];
	size_t count, number;

	if (limpet_slot_calls_find(file, &list, &count) < 0)
		return;
	number = limpet_slot_calls_choose(list, count, chosen, 4);
	if (number > 4)
		abort();
	for (size_t i = 0; i < count; i++)
		if (!list[i].bytes || list[i].offset > size || list[i].tested > list[i].places)
			abort();
	free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct limpet_program program;
	struct limpet_elf_file *file;
	size_t sum = 0;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (limpet_program_read(fd, &program) == 0 &&
	    strnlen(program.interpreter, sizeof(program.interpreter)) ==
		    sizeof(program.interpreter))
		abort();
	if (limpet_elf_file_open(fd, &file) == 0) {
		(void)limpet_elf_file_symbols(file, visit_name, &sum);
		(void)limpet_elf_file_search(file, "ma", visit_text, &sum);
		(void)limpet_allocator_texts_find(file);
		find_slot_calls(file, size);
		limpet_elf_file_free(file);
	}
	close(fd);
	return 0;
}
