#include "common/file_io.h"

#include <errno.h>
#include <unistd.h>

#include "common/err.h"

ssize_t limpet_pread(int fd, void *ret, size_t count, uint64_t offset)
{
	size_t done = 0;

	while (done < count) {
		ssize_t got = pread(fd, (char *)ret + done, count - done, (off_t)(offset + done));

		if (got < 0 && errno != EINTR)
			return limpet_errno();
		if (got == 0)
			break;
		done += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)done;
}

int limpet_pwrite(int fd, const void *bytes, size_t count, uint64_t offset, size_t *ret_done)
{
	size_t done = 0;
	int error = 0;

	while (done < count && !error) {
		ssize_t wrote = pwrite(fd, (const char *)bytes + done, count - done,
				       (off_t)(offset + done));

		if (wrote > 0)
			done += (size_t)wrote;
		else if (wrote == 0)
			error = -EIO;
		else if (errno != EINTR)
			error = limpet_errno();
	}
	if (ret_done)
		*ret_done = done;
	return error;
}
