/* moved: before main() the text of some modules is moved to memory without a file, as iodlr, BOLT's
 * hugify, HHVM and node do for huge pages.
 *
 * A library to preload, or linked into a static program, whose own text it then moves. MOVED is a
 * list of words that occur in the modules' file names, "exe" for the program; MOVED_SIGNAL: not now
 * but when SIGUSR2 comes, from a copy that was made when SIGHUP came, if it did. MOVED_BACK:
 * instead when the text is no longer that of the copy, and some ms later; so many MiB of memory are
 * there. */
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { MAX_TEXTS = 64, PAGE = 4096 };

static struct {
	uintptr_t start, end;
	long copy;
} texts[MAX_TEXTS];
static unsigned text_count;

/* Nothing of libc's is called while its text may be the one that moves. */
static long call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
}

static int is_wanted(const char *name)
{
	char words[256], *rest = words;
	const char *word;

	strncpy(words, getenv("MOVED"), sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	while ((word = strsep(&rest, ",")))
		if (*name ? !!strstr(name, word) : !strcmp(word, "exe"))
			return 1;
	return 0;
}

static int list(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)bytes;
	(void)context;
	for (int i = 0; is_wanted(info->dlpi_name) && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X) || text_count == MAX_TEXTS)
			continue;
		texts[text_count].start = start & ~(uintptr_t)(PAGE - 1);
		texts[text_count++].end =
			(start + phdr->p_memsz + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	}
	return 0;
}

static void copy(int number)
{
	(void)number;
	text_count = 0;
	dl_iterate_phdr(list, NULL);
	for (unsigned i = 0; i < text_count; i++) {
		const long bytes = (long)(texts[i].end - texts[i].start);
		const volatile char *from = (const volatile char *)texts[i].start;
		const long to = call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1);

		for (long at = 0; at < bytes; at++)
			((volatile char *)to)[at] = from[at];
		call(SYS_mprotect, to, bytes, PROT_READ | PROT_EXEC, 0, 0);
		texts[i].copy = to;
	}
}

static void move(int number)
{
	if (!text_count)
		copy(number);
	for (unsigned i = 0; i < text_count; i++) {
		const long bytes = (long)(texts[i].end - texts[i].start);

		call(SYS_mremap, texts[i].copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		     (long)texts[i].start);
	}
	text_count = 0;
}

/* limpet takes its jumps out, and then searches memory. */
static void *move_back(void *context)
{
	const struct timespec look = {0, 100000}, later = {0, 8000000};

	while (!text_count || !__atomic_load_n(&texts[text_count - 1].copy, __ATOMIC_ACQUIRE) ||
	       !memcmp((const void *)texts[0].start, (const void *)texts[0].copy,
		       texts[0].end - texts[0].start))
		nanosleep(&look, NULL);
	nanosleep(&later, NULL);
	move(0);
	return context;
}

static void wait_to_move_back(void)
{
	const size_t bytes = (size_t)atoi(getenv("MOVED_BACK")) << 20;
	/* Above the text and below the copy: searched between the two. */
	void *const place = (void *)(uintptr_t)(UINT64_C(1) << 40);
	char *memory =
		mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	for (size_t at = 0; memory != MAP_FAILED && at < bytes; at += PAGE)
		memory[at] = 1;
	pthread_create(&thread, NULL, move_back, NULL);
}

__attribute__((constructor)) static void begin(void)
{
	if (getenv("MOVED_BACK"))
		wait_to_move_back();
	if (getenv("MOVED_SIGNAL")) {
		signal(SIGHUP, copy);
		signal(SIGUSR2, move);
	} else if (getenv("MOVED")) {
		move(0);
	}
}
