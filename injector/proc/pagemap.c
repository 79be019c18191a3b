#include "injector/proc/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

#define PAGE 4096u
/* Per request: 2 MiB. */
#define READ_PAGES 512u
/* Present, swapped out (Documentation/admin-guide/mm/pagemap.rst). */
#define EXISTS (UINT64_C(3) << 62)

int limpet_pagemap_open(pid_t pid)
{
	return limpet_proc_open_of(limpet_proc_resident(pid), "pagemap", O_RDONLY);
}

ssize_t limpet_pagemap_run(int pagemap, uint64_t address, size_t bytes, bool *ret_exist)
{
	const uint64_t first = address / PAGE;
	size_t count = (size_t)((address + bytes - 1) / PAGE - first + 1), pages = 1, room;
	uint64_t entries[READ_PAGES];
	ssize_t got;

	if (count > READ_PAGES)
		count = READ_PAGES;
	got = pread(pagemap, entries, count * sizeof(entries[0]),
		    (off_t)(first * sizeof(entries[0])));
	if (got < (ssize_t)sizeof(entries[0]))
		return got < 0 ? limpet_errno() : -EFAULT;
	count = (size_t)got / sizeof(entries[0]);
	*ret_exist = entries[0] & EXISTS;
	while (pages < count && !(entries[pages] & EXISTS) == !*ret_exist)
		pages++;
	room = pages * PAGE - address % PAGE;
	return (ssize_t)(room < bytes ? room : bytes);
}
