/* Held by mappings of a file, shared and private. */
#include "planted.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

void plant(void)
{
	char path[] = "/tmp/limpet-leaks.XXXXXX";
	const int fd = mkostemp(path, 0);

	if (fd < 0 || unlink(path) || ftruncate(fd, 1 << 16))
		broken("a file in /tmp");
	for (int i = 0; i < 2; i++) {
		void **map = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
				  i ? MAP_SHARED : MAP_PRIVATE, fd, 0);

		if (map == MAP_FAILED)
			broken("mmap");
		for (int k = 0; k < 10; k++)
			map[100 + k] = make_object();
	}
	close(fd);
}
