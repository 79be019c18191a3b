/* A module whose constructor allocates a thousand blocks, and forks where the program wants that;
 * and one that libc loads by itself, for iconv. See comer.c. */
#include <gconv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 1000u
#define EXPORTED __attribute__((noinline, visibility("default")))

extern int comer_forks __attribute__((weak));
void early_more(unsigned long count);
void early_touch(void);
int gconv_init(struct __gconv_step *step);
int gconv(struct __gconv_step *step, struct __gconv_step_data *data, const unsigned char **from,
	  const unsigned char *end, unsigned char **to, size_t *irreversible, int flush,
	  int starts);

static void *kept[BLOCKS];
static __thread char early_room[5000];

static void fork_once(void)
{
	pid_t child = fork();

	if (!child) {
		for (unsigned i = 0; i < 10; i++)
			free(strdup("of a child"));
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		abort();
}

__attribute__((constructor, noinline)) static void early_begin(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		kept[i] = malloc(600);
		if (!kept[i])
			abort();
		memset(kept[i], 1, 600);
		if (i == BLOCKS / 2 && &comer_forks && comer_forks)
			fork_once();
	}
}

__attribute__((destructor, noinline)) static void early_end(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		free(kept[i]);
}

EXPORTED void early_more(unsigned long count)
{
	while (count--) {
		char *block = calloc(1, 50);

		if (!block)
			abort();
		block[1] = 1;
		__asm__ volatile("" : "+r"(block) : : "memory");
		free(block);
	}
}

/* The dynamic linker makes room for it where it is used first. */
EXPORTED void early_touch(void)
{
	early_room[4321] = 1;
	__asm__ volatile("" : : "r"(early_room) : "memory");
}

EXPORTED int gconv_init(struct __gconv_step *step)
{
	early_more(70);
	step->__min_needed_from = step->__max_needed_from = 1;
	step->__min_needed_to = step->__max_needed_to = 1;
	return __GCONV_OK;
}

EXPORTED int gconv(struct __gconv_step *step, struct __gconv_step_data *data,
		   const unsigned char **from, const unsigned char *end, unsigned char **to,
		   size_t *irreversible, int flush, int starts)
{
	(void)step, (void)data, (void)from, (void)end, (void)to, (void)irreversible;
	(void)flush, (void)starts;
	return __GCONV_EMPTY_INPUT;
}
