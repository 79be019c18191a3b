/* A driver for the fuzz programs where libFuzzer is not: it replays the corpus, then mutates it so
 * many times. Speaks TAP.
 *
 *	fuzz_NAME [FILE...]
 *
 * FUZZ_MUTATIONS says how many times (by default what the program asks for, about a second; 0: the
 * corpus only), FUZZ_MILLISECONDS for how long instead. FUZZ_SEED is the seed, which is printed: by
 * default the same in each run of so many, another one in each run of so long.
 *
 * The input at hand lies in build/fuzz/NAME.input: after a crash it is what crashed; it joins
 * test/fuzz/corpus/NAME. An input that takes ten seconds of processor time is a failure. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Of a program whose inputs take longer or shorter than most. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations __attribute__((weak)) = 2000;
/* Asked by the sanitizers' runtime. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__ubsan_default_options(void)
{
	return "halt_on_error=1:print_stacktrace=1";
}

enum { MAX_SEEDS = 512, MAX_BYTES = 1 << 18, INPUT_SECONDS = 10, MAX_CHANGES = 8 };

struct seed {
	uint8_t *data;
	size_t size;
};

static struct seed seeds[MAX_SEEDS];
static size_t seed_count;
static uint64_t random_state;
static struct {
	size_t size;
	uint8_t data[MAX_BYTES];
} * input; /* in a file that outlives us */

static void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

