#include "test/unit/unwind_fixture.h"
#include "test/unit/unwind_check.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint8_t *fixture_map_table(const void *table, size_t bytes, uint64_t start,
			   struct limpet_unwind_module *module, struct limpet_walk_map *ret_map)
{
	const struct limpet_unwind_table *head = table;
	uint8_t *arena = aligned_alloc(16, 16 + bytes); /* offset 0 would mean: no table */

	assert_non_null(arena);
	memcpy(arena + 16, table, bytes);
	*module = (struct limpet_unwind_module){
		.start = start,
		.end = start + head->covered,
		.table = 16,
		.table_bytes = bytes,
		.live = 1,
	};
	*ret_map = (struct limpet_walk_map){
		.modules = module,
		.arena = arena,
		.sorted = 1,
		.count = 1,
	};
	return arena;
}

static void find_sections(struct fixture_file *file)
{
	struct limpet_unwind_input *input = &file->input;
	size_t segments, names, file_bytes;
	const char *file_start = elf_rawfile(file->elf, &file_bytes);
	Elf_Scn *section = NULL;

	assert_non_null(file_start);

	assert_int_equal(elf_getphdrnum(file->elf, &segments), 0);
	assert_int_equal(elf_getshdrstrndx(file->elf, &names), 0);
	input->start = UINT64_MAX;
	for (size_t i = 0; i < segments; i++) {
		GElf_Phdr segment;

		assert_non_null(gelf_getphdr(file->elf, (int)i, &segment));
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
			continue;
		if (segment.p_vaddr < input->start)
			input->start = segment.p_vaddr;
		if (segment.p_vaddr + segment.p_memsz > input->end)
			input->end = segment.p_vaddr + segment.p_memsz;
		if (!input->code && segment.p_offset + segment.p_filesz <= file_bytes) {
			input->code = (const uint8_t *)file_start + segment.p_offset;
			input->code_bytes = segment.p_filesz;
			input->code_address = segment.p_vaddr;
		}
	}
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		const char *name;
		Elf_Data *data;

		assert_non_null(gelf_getshdr(section, &header));
		name = elf_strptr(file->elf, names, header.sh_name);
		if (!name || strcmp(name, ".eh_frame") != 0)
			continue;
		data = elf_rawdata(section, NULL);
		assert_non_null(data);
		input->eh_frame = data->d_buf;
		input->eh_frame_bytes = data->d_size;
		input->eh_frame_address = header.sh_addr;
		input->eh_frame_whole = true;
	}
}

bool fixture_file_open(const char *path, struct fixture_file *ret_file)
{
	struct fixture_file *file = ret_file;
	size_t bytes;
	void *table;

	memset(file, 0, sizeof(*file));
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0)
		return false;
	elf_version(EV_CURRENT);
	file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	assert_non_null(file->elf);
	find_sections(file);
	assert_int_equal(limpet_unwind_compile(&file->input, &table, &bytes, &file->stats), 0);
	assert_int_equal(unwind_check(table, bytes), 0);
	file->arena = fixture_map_table(table, bytes, file->input.start, &file->module, &file->map);
	free(table);
	file->table = (const struct limpet_unwind_table *)(void *)(file->arena + 16);
	return true;
}

void fixture_file_close(struct fixture_file *file)
{
	elf_end(file->elf);
	close(file->fd);
	free(file->arena);
}

uint32_t *fixture_row_offsets(const struct limpet_unwind_table *table)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *index = (const uint32_t *)(const void *)(base + table->index_offset);
	const struct limpet_unwind_row *rows =
		(const struct limpet_unwind_row *)(const void *)(base + table->rows_offset);
	uint32_t *offsets = calloc((size_t)table->row_count + 1, sizeof(*offsets));

	assert_non_null(offsets);
	for (uint32_t bucket = 0; bucket < table->bucket_count; bucket++)
		for (uint32_t i = index[bucket]; i < index[bucket + 1]; i++)
			offsets[i] = (bucket << table->bucket_shift) + rows[i].low;
	return offsets;
}

static const uint8_t *at_address(uint64_t address)
{
	return (const uint8_t *)(uintptr_t)address;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct fixture_process *process = context;
	struct limpet_unwind_input input = {.start = UINT64_MAX};
	uint64_t header = 0, segment_end = 0;
	size_t header_bytes = 0, bytes;
	void *table;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_EH_FRAME) {
			header = start;
			header_bytes = segment->p_memsz;
		}
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		if (start < input.start)
			input.start = start;
		if (start + segment->p_memsz > input.end)
			input.end = start + segment->p_memsz;
	}
	if (!header || input.start > input.end ||
	    limpet_unwind_find_eh_frame(at_address(header), header_bytes, header,
					&input.eh_frame_address) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && input.eh_frame_address >= start &&
		    input.eh_frame_address < start + segment->p_memsz)
			segment_end = start + segment->p_memsz;
	}
	assert_true(segment_end > input.eh_frame_address);
	input.eh_frame = at_address(input.eh_frame_address);
	input.eh_frame_bytes = segment_end - input.eh_frame_address;
	assert_int_equal(limpet_unwind_compile(&input, &table, &bytes, NULL), 0);
	assert_int_equal(unwind_check(table, bytes), 0);

	process->modules =
		reallocarray(process->modules, process->map.count + 1, sizeof(*process->modules));
	process->arena = realloc(process->arena, process->arena_bytes + bytes);
	assert_true(process->modules && process->arena);
	memcpy(process->arena + process->arena_bytes, table, bytes);
	free(table);
	process->modules[process->map.count++] = (struct limpet_unwind_module){
		.start = input.start,
		.end = input.end,
		.table = process->arena_bytes,
		.table_bytes = bytes,
		.live = 1,
	};
	process->arena_bytes += bytes;
	return 0;
}

static int compare_modules(const void *a, const void *b)
{
	const struct limpet_unwind_module *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

void fixture_process_init(struct fixture_process *ret_process)
{
	struct fixture_process *process = ret_process;

	memset(process, 0, sizeof(*process));
	process->arena = malloc(16);
	process->arena_bytes = 16;
	dl_iterate_phdr(add_module, process);
	assert_true(process->map.count > 2);
	qsort(process->modules, process->map.count, sizeof(*process->modules), compare_modules);
	process->map.modules = process->modules;
	process->map.arena = process->arena;
	process->map.sorted = process->map.count;
	process->map.generation = 1;
}

void fixture_process_done(struct fixture_process *process)
{
	free(process->modules);
	free(process->arena);
}

void fixture_stack(uint64_t *ret_low, uint64_t *ret_high)
{
	pthread_attr_t attributes;
	size_t bytes;
	void *low;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
	assert_int_equal(pthread_attr_getstack(&attributes, &low, &bytes), 0);
	pthread_attr_destroy(&attributes);
	*ret_low = (uint64_t)(uintptr_t)low;
	*ret_high = *ret_low + bytes;
}

const char *fixture_own_module(const char *part)
{
	static char path[4096];
	struct link_map *list;
	void *self = dlopen(NULL, RTLD_NOW);

	assert_non_null(self);
	assert_int_equal(dlinfo(self, RTLD_DI_LINKMAP, &list), 0);
	path[0] = '\0';
	for (; list; list = list->l_next)
		if (strstr(list->l_name, part)) {
			assert_non_null(realpath(list->l_name, path));
			break;
		}
	dlclose(self);
	return path;
}
