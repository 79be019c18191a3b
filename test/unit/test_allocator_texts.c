/* Which allocator is inside a file, by the messages that it can print. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "common/err.h"
#include "injector/elf/allocator_texts.h"

/* With '#' for "malloc", so that this program does not contain them itself. */
static const char mimalloc[] = "mi#: warning: \0environment option mi#_%s has an invalid value.\n";
static const char jemalloc[] = "<je#>: Malformed conf string\n\0<je#>: Reducing narenas to limit "
			       "(%d)\n";
static const char mention[] = "We tried mi#, <je#>: (see its manual), tc# and rp#.\n\0mi#: "
			      "warning: \0<je#>: Malformed conf string\n";

/* A file without sections, of two segments. */
struct image {
	ElfW(Ehdr) head;
	ElfW(Phdr) segments[2];
	char texts[2][512];
};

static void spell(char *ret, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '#') {
			memcpy(ret, "malloc", 6);
			ret += 6;
		} else {
			*ret++ = text[i];
		}
	}
}

static struct image *image_new(void)
{
	struct image *image = calloc(1, sizeof(*image));
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_non_null(image);
	assert_true(self >= 0);
	assert_int_equal(read(self, &image->head, sizeof(image->head)), sizeof(image->head));
	close(self);
	image->head.e_shoff = image->head.e_shnum = image->head.e_shstrndx = 0;
	image->head.e_phoff = offsetof(struct image, segments);
	image->head.e_phnum = 2;
	for (size_t i = 0; i < 2; i++)
		image->segments[i] = (ElfW(Phdr)){.p_type = PT_LOAD,
						  .p_flags = i ? PF_R | PF_W : PF_R,
						  .p_offset = offsetof(struct image, texts) +
							      i * sizeof(image->texts[0]),
						  .p_filesz = sizeof(image->texts[0])};
	return image;
}

/* What is found in the first `bytes` of the file. */
static const char *find(const void *bytes, size_t count)
{
	LIMPET_CLOSE int fd = memfd_create("elf", MFD_CLOEXEC);
	struct limpet_elf_file *file;
	const char *name;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	if (limpet_elf_file_open(fd, &file) < 0)
		return NULL;
	name = limpet_allocator_texts_find(file);
	limpet_elf_file_free(file);
	return name;
}

static void test_read_only_segments_are_searched(void **state)
{
	struct image *image = image_new();

	(void)state;
	assert_null(find(image, sizeof(*image)));
	spell(image->texts[0], mimalloc, sizeof(mimalloc));
	assert_string_equal(find(image, sizeof(*image)), "mimalloc");
	spell(image->texts[0], jemalloc, sizeof(jemalloc));
	assert_string_equal(find(image, sizeof(*image)), "jemalloc");
	memset(image->texts[0], 0, sizeof(image->texts[0]));
	spell(image->texts[1], jemalloc, sizeof(jemalloc));
	assert_null(find(image, sizeof(*image)));
	free(image);
}

static void test_who_mentions_them_is_none(void **state)
{
	LIMPET_CLOSE int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct image *image = image_new();
	struct limpet_elf_file *file;

	(void)state;
	spell(image->texts[0], mention, sizeof(mention));
	assert_null(find(image, sizeof(*image)));
	free(image);
	/* The texts are in this program, too, as they are in limpet. */
	assert_int_equal(limpet_elf_file_open(self, &file), 0);
	assert_null(limpet_allocator_texts_find(file));
	limpet_elf_file_free(file);
}

/* Any answer will do, but an answer. */
static void test_broken_files(void **state)
{
	static const uint64_t values[] = {
		0, 1, 1 << 20, UINT32_MAX, INT64_MAX, UINT64_MAX - 64, UINT64_MAX};
	struct image *image = image_new();

	(void)state;
	spell(image->texts[0], jemalloc, sizeof(jemalloc));
	for (size_t length = 0; length < sizeof(*image); length++)
		(void)find(image, length);
	for (size_t i = 0; i < LIMPET_COUNT_OF(values); i++)
		for (size_t k = 0; k < LIMPET_COUNT_OF(values); k++) {
			image->segments[0].p_offset = values[i];
			image->segments[0].p_filesz = values[k];
			assert_null(find(image, sizeof(*image)));
		}
	image->segments[0].p_offset = offsetof(struct image, texts);
	image->segments[0].p_filesz = sizeof(image->texts[0]);
	image->head.e_phnum = UINT16_MAX;
	(void)find(image, sizeof(*image));
	image->head.e_phoff = UINT64_MAX - 8;
	assert_null(find(image, sizeof(*image)));
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_only_segments_are_searched),
		cmocka_unit_test(test_who_mentions_them_is_none),
		cmocka_unit_test(test_broken_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
