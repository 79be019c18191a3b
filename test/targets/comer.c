/* comer: opens modules that allocate before anybody can look at them.
 *
 * "ready PID"; "open PATH" and "lazy PATH" open a module, with its calls bound at once or each at
 * the first; "more N" has it allocate, "close". "forks" has the next one's constructor fork.
 * "convert" has libc itself load a module (iconv), from GCONV_PATH. "shut" forbids mprotect and
 * futex on pain of death; "ask N" asks dlsym for the module's function N times, "answers" whether
 * libc's functions are what they were, by its handle, and calls malloc as the program has it by
 * default. "threads N" has so many at a time, which use what the module keeps for each thread, if
 * one is open. "stored N" frees N blocks by an address that was stored at the start, "table N" by
 * one in a table that the linker has filled. "quit". */
#include <dlfcn.h>
#include <iconv.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

extern int comer_forks;
__attribute__((visibility("default"))) int comer_forks; /* read by the module's constructor */

static void *module, *libc;
static const char *const asked[] = {"malloc", "calloc", "realloc", "free", "dlsym", "mmap"};
enum { FREE = 3, ASKED = sizeof(asked) / sizeof(asked[0]) };
/* As limpet does not find them: a variable whose value is kept beside it is left alone. */
static uintptr_t masked[ASKED];

static void open_module(const char *path, int mode)
{
	module = dlopen(path, mode);
	if (!module)
		target_broken("%s", dlerror());
}

static void more(unsigned long count)
{
	void (*function)(unsigned long) = (void (*)(unsigned long))dlsym(module, "early_more");

	if (!function)
		target_broken("%s", dlerror());
	function(count);
}

static void convert(void)
{
	iconv_t conversion = iconv_open("LIMPET-TEST", "UTF-8");

	if (conversion == (iconv_t)-1)
		target_broken("iconv_open: %s", strerror(errno));
	iconv_close(conversion);
}

static void shut(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		target_broken("seccomp: %s", strerror(errno));
}

static pthread_barrier_t all_there;

static void *be_there(void *touch)
{
	if (touch)
		((void (*)(void))touch)();
	pthread_barrier_wait(&all_there);
	return NULL;
}

/* None has the place of one that has ended. */
static void run_threads(unsigned long count)
{
	void *touch = module ? dlsym(module, "early_touch") : NULL;
	pthread_t threads[200];

	if (count > sizeof(threads) / sizeof(threads[0]) ||
	    pthread_barrier_init(&all_there, NULL, (unsigned)count + 1))
		target_broken("so many threads");
	for (unsigned long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, be_there, touch))
			target_broken("no thread");
	pthread_barrier_wait(&all_there);
	for (unsigned long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

typedef void free_fn(void *);
extern free_fn *volatile comer_table[1];
free_fn *volatile comer_table[1] = {free};

TARGET_FRAME static void comer_free_by(free_fn *by, unsigned long count)
{
	while (count--) {
		char *block = malloc(3000);

		if (!block)
			target_broken("no memory");
		memset(block, 1, 3000);
		by(block);
	}
}

static void note_originals(void)
{
	libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	for (unsigned i = 0; libc && i < ASKED; i++)
		masked[i] = ~(uintptr_t)dlsym(libc, asked[i]);
}

TARGET_FRAME static void comer_default(void)
{
	void *(*by_default)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
	void *block = by_default ? by_default(4321) : NULL;

	if (!block)
		target_broken("no malloc by default");
	memset(block, 1, 4321);
	free(block);
}

static void look_at_answers(void)
{
	for (unsigned i = 0; i < ASKED; i++)
		if (!~masked[i] || (uintptr_t)dlsym(libc, asked[i]) != ~masked[i])
			target_broken("dlsym answers another %s", asked[i]);
	comer_default();
}

int main(void)
{
	char line[512];
	unsigned long n;

	note_originals();
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strncmp(line, "open ", 5)) {
			open_module(line + 5, RTLD_NOW);
			target_say("opened");
		} else if (!strncmp(line, "lazy ", 5)) {
			open_module(line + 5, RTLD_LAZY);
			target_say("opened");
		} else if (target_word(line, "threads", &n)) {
			run_threads(n);
			target_say("threads");
		} else if (target_word(line, "stored", &n)) {
			comer_free_by((free_fn *)~masked[FREE], n);
			target_say("stored");
		} else if (target_word(line, "table", &n)) {
			comer_free_by(comer_table[0], n);
			target_say("table");
		} else if (!strcmp(line, "forks")) {
			comer_forks = 1;
			target_say("forks");
		} else if (target_word(line, "more", &n)) {
			more(n);
			target_say("more");
		} else if (!strcmp(line, "close")) {
			if (dlclose(module))
				target_broken("%s", dlerror());
			target_say("closed");
		} else if (!strcmp(line, "convert")) {
			convert();
			target_say("converted");
		} else if (!strcmp(line, "shut")) {
			shut();
			target_say("shut");
		} else if (target_word(line, "ask", &n)) {
			for (unsigned long i = 0; i < n; i++)
				if (!dlsym(module, "early_more"))
					target_broken("%s", dlerror());
			target_say("asked");
		} else if (!strcmp(line, "answers")) {
			look_at_answers();
			target_say("answered");
		} else if (!strcmp(line, "quit")) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
