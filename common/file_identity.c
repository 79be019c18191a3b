#include "common/file_identity.h"

#include <elf.h>
#include <endian.h>
#include <string.h>
#include <zlib.h>

#include "common/clock.h"

#define SEGMENTS_MAX 512u
#define SAMPLE_BYTES (16u << 10)
#define SAMPLES (LIMPET_FILE_IDENTITY_BYTES / SAMPLE_BYTES)
/* Every segment may end with a part of one; a step is rounded down. */
#define SAMPLES_MAX (SAMPLES + 1u + SEGMENTS_MAX)

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define OUR_ORDER ELFDATA2LSB
#else
#define OUR_ORDER ELFDATA2MSB
#endif

struct reading {
	int fd;
	uint64_t head_bytes; /* of the file: the ELF header says where sections are, strip changes
				it */
	uint64_t step;       /* from a sample to the next */
	unsigned samples;    /* so far */
	uint32_t checksum;
	uint8_t *buffer; /* SAMPLE_BYTES */
};

static bool read_at(int fd, void *ret, size_t bytes, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, ret, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Code and constants: the program has them in memory as they are in the file. */
static bool is_fixed(const Elf64_Phdr *segment)
{
	return segment->p_type == PT_LOAD && !(segment->p_flags & PF_W);
}

static int read_segments(int fd, const Elf64_Ehdr *file, Elf64_Phdr *ret_list, uint64_t *ret_bytes)
{
	struct stat status;
	bool has_code = false;

	*ret_bytes = 0;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (!read_at(fd, ret_list, file->e_phnum * sizeof(*ret_list), file->e_phoff))
		return -ENOEXEC;
	for (unsigned i = 0; i < file->e_phnum; i++) {
		if (!is_fixed(&ret_list[i]))
			continue;
		if (ret_list[i].p_filesz > (uint64_t)status.st_size ||
		    ret_list[i].p_offset > (uint64_t)status.st_size - ret_list[i].p_filesz)
			return -ENOEXEC;
		has_code |= ret_list[i].p_flags & PF_X && ret_list[i].p_filesz;
		/* Files with holes are as large as they like. */
		if (__builtin_add_overflow(*ret_bytes, ret_list[i].p_filesz, ret_bytes))
			return -ENOEXEC;
	}
	return has_code ? 0 : -ENOEXEC;
}

static int add_sample(struct reading *reading, uint64_t from, uint64_t to)
{
	if (reading->samples++ == SAMPLES_MAX)
		return -ENOEXEC;
	if (from < reading->head_bytes)
		from = reading->head_bytes;
	if (from >= to)
		return 0;
	if (!read_at(reading->fd, reading->buffer, to - from, from))
		return -EIO;
	reading->checksum = (uint32_t)crc32_z(reading->checksum, reading->buffer, to - from);
	return 0;
}

static int add_segment(struct reading *reading, const Elf64_Phdr *segment)
{
	/* Not its place in the file, which stripping may change. */
	const uint64_t place[] = {segment->p_vaddr, segment->p_filesz, segment->p_memsz,
				  segment->p_flags};
	const uint64_t end = segment->p_offset + segment->p_filesz;
	int code = 0;

	reading->checksum =
		(uint32_t)crc32_z(reading->checksum, (const uint8_t *)place, sizeof(place));
	if (!is_fixed(segment))
		return 0;
	for (uint64_t at = segment->p_offset; at < end && code == 0; at += reading->step)
		code = add_sample(reading, at, end - at < SAMPLE_BYTES ? end : at + SAMPLE_BYTES);
	return code;
}

int limpet_file_identity_checksum(int fd, uint32_t *ret_checksum)
{
	LIMPET_FREE Elf64_Phdr *segments = NULL;
	LIMPET_FREE uint8_t *buffer = malloc(SAMPLE_BYTES);
	struct reading reading = {.fd = fd, .head_bytes = sizeof(Elf64_Ehdr), .buffer = buffer};
	Elf64_Ehdr file;
	uint64_t bytes;
	int code;

	if (!read_at(fd, &file, sizeof(file), 0) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_ident[EI_DATA] != OUR_ORDER ||
	    file.e_phentsize != sizeof(*segments) || file.e_phnum > SEGMENTS_MAX)
		return -ENOEXEC;
	segments = calloc(file.e_phnum + 1ul, sizeof(*segments));
	if (!segments || !buffer)
		return -ENOMEM;
	code = read_segments(fd, &file, segments, &bytes);
	/* The program headers, too, if they follow. */
	if (file.e_phoff == reading.head_bytes)
		reading.head_bytes += file.e_phnum * sizeof(*segments);
	reading.step = bytes > LIMPET_FILE_IDENTITY_BYTES ? bytes / SAMPLES : SAMPLE_BYTES;
	for (unsigned i = 0; i < file.e_phnum && code == 0; i++)
		if (segments[i].p_type == PT_LOAD)
			code = add_segment(&reading, &segments[i]);
	if (code == 0)
		*ret_checksum = reading.checksum;
	return code;
}

void limpet_file_identity_set_status(struct limpet_file_identity *identity,
				     const struct stat *status)
{
	identity->has_status = true;
	identity->bytes = (uint64_t)status->st_size;
	identity->changed_ns = limpet_timespec_ns(status->st_mtim);
}

bool limpet_file_identity_is_of(const struct limpet_file_identity *identity, int fd,
				const struct stat *status)
{
	struct limpet_file_identity found = {.has_status = false};

	if (identity->has_checksum)
		return limpet_file_identity_checksum(fd, &found.checksum) == 0 &&
		       found.checksum == identity->checksum;
	limpet_file_identity_set_status(&found, status);
	return identity->has_status && found.bytes == identity->bytes &&
	       found.changed_ns == identity->changed_ns;
}
