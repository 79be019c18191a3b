/* Reads and writes of files that go on where the kernel stopped. */
#ifndef LIMPET_COMMON_FILE_IO_H
#define LIMPET_COMMON_FILE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many bytes it has read: fewer than `count` where the file ends before; or -errno. */
ssize_t limpet_pread(int fd, void *ret, size_t count, uint64_t offset);
/* 0, with all of them written; or -errno, and *ret_done (may be NULL) of them are. */
int limpet_pwrite(int fd, const void *bytes, size_t count, uint64_t offset, size_t *ret_done);

#endif
