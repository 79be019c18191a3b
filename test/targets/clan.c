/* clan: a process and its children, each of which does what it is told by name.
 *
 * Commands to the first one: "fork" makes a child, "forked PID"; "PID WORD [N]" is done by the
 * child or grandchild PID, whose answer is passed on: "work N" allocates and frees in clan_work,
 * "keep N" allocates and keeps in clan_keep, "drop" frees the INHERITED blocks of the first,
 * "fork" makes a grandchild, "orphan" the same and ends, "execute" becomes a program that waits for
 * its end, "end". "brood N": N children that wait; "hatch": they are told to end, and end well.
 * "short N": N children that end at once; "execs N", "vforks N", "spawns N": that execute /bin/true
 * at once; "made N": the longest of them took N milliseconds, from the fork to its end. "leave":
 * the first ends, its children go on. "quit": as soon as all of its children have ended.
 *
 * A child hears by a socket with its pid as the name; it ends by itself after a time, which the
 * tests' patience (LIMPET_TEST_PATIENCE) makes longer. */
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "test/targets/target.h"

enum { INHERITED = 10, BROOD = 200, PATIENCE_SECONDS = 120, NAME_MILLISECONDS = 5000 };

static void *inherited[INHERITED];
static int hearing = -1;
static pid_t first;
static pid_t brood[BROOD];
static unsigned brood_count;

TARGET_FRAME static void clan_work(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		void *p = malloc(64 + i % 100);

		if (!p)
			target_broken("no memory");
		memset(p, 1, 64);
		free(p);
	}
}

TARGET_FRAME static void clan_keep(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		char *volatile p = malloc(100);

		if (!p)
			target_broken("no memory");
		*p = 1;
	}
}

TARGET_FRAME static void clan_drop(void)
{
	for (int i = 0; i < INHERITED; i++) {
		free(inherited[i]);
		inherited[i] = NULL;
	}
}

static socklen_t name_of(pid_t pid, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1,
					    "limpet-clan-%d", pid));
}

static void hear(void)
{
	struct sockaddr_un name;
	socklen_t bytes = name_of(getpid(), &name);

	close(hearing);
	hearing = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (hearing < 0 || bind(hearing, (struct sockaddr *)&name, bytes))
		target_broken("no socket: %s", strerror(errno));
}

static void send_to(pid_t pid, const char *text)
{
	struct sockaddr_un name;
	socklen_t bytes = name_of(pid, &name);
	const struct timespec nap = {0, 1000000};

	/* It may not have a name yet. */
	for (unsigned i = 0; i < NAME_MILLISECONDS * target_patience(); i++) {
		if (sendto(hearing, text, strlen(text), 0, (struct sockaddr *)&name, bytes) >= 0)
			return;
		nanosleep(&nap, NULL);
	}
	target_broken("%d does not hear: %s", pid, strerror(errno));
}

static void receive(char *text, size_t bytes)
{
	ssize_t got;

	do
		got = recv(hearing, text, bytes - 1, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		target_broken("recv: %s", strerror(errno));
	text[got] = '\0';
}

static pid_t make_child(void);

static void answer(const char *word, pid_t pid)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %d", word, pid);
	send_to(first, text);
}

static void child_main(void)
{
	char line[256];
	unsigned long n;

	hear();
	alarm(PATIENCE_SECONDS * target_patience());
	for (;;) {
		receive(line, sizeof(line));
		if (target_word(line, "work", &n)) {
			clan_work(n);
			answer("worked", 0);
		} else if (target_word(line, "keep", &n)) {
			clan_keep(n);
			answer("kept", 0);
		} else if (target_word(line, "drop", &n)) {
			clan_drop();
			answer("dropped", 0);
		} else if (target_word(line, "fork", &n)) {
			answer("forked", make_child());
		} else if (target_word(line, "orphan", &n)) {
			answer("forked", make_child());
			_exit(0);
		} else if (target_word(line, "execute", &n)) {
			answer("executing", 0);
			snprintf(line, sizeof(line), "%u", PATIENCE_SECONDS * target_patience());
			execl("/bin/sleep", "sleep", line, (char *)NULL);
			target_broken("exec: %s", strerror(errno));
		} else if (target_word(line, "end", &n)) {
			clan_work(100);
			_exit(0);
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
}

static pid_t make_child(void)
{
	const pid_t pid = fork();

	if (pid < 0)
		target_broken("fork: %s", strerror(errno));
	if (pid == 0)
		child_main();
	return pid;
}

static void expect_good_end(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		target_broken("lost a child");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		target_broken("child %d ended with status %#x", pid, status);
}

static pid_t vfork_one(bool slowly)
{
	const struct timespec nap = {0, 300000000};
	const pid_t pid = vfork();

	if (pid == 0) {
		if (slowly)
			nanosleep(&nap, NULL);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	return pid;
}

static pid_t make_short_lived(const char *how)
{
	char *argv[] = {"true", NULL};
	pid_t pid = -1;

	if (!strcmp(how, "vforks") || !strcmp(how, "slow"))
		return vfork_one(!strcmp(how, "slow"));
	if (!strcmp(how, "spawns")) {
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL))
			target_broken("posix_spawn failed");
		return pid;
	}
	pid = fork();
	if (pid == 0) {
		if (!strcmp(how, "execs"))
			execv("/bin/true", argv);
		_exit(strcmp(how, "short") != 0);
	}
	return pid;
}

static void make_all_short_lived(const char *how, unsigned long count)
{
	uint64_t longest_ns = 0;

	for (unsigned long i = 0; i < count; i++) {
		const uint64_t began_ns = target_now_ns();
		uint64_t took_ns;

		expect_good_end(make_short_lived(how));
		took_ns = target_now_ns() - began_ns;
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
	}
	target_say("made %llu", (unsigned long long)(longest_ns / 1000000));
}

static void pass_on(const char *line)
{
	char *rest, text[256];
	const pid_t pid = (pid_t)strtol(line, &rest, 10);

	if (pid <= 0 || *rest != ' ')
		target_broken("unknown command '%s'", line);
	send_to(pid, rest + 1);
	receive(text, sizeof(text));
	target_say("%s", text);
}

int main(void)
{
	char line[256];
	unsigned long n;

	first = getpid();
	for (int i = 0; i < INHERITED; i++)
		inherited[i] = malloc(1000);
	hear();
	target_say("ready %d", first);
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "fork", &n)) {
			target_say("forked %d", make_child());
		} else if (target_word(line, "end", &n)) {
			send_to((pid_t)n, "end");
			target_say("told");
		} else if (target_word(line, "brood", &n)) {
			for (brood_count = 0; brood_count < n && brood_count < BROOD; brood_count++)
				brood[brood_count] = make_child();
			target_say("brooded");
		} else if (target_word(line, "hatch", &n)) {
			for (unsigned i = 0; i < brood_count; i++) {
				send_to(brood[i], "end");
				expect_good_end(brood[i]);
			}
			target_say("hatched");
		} else if (target_word(line, "work", &n)) {
			clan_work(n);
			target_say("worked");
		} else if (target_word(line, "short", &n) || target_word(line, "execs", &n) ||
			   target_word(line, "vforks", &n) || target_word(line, "slow", &n) ||
			   target_word(line, "spawns", &n)) {
			line[strcspn(line, " ")] = '\0';
			make_all_short_lived(line, n);
		} else if (target_word(line, "leave", &n)) {
			_exit(0);
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			pass_on(line);
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
