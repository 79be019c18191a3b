/* Touches and returns pages of memory in known amounts, in functions with names:
 *
 *	red MIB, blue MIB    map so much, and write to each page of it
 *	give                 madvise(MADV_DONTNEED) of the second half of the last red mapping
 *	unmap                munmap of all blue mappings
 *	grow MIB             of the heap, by brk(2), each page written to
 *	shrink               gives that back
 *	thread MIB           a new thread touches a mapping
 *	huge MIB             a mapping for which huge pages are asked, each page written to
 *	read MIB             read(2) of zeros into a new mapping
 *	fill MIB             a new mapping that the kernel fills (MAP_POPULATE)
 *
 * Huge pages are asked not to be used, except by `huge`. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "target.h"

#define PAGE 4096u
#define MOST 64u

static char *reds, *blues[MOST];
static size_t red_bytes, blue_bytes[MOST], blue_count, heap_bytes;

static char *map(size_t bytes, int flags, int advice)
{
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
			   -1, 0);

	if (pages == MAP_FAILED)
		target_broken("mmap: %s", strerror(errno));
	/* There is no such advice in a kernel without huge pages. */
	(void)madvise(pages, bytes, advice);
	return pages;
}

static inline void touch(char *pages, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		((volatile char *)pages)[at] = 1;
}

TARGET_FRAME static void touch_red(char *pages, size_t bytes)
{
	touch(pages, bytes);
}

TARGET_FRAME static void touch_blue(char *pages, size_t bytes)
{
	touch(pages, bytes);
}

TARGET_FRAME static void touch_heap(char *pages, size_t bytes)
{
	touch(pages, bytes);
}

TARGET_FRAME static void touch_huge(char *pages, size_t bytes)
{
	touch(pages, bytes);
}

TARGET_FRAME static void read_zeros(char *pages, size_t bytes)
{
	const int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	for (size_t done = 0; done < bytes;) {
		const ssize_t got = read(fd, pages + done, bytes - done);

		if (got <= 0)
			target_broken("read: %s", strerror(errno));
		done += (size_t)got;
	}
	close(fd);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void touch_in_thread(char *pages, size_t bytes)
{
	touch(pages, bytes);
}

static size_t thread_bytes;

static void *thread(void *pages)
{
	touch_in_thread(pages, thread_bytes);
	TARGET_KEEP_FRAME();
	return NULL;
}

static void start_thread(size_t bytes)
{
	pthread_t id;

	thread_bytes = bytes;
	if (pthread_create(&id, NULL, thread, map(bytes, 0, MADV_NOHUGEPAGE)) ||
	    pthread_join(id, NULL))
		target_broken("no thread");
}

static void unmap_blue(void)
{
	for (; blue_count; blue_count--)
		munmap(blues[blue_count - 1], blue_bytes[blue_count - 1]);
}

static void act(const char *what, size_t bytes)
{
	if (!strcmp(what, "red")) {
		reds = map(bytes, 0, MADV_NOHUGEPAGE);
		red_bytes = bytes;
		touch_red(reds, bytes);
	} else if (!strcmp(what, "blue") && blue_count < MOST) {
		blues[blue_count] = map(bytes, 0, MADV_NOHUGEPAGE);
		blue_bytes[blue_count] = bytes;
		touch_blue(blues[blue_count++], bytes);
	} else if (!strcmp(what, "give")) {
		madvise(reds + red_bytes / 2, red_bytes / 2, MADV_DONTNEED);
	} else if (!strcmp(what, "unmap")) {
		unmap_blue();
	} else if (!strcmp(what, "grow")) {
		heap_bytes = bytes;
		touch_heap(sbrk((intptr_t)bytes), bytes);
	} else if (!strcmp(what, "shrink")) {
		sbrk(-(intptr_t)heap_bytes);
	} else if (!strcmp(what, "thread")) {
		start_thread(bytes);
	} else if (!strcmp(what, "huge")) {
		touch_huge(map(bytes, 0, MADV_HUGEPAGE), bytes);
	} else if (!strcmp(what, "read")) {
		read_zeros(map(bytes, 0, MADV_NOHUGEPAGE), bytes);
	} else if (!strcmp(what, "fill")) {
		map(bytes, MAP_POPULATE, MADV_NOHUGEPAGE);
	} else {
		target_broken("what is '%s'?", what);
	}
}

int main(void)
{
	char line[64], what[64];
	unsigned mib;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		mib = 0;
		if (sscanf(line, "%63s %u", what, &mib) < 1)
			target_broken("what is '%s'?", line);
		act(what, (size_t)mib << 20);
		target_say("did");
	}
	return 0;
}