static size_t random_below(size_t limit)
{
	return limit ? random_word() % limit : 0;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void on_limit(int number)
{
	static const char words[] = "Bail out! an input took too long\n";

	(void)number;
	if (write(STDOUT_FILENO, words, sizeof(words) - 1) < 0)
		_exit(3);
	abort();
}

static void add_seed(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct seed *seed = &seeds[seed_count];

	if (fd < 0 || fstat(fd, &status) < 0)
		die(path);
	if (!S_ISREG(status.st_mode) || seed_count == MAX_SEEDS || status.st_size > MAX_BYTES) {
		close(fd);
		return;
	}
	seed->size = (size_t)status.st_size;
	seed->data = malloc(seed->size + 1);
	if (!seed->data || read(fd, seed->data, seed->size) != (ssize_t)seed->size)
		die(path);
	close(fd);
	seed_count++;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_corpus(const char *directory)
{
	struct dirent **list;
	int count = scandir(directory, &list, NULL, compare_names);

	if (count < 0)
		die(directory);
	for (int i = 0; i < count; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", directory, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			add_seed(path);
		free(list[i]);
	}
	free(list);
}

static void open_input(const char *name)
{
	char path[256];
	int fd;

	mkdir("build", 0777);
	mkdir("build/fuzz", 0777);
	snprintf(path, sizeof(path), "build/fuzz/%s.input", name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(*input)) < 0)
		die(path);
	input = mmap(NULL, sizeof(*input), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (input == MAP_FAILED)
		die(path);
	close(fd);
}

/* Of processor time, which does not hang on what else this machine does. */
static void set_limit(time_t seconds)
{
	const struct itimerval value = {.it_value.tv_sec = seconds};

	if (setitimer(ITIMER_PROF, &value, NULL) < 0)
		die("setitimer");
}

/* On a block of its very size: what is read behind it is seen. */
static void try_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		die("malloc");
	if (data != input->data)
		memcpy(input->data, data, size);
	input->size = size;
	memcpy(copy, data, size);
	set_limit(INPUT_SECONDS);
	LLVMFuzzerTestOneInput(copy, size);
	set_limit(0);
	free(copy);
}

static uint64_t odd_number(void)
{
	static const uint64_t numbers[] = {
		0,          1,          2,
		7,          8,          15,
		16,         127,        128,
		255,        256,        4095,
		4096,       32767,      32768,
		65535,      65536,      0x7fffffff,
		0x80000000, 0xffffffff, 0x100000000,
		1ull << 40, 1ull << 47, 1ull << 48,
		INT64_MAX,  1ull << 63, UINT64_MAX - 7,
		UINT64_MAX,
	};

	return numbers[random_below(sizeof(numbers) / sizeof(numbers[0]))];
}

static void change(void)
{
	static const size_t widths[] = {1, 2, 4, 8};
	size_t at = random_below(input->size), width = widths[random_below(4)], length, to;
	uint8_t *data = input->data;
	uint64_t number;

	switch (random_below(9)) {
	case 0:
	case 1:
		if (input->size)
			data[at] ^= (uint8_t)(1u << random_below(8));
		break;
	case 2:
		if (input->size)
			data[at] = (uint8_t)random_word();
		break;
	case 3:
	case 4: /* a number of an odd kind, or one more or less */
		at -= random_below(2) ? at % width : 0;
		if (at + width > input->size)
			break;
		memcpy(&number, data + at, width);
		number = random_below(3) ? odd_number() : number + random_below(9) - 4;
		memcpy(data + at, &number, width);
		break;
	case 5: /* copied over, or in between */
		to = random_below(input->size);
		length = random_below(random_below(4) ? 64 : input->size);
		if (at + length > input->size || to + length > input->size)
			break;
		memmove(data + to, data + at, length);
		break;
	case 6:
		length = 1 + random_below(32);
		if (input->size + length > MAX_BYTES)
			break;
		memmove(data + at + length, data + at, input->size - at);
		for (size_t i = 0; i < length; i++)
			data[at + i] = (uint8_t)random_word();
		input->size += length;
		break;
	case 7:
		length = random_below(random_below(8) ? 32 : input->size);
		if (at + length > input->size)
			break;
		memmove(data + at, data + at + length, input->size - at - length);
		input->size -= length;
		break;
	default: { /* a piece of another */
		const struct seed *other = &seeds[random_below(seed_count)];
		size_t from = random_below(other->size);

		length = random_below(other->size - from);
		if (at + length > MAX_BYTES)
			break;
		memcpy(data + at, other->data + from, length);
		if (at + length > input->size)
			input->size = at + length;
		break;
	}
	}
}

static void mutate(void)
{
	const struct seed *seed = &seeds[random_below(seed_count)];
	size_t changes = 1 + random_below(MAX_CHANGES);

	memcpy(input->data, seed->data, seed->size);
	input->size = seed->size;
	while (changes--)
		change();
	try_one(input->data, input->size);
}

static unsigned long mutate_for(uint64_t milliseconds)
{
	uint64_t until = now_ms() + milliseconds;
	unsigned long runs = 0;

	for (; now_ms() < until; runs++)
		mutate();
	return runs;
}

static void take_seed(bool anew)
{
	const char *text = getenv("FUZZ_SEED");

	random_state = 88172645463325252ull;
	if (text)
		random_state = strtoull(text, NULL, 0);
	else if (anew)
		random_state = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15ull;
	random_state += !random_state;
	printf("# seed %#llx\n", (unsigned long long)random_state);
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	const char *count = getenv("FUZZ_MUTATIONS"), *time_text = getenv("FUZZ_MILLISECONDS");
	uint64_t milliseconds = time_text ? strtoull(time_text, NULL, 10) : 0;
	unsigned long runs = count ? strtoul(count, NULL, 10) : fuzz_mutations;
	char directory[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	name += strncmp(name, "fuzz_", 5) ? 0 : 5;
	take_seed(milliseconds);
	signal(SIGPROF, on_limit);
	open_input(name);
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			add_seed(argv[i]);
		milliseconds = runs = 0;
	} else {
		snprintf(directory, sizeof(directory), "test/fuzz/corpus/%s", name);
		add_corpus(directory);
	}
	printf("1..%d\n", milliseconds || runs ? 2 : 1);
	for (size_t i = 0; i < seed_count; i++)
		try_one(seeds[i].data, seeds[i].size);
	printf("%sok 1 - %zu inputs of the corpus\n", seed_count ? "" : "not ", seed_count);
	if (!seed_count || !(milliseconds || runs))
		return !seed_count;
	if (milliseconds) {
		runs = mutate_for(milliseconds);
		printf("# figures: fuzz %s: %lu inputs in %llu ms\n", name, runs,
		       (unsigned long long)milliseconds);
	} else {
		for (unsigned long i = 0; i < runs; i++)
			mutate();
	}
	printf("%sok 2 - %lu mutations of them\n", runs ? "" : "not ", runs);
	return !runs;
}
