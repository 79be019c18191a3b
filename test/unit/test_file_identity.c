/* What tells builds without build-id apart: stripping, copying and touching do not, another build
 * does, however large it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/file_identity.h"

static char directory[] = "/tmp/limpet-identity-XXXXXX";

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(directory));
	return chdir(directory);
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static void run(const char *command)
{
	if (system(command))
		fail_msg("%s", command);
}

static int checksum_of(const char *name, uint32_t *ret)
{
	LIMPET_CLOSE int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return limpet_file_identity_checksum(fd, ret);
}

static bool same(const char *a, const char *b)
{
	uint32_t first = 0, second = 1;

	assert_int_equal(checksum_of(a, &first), 0);
	assert_int_equal(checksum_of(b, &second), 0);
	return first == second;
}

static void build(const char *name, const char *source, const char *options)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "echo '%s' | cc -x c - -g -O1 -Wl,--build-id=none -o %s %s", source, name,
		 options);
	run(command);
}

#define PROGRAM                                     \
	"#include <stdio.h>\n"                      \
	"int answer(int n) { return n * 7 + 1; }\n" \
	"int main(int n, char **v) { return puts(v[0]) + answer(n); }"
#define OTHER                                       \
	"#include <stdio.h>\n"                      \
	"int answer(int n) { return n * 9 + 1; }\n" \
	"int main(int n, char **v) { return puts(v[0]) + answer(n); }"

static void test_what_is_the_same(void **state)
{
	(void)state;
	build("program", PROGRAM, "");
	run("cp program debug-stripped && strip -g debug-stripped");
	run("cp program stripped && strip stripped");
	run("cp program linked && objcopy --only-keep-debug linked linked.debug &&"
	    " objcopy --strip-all --add-gnu-debuglink=linked.debug linked");
	run("cp program compressed && objcopy --compress-debug-sections compressed");
	assert_true(same("program", "debug-stripped"));
	assert_true(same("program", "stripped"));
	assert_true(same("program", "linked"));
	assert_true(same("program", "compressed"));
}

static void test_what_is_another(void **state)
{
	(void)state;
	build("program", PROGRAM, "");
	build("other", OTHER, "");
	build("elsewhere", PROGRAM, "-no-pie -Wl,-Ttext-segment=0x800000");
	assert_false(same("program", "other"));
	assert_false(same("program", "elsewhere"));
}

/* Samples are read of a large one: code that is moved differs in them. */
static void test_a_large_one(void **state)
{
	(void)state;
	run("head -c 8M /dev/urandom >noise");
	run("printf '.text\\n.globl main\\nmain: ret\\n.incbin \"noise\"\\n' |"
	    " cc -x assembler - -z noexecstack -Wl,--build-id=none -o large");
	run("printf '.text\\n.globl main\\nmain: ret\\nnop\\n.incbin \"noise\"\\n' |"
	    " cc -x assembler - -z noexecstack -Wl,--build-id=none -o moved");
	assert_false(same("large", "moved"));
	run("cp large stripped && strip stripped");
	assert_true(same("large", "stripped"));
}

static void test_size_and_time(void **state)
{
	struct limpet_file_identity identity = {.has_status = false};
	struct stat status;
	LIMPET_CLOSE int fd = -1;

	(void)state;
	build("program", PROGRAM, "");
	fd = open("program", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &status), 0);
	/* Nothing is known of it: it may be any. */
	assert_false(limpet_file_identity_is_of(&identity, fd, &status));
	limpet_file_identity_set_status(&identity, &status);
	assert_true(limpet_file_identity_is_of(&identity, fd, &status));
	status.st_mtim.tv_nsec ^= 1;
	assert_false(limpet_file_identity_is_of(&identity, fd, &status));
	status.st_mtim.tv_nsec ^= 1;
	status.st_size++;
	assert_false(limpet_file_identity_is_of(&identity, fd, &status));
	/* The checksum is better than these. */
	identity.has_checksum = true;
	assert_int_equal(limpet_file_identity_checksum(fd, &identity.checksum), 0);
	assert_true(limpet_file_identity_is_of(&identity, fd, &status));
	identity.checksum ^= 1;
	status.st_size--;
	assert_false(limpet_file_identity_is_of(&identity, fd, &status));
}

static void write_file(const char *name, const void *bytes, size_t count)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

static void test_hostile_heads(void **state)
{
	struct {
		Elf64_Ehdr file;
		Elf64_Phdr segments[2];
		uint8_t code[64];
	} it = {.file = {.e_phoff = sizeof(Elf64_Ehdr),
			 .e_phnum = 2,
			 .e_phentsize = sizeof(Elf64_Phdr)},
		.segments = {{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = sizeof(it)},
			     {.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 8}}};
	uint32_t checksum = 0;

	(void)state;
	memcpy(it.file.e_ident, ELFMAG, SELFMAG);
	it.file.e_ident[EI_CLASS] = ELFCLASS64;
	it.file.e_ident[EI_DATA] = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), 0);
	it.segments[1].p_offset = UINT64_MAX - 4;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	it.segments[1].p_offset = 0;
	it.segments[1].p_filesz = UINT64_MAX;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	it.segments[1].p_filesz = sizeof(it) + 1;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	it.segments[1].p_filesz = 8;
	it.file.e_phoff = UINT64_MAX;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	it.file.e_phoff = sizeof(it.file);
	it.file.e_phnum = UINT16_MAX;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	/* A debug file has no code. */
	it.file.e_phnum = 2;
	it.segments[0].p_filesz = 0;
	write_file("made", &it, sizeof(it));
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
	write_file("made", "#!/bin/sh", 9);
	assert_int_equal(checksum_of("made", &checksum), -ENOEXEC);
}

/* Each segment is within its file, which is nothing but a hole; the sum of their lengths is 0. */
static void test_lengths_that_wrap(void **state)
{
	const uint64_t bytes = 1ull << 62;
	LIMPET_CLOSE int fd = memfd_create("made", MFD_CLOEXEC);
	struct {
		Elf64_Ehdr file;
		Elf64_Phdr segments[4];
	} it = {.file = {.e_phoff = sizeof(Elf64_Ehdr),
			 .e_phnum = 1,
			 .e_phentsize = sizeof(Elf64_Phdr)}};
	uint32_t checksum = 0;

	(void)state;
	memcpy(it.file.e_ident, ELFMAG, SELFMAG);
	it.file.e_ident[EI_CLASS] = ELFCLASS64;
	it.file.e_ident[EI_DATA] = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
	for (unsigned i = 0; i < 4; i++)
		it.segments[i] =
			(Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = bytes};
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(pwrite(fd, &it, sizeof(it), 0), sizeof(it));
	/* One alone is read in samples. */
	assert_int_equal(limpet_file_identity_checksum(fd, &checksum), 0);
	it.file.e_phnum = 3;
	assert_int_equal(pwrite(fd, &it, sizeof(it), 0), sizeof(it));
	assert_int_equal(limpet_file_identity_checksum(fd, &checksum), 0);
	it.file.e_phnum = 4;
	assert_int_equal(pwrite(fd, &it, sizeof(it), 0), sizeof(it));
	assert_int_equal(limpet_file_identity_checksum(fd, &checksum), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_the_same), cmocka_unit_test(test_what_is_another),
		cmocka_unit_test(test_a_large_one),      cmocka_unit_test(test_size_and_time),
		cmocka_unit_test(test_hostile_heads),    cmocka_unit_test(test_lengths_that_wrap),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
