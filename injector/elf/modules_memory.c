#include "injector/elf/modules_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "injector/proc/memory.h"
#include "injector/proc/pagemap.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
/* Files that stay open, by the module's address. */
#define FILES 64u
/* Times of files and of processes may be as far apart. */
#define START_MARGIN_S 2

struct limpet_module_memory {
	const struct limpet_target *target;
	struct limpet_maps maps; /* borrowed */
	int pagemap;
	time_t started; /* the process, by the clock of files; 0: unknown */
	struct file {
		uint64_t start, inode; /* of the module; start 0: none */
		int fd;                /* -1: it cannot be read, or may be another by now */
	} files[FILES];
};

struct limpet_module_memory *limpet_module_memory_new(const struct limpet_target *target,
						      const struct limpet_maps *maps)
{
	struct limpet_module_memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->target = target;
	memory->maps = *maps;
	memory->pagemap = limpet_pagemap_open(target->pid);
	memory->started = limpet_proc_started(target->pid);
	return memory;
}

void limpet_module_memory_set_maps(struct limpet_module_memory *memory,
				   const struct limpet_maps *maps)
{
	if (memory)
		memory->maps = *maps;
}

void limpet_module_memory_free(struct limpet_module_memory *memory)
{
	if (!memory)
		return;
	if (memory->pagemap >= 0)
		close(memory->pagemap);
	limpet_module_memory_close_files(memory);
	free(memory);
}

void limpet_module_memory_close_files(struct limpet_module_memory *memory)
{
	for (size_t i = 0; memory && i < FILES; i++) {
		if (memory->files[i].start && memory->files[i].fd >= 0)
			close(memory->files[i].fd);
		memory->files[i] = (struct file){.fd = -1};
	}
}

/* On overlayfs a file that was written to after it was mapped is another one than the mapped one,
 * under the same number. One that the program may serve itself is not opened: a read would wait for
 * it. */
static int open_file(const struct limpet_module_memory *memory, const struct limpet_module *module)
{
	LIMPET_CLOSE int fd = limpet_module_hold(memory->target, module);
	struct stat status;

	if (fd < 0 || !memory->started || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
	    status.st_ctime >= memory->started - START_MARGIN_S)
		return -1;
	return limpet_take_fd(&fd);
}

static int file_of(struct limpet_module_memory *memory, const struct limpet_module *module)
{
	struct file *file = &memory->files[module->start / PAGE % FILES];

	if (file->start == module->start && file->inode == module->inode)
		return file->fd;
	if (file->start && file->fd >= 0)
		close(file->fd);
	*file = (struct file){module->start, module->inode, open_file(memory, module)};
	return file->fd;
}

/* Whether the mapping is of the module's file. Others lie between its parts at times. */
static bool is_of_file(const struct limpet_map *map, const struct limpet_module *module)
{
	return map->inode && limpet_module_is_of(module, map);
}

/* The bytes of absent pages of one mapping; what the file lacks in its last page is zero. Returns
 * how many, or -errno. */
static ssize_t read_absent(struct limpet_module_memory *memory, const struct limpet_module *module,
			   const struct limpet_map *map, uint64_t address, void *ret, size_t bytes)
{
	uint64_t in_page;
	ssize_t got;
	int file;

	if (!map->inode && !map->path[0]) {
		memset(ret, 0, bytes);
		return (ssize_t)bytes;
	}
	file = is_of_file(map, module) ? file_of(memory, module) : -1;
	if (file < 0)
		return -ENOENT;
	got = pread(file, ret, bytes, (off_t)(map->offset + (address - map->start)));
	if (got <= 0)
		return got < 0 ? limpet_errno() : -EFAULT;
	in_page = (map->offset + (address - map->start) + (uint64_t)got) % PAGE;
	while ((size_t)got < bytes && in_page && in_page++ < PAGE)
		((uint8_t *)ret)[got++] = 0;
	return got;
}

/* The beginning of the range, at least one byte. Returns how many, or -errno. */
static ssize_t read_part(struct limpet_module_memory *memory, const struct limpet_module *module,
			 uint64_t address, void *ret, size_t bytes)
{
	const struct limpet_map *map = limpet_proc_maps_find(&memory->maps, address);
	bool exist = true;

	if (map && map->perms[0] == 'r') {
		ssize_t part;

		if (bytes > map->end - address)
			bytes = (size_t)(map->end - address);
		part = limpet_pagemap_run(memory->pagemap, address, bytes, &exist);
		if (part > 0)
			bytes = (size_t)part;
		if (part > 0 && !exist) {
			part = read_absent(memory, module, map, address, ret, bytes);
			if (part > 0)
				return part;
		}
	}
	return limpet_memory_read_some(memory->target->pid, address, ret, bytes);
}

ssize_t limpet_module_read_some(const struct limpet_target *target,
				const struct limpet_module *module, uint64_t address, void *ret,
				size_t bytes)
{
	size_t done = 0;

	if (module->agent)
		return limpet_memory_read_own_some(target->pid, address, ret, bytes);
	if (!module->memory || address < module->start || address >= module->end)
		return limpet_memory_read_some(target->pid, address, ret, bytes);
	while (done < bytes) {
		ssize_t got = read_part(module->memory, module, address + done,
					(uint8_t *)ret + done, bytes - done);

		if (got < 0 && !done)
			return got;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

ssize_t limpet_module_memory_read_map(struct limpet_module_memory *memory,
				      const struct limpet_map *map, void *ret, size_t bytes)
{
	const struct limpet_module alone = {.path = map->path,
					    .start = map->start,
					    .end = map->end,
					    .map_start = map->start,
					    .map_end = map->end,
					    .dev_major = map->dev_major,
					    .dev_minor = map->dev_minor,
					    .inode = map->inode,
					    .memory = memory};

	return limpet_module_read_some(memory->target, &alone, map->start, ret, bytes);
}

int limpet_module_read_file(const struct limpet_target *target, const struct limpet_module *module,
			    const struct limpet_maps *maps, uint64_t address, void *ret,
			    size_t bytes)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, address);
	LIMPET_CLOSE int file =
		map && is_of_file(map, module) ? limpet_module_hold(target, module) : -ENOENT;

	if (file < 0)
		return file;
	return pread(file, ret, bytes, (off_t)(map->offset + (address - map->start))) ==
			       (ssize_t)bytes
		       ? 0
		       : -EIO;
}

int limpet_module_read(const struct limpet_target *target, const struct limpet_module *module,
		       uint64_t address, void *ret, size_t bytes)
{
	ssize_t got = limpet_module_read_some(target, module, address, ret, bytes);

	if (got < 0)
		return (int)got;
	return (size_t)got == bytes ? 0 : -EFAULT;
}
