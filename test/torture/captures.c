/* captures [OPTION...] LIMPET PID COUNT [-- OPTION-OF-ATTACH...]: captures a process COUNT times
 * with `LIMPET attach`, each for a moment, reads every trace, and says what came of it.
 *
 *	--name WORD       of the target, for the table
 *	--events MIN-MAX  of each capture (1-5000): then it is ended by SIGTERM
 *	--threads N       that a round has to record (1; 0: none, for one at rest, which is captured
 *	                  for --hold)
 *	--hold MIN-MAX    milliseconds of such a capture (1-5)
 *	--seconds N       no new round after so long; at least one (0: as long as it takes)
 *	--ranges FILE     where the entries of hooks were ("start-end step", hexadecimal)
 *	--json FILE       the figures
 *
 * A round is good if limpet ended with 0 or 4 (events lost on a busy machine, which it says), its
 * trace is undamaged and holds events, and the target lives, untraced and with nothing mapped that
 * is ours. Status 1 (gave up: the target is untouched) and 5 (the agent stays, switched off) are
 * counted apart; the round after them has to clean up. One in a thousand may end so, or one of
 * fewer. A round of too few threads is thin, and made up for by one with four times the events,
 * and so on; nine thin ones in a row are too many. Ends with 1 if anything else happened. Nothing
 * but --seconds depends on how fast the machine is. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/trace/trace_reader.h"
#include "collector/control/control_client.h"
#include "common/clock.h"
#include "common/wire.h"
#include "injector/remote/agent_image.h"

#define ROUND_LIMIT_NS 60000000000u /* times LIMPET_TEST_PATIENCE: it hangs */
#define MOST_THIN 9                 /* in a row: one, and eight that make up for it */
#define MOST_CLEANING 2             /* at the end, after a failure */
#define TRACE "round.limpet"
#define MAX_TIDS 1024
#define LOOK_MS 2
#define MAX_RANGES 65536

extern char **environ;

struct range {
	uint64_t base; /* of the agent */
	uint64_t start, end, step;
};

struct figure {
	uint64_t *values;
	int count;
};

static struct {
	const char *name, *limpet, *json, *ranges;
	pid_t pid;
	int count, threads, seconds;
	long hold_min_ms, hold_max_ms, events_min, events_max;
	uint64_t limit_ns;
	char **attach_options;
} setup = {.name = "target",
	   .threads = 1,
	   .hold_min_ms = 1,
	   .hold_max_ms = 5,
	   .events_min = 1,
	   .events_max = 5000};

static struct {
	int rounds, good, incomplete, gave_up, dormant, thin, bad;
	uint64_t events, fewest_events, max_file_bytes;
	int fewest_threads;
	struct figure attach_us, attach_stop_us, detach_stop_us, round_us;
	struct range ranges[MAX_RANGES];
	int range_count;
	int thin_in_a_row;
	bool after_failure; /* the round before left something that this one has to remove */
} result;

struct round {
	int number, status;
	uint64_t begun_ns, capturing_ns, ended_ns;
	uint64_t wanted_events; /* 0: it ends by itself */
	bool ended;             /* by us */
	uint64_t events;
	int threads;
	int64_t attach_stop_us, detach_stop_us;
	bool unloaded;
	char said[4096];
	size_t said_bytes;
};

/* ---------------------------------------------------------------- figures */

/* Each with fewer than MOST_THIN before it, then that many; and those that clean up. */
static int most_rounds(void)
{
	return (setup.count + 1) * MOST_THIN + MOST_CLEANING;
}

static void figure_add(struct figure *figure, uint64_t value)
{
	if (!figure->values)
		figure->values = calloc((size_t)most_rounds(), sizeof(*figure->values));
	if (figure->values)
		figure->values[figure->count++] = value;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* `rank` of a thousand; the smallest value that so many do not exceed. */
static uint64_t figure_at(struct figure *figure, unsigned rank)
{
	size_t at = ((size_t)figure->count * rank + 999) / 1000;

	if (!figure->count)
		return 0;
	qsort(figure->values, (size_t)figure->count, sizeof(*figure->values), compare);
	return figure->values[at ? at - 1 : 0];
}

static void figure_write(FILE *file, const char *name, struct figure *figure)
{
	fprintf(file, "\"%s\":{\"p50\":%lu,\"p99\":%lu,\"max\":%lu}", name,
		(unsigned long)figure_at(figure, 500), (unsigned long)figure_at(figure, 990),
		(unsigned long)figure_at(figure, 1000));
}

/* ---------------------------------------------------------------- the target, from outside */

/* Up to the last that is in use. */
static uint64_t end_of_hooks(int memory, const struct limpet_agent_info *info)
{
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	uint64_t count = 0;

	if (pread(memory, hooks, sizeof(hooks), (off_t)info->hooks) != sizeof(hooks))
		return info->thunks;
	for (uint64_t i = 0; i < LIMPET_MAX_HOOKS; i++)
		if (hooks[i].original)
			count = i + 1;
	return info->thunks + info->thunk_bytes * count;
}

/* Where the entries of its hooks are: words with these addresses would be called. Looked at again,
 * for it may have been seen before its hooks were made. */
static void note_agent(uint64_t base)
{
	const struct limpet_agent_image *image;
	struct limpet_agent_info info;
	char path[64];
	int memory, at = 0;

	while (at < result.range_count && result.ranges[at].base != base)
		at++;
	if (at == MAX_RANGES || limpet_agent_image_get(&image) < 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", setup.pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return;
	if (pread(memory, &info, sizeof(info), (off_t)(base + image->info_offset)) ==
		    sizeof(info) &&
	    info.magic == LIMPET_INFO_MAGIC) {
		uint64_t end = end_of_hooks(memory, &info);

		if (at == result.range_count)
			result.ranges[result.range_count++] =
				(struct range){base, info.thunks, end, info.thunk_bytes};
		else if (end > result.ranges[at].end)
			result.ranges[at].end = end;
	}
	close(memory);
}

/* Answers how many mappings bear our name, and notes where agents are. -1: the target is gone. */
static int look_at_maps(void)
{
	char path[64], line[4352];
	FILE *file;
	int found = 0, lines = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", setup.pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		unsigned long start, offset;

		lines++;
		if (!strstr(line, "/memfd:limpet"))
			continue;
		found++;
		if (strstr(line, "/memfd:limpet-agent") &&
		    sscanf(line, "%lx-%*x %*s %lx", &start, &offset) == 2 && !offset)
			note_agent(start);
	}
	fclose(file);
	return lines ? found : -1;
}

static bool is_traced(void)
{
	char path[64], line[256];
	FILE *file;
	int tracer = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", setup.pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	if (file)
		fclose(file);
	return tracer != 0;
}

/* ---------------------------------------------------------------- one round */

static int spawn_attach(long hold_ms, int *ret_pipe, pid_t *ret_child)
{
	char pid[16], duration[32];
	char *argv[64] = {NULL};
	posix_spawn_file_actions_t actions;
	int pipes[2], error, words, n = 0;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	snprintf(pid, sizeof(pid), "%d", setup.pid);
	snprintf(duration, sizeof(duration), "%ldms", hold_ms);
	argv[n++] = strdup(setup.limpet);
	argv[n++] = strdup("attach");
	argv[n++] = pid;
	argv[n++] = strdup("--no-seal");
	argv[n++] = strdup("--attach-timeout");
	argv[n++] = strdup("10m");
	argv[n++] = strdup("-o");
	argv[n++] = strdup(TRACE);
	words = n;
	if (hold_ms) {
		argv[n++] = "-d";
		argv[n++] = duration;
	}
	for (char **option = setup.attach_options; option && *option && n < 60; option++)
		argv[n++] = *option;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
	error = posix_spawn(ret_child, setup.limpet, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	for (int i = 0; i < words; i++)
		if (argv[i] != pid)
			free(argv[i]);
	if (error) {
		close(pipes[0]);
		return -error;
	}
	*ret_pipe = pipes[0];
	return 0;
}

/* Ends the capture when it has what was wanted of it. */
static void look_at_events(struct round *round, pid_t child)
{
	struct limpet_control_capture capture;

	if (round->ended || !round->capturing_ns || !round->wanted_events ||
	    limpet_control_find(setup.pid, &capture) < 0 || capture.events < round->wanted_events)
		return;
	round->ended = true;
	kill(child, SIGTERM);
}

/* What limpet says, until it has ended; its first "capturing" is the end of attaching. */
static int listen_to(struct round *round, int from, pid_t child)
{
	int status = 0;

	for (;;) {
		struct pollfd ready = {.fd = from, .events = POLLIN};
		ssize_t got;

		if (limpet_monotonic_ns() - round->begun_ns > setup.limit_ns) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return -ETIMEDOUT;
		}
		look_at_events(round, child);
		if (poll(&ready, 1, LOOK_MS) == 0)
			continue;
		if (round->said_bytes == sizeof(round->said) - 1)
			round->said_bytes /= 2; /* the rest is read, not kept */
		got = read(from, round->said + round->said_bytes,
			   sizeof(round->said) - 1 - round->said_bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		round->said_bytes += (size_t)got;
		round->said[round->said_bytes] = '\0';
		if (!round->capturing_ns && strstr(round->said, "limpet: capturing ")) {
			round->capturing_ns = limpet_monotonic_ns();
			look_at_maps();
		}
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	round->ended_ns = limpet_monotonic_ns();
	if (!WIFEXITED(status))
		return -ECHILD;
	round->status = WEXITSTATUS(status);
	return 0;
}

static void note_tid(uint32_t *tids, int *count, uint32_t tid)
{
	for (int i = 0; i < *count; i++)
		if (tids[i] == tid)
			return;
	if (*count < MAX_TIDS)
		tids[(*count)++] = tid;
}

/* Counts events and the threads that they are of. Answers what is wrong with the trace, or NULL. */
static const char *read_trace(struct round *round)
{
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	const struct limpet_trace_damage *damage;
	struct limpet_trace_event event;
	struct limpet_err err = {0};
	uint32_t tids[MAX_TIDS];
	const char *wrong = NULL;
	size_t count;

	if (limpet_trace_reader_open(TRACE, &reader, &err) < 0)
		return "the trace cannot be read";
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_events *events;
		int more = 0;

		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		if (limpet_trace_events_open(reader, i, &events) < 0) {
			wrong = "a block of events is damaged";
			continue;
		}
		while ((more = limpet_trace_events_next(events, &event)) > 0) {
			if (!event.counted)
				continue;
			round->events++;
			note_tid(tids, &round->threads, event.tid);
		}
		if (more < 0)
			wrong = "an event is damaged";
		limpet_trace_events_free(events);
	}
	damage = limpet_trace_reader_damage(reader);
	if (damage->blocks_damaged || damage->blocks_lost || damage->bytes_ignored)
		wrong = "the trace is damaged";
	if (!limpet_trace_reader_end(reader)->known)
		wrong = "the trace has no end";
	round->attach_stop_us = limpet_trace_reader_end(reader)->attach_stop_us;
	round->detach_stop_us = limpet_trace_reader_end(reader)->detach_stop_us;
	round->unloaded = limpet_trace_reader_end(reader)->agent_unloaded;
	if (limpet_trace_reader_file_bytes(reader) > result.max_file_bytes)
		result.max_file_bytes = limpet_trace_reader_file_bytes(reader);
	limpet_trace_reader_free(reader);
	return wrong;
}

static void complain(const struct round *round, const char *words)
{
	printf("%s: round %d (status %d): %s\n", setup.name, round->number, round->status, words);
	for (const char *line = round->said; *line;) {
		int bytes = (int)strcspn(line, "\n");

		printf("%s:    | %.*s\n", setup.name, bytes, line);
		line += bytes + (line[bytes] == '\n');
	}
	fflush(stdout);
}

static void judge(struct round *round)
{
	const char *wrong = NULL;
	int ours;

	if (round->status == 1) {
		result.gave_up++;
		complain(round, "gave up");
	} else if (round->status == 0 || round->status == 4 || round->status == 5) {
		wrong = read_trace(round);
		/* Or in a child that was forked in the middle of it, which is named. */
		if (!wrong && round->unloaded != (round->status != 5) &&
		    !(round->status == 5 && strstr(round->said, "in children of process")))
			wrong = "the trace and the status disagree about the agent";
		if (!wrong && !round->capturing_ns)
			wrong = "limpet never said that it captures";
	} else {
		wrong = "limpet ended with another status than 0, 1, 4 or 5";
	}
	ours = look_at_maps();
	if (!wrong && ours < 0)
		wrong = "the target is gone";
	if (!wrong && is_traced())
		wrong = "the target is still traced";
	if (!wrong && ours > 0 && round->status != 5)
		wrong = result.after_failure ? "what the round before left is still mapped"
					     : "something of ours is still mapped";
	result.after_failure = round->status == 1 || round->status == 5;
	if (wrong) {
		result.bad++;
		complain(round, wrong);
		return;
	}
	if (round->status == 1)
		return;
	if (round->status == 5) {
		result.dormant++;
		complain(round, "the agent stays");
	} else {
		result.good++;
	}
	result.incomplete += round->status == 4;
	result.events += round->events;
	if ((setup.threads && !round->events) || round->threads < setup.threads) {
		result.thin++;
		result.thin_in_a_row++;
	} else {
		result.thin_in_a_row = 0;
		if (round->events < result.fewest_events)
			result.fewest_events = round->events;
		if (round->threads < result.fewest_threads)
			result.fewest_threads = round->threads;
	}
	figure_add(&result.attach_us, (round->capturing_ns - round->begun_ns) / 1000);
	figure_add(&result.round_us, (round->ended_ns - round->begun_ns) / 1000);
	figure_add(&result.attach_stop_us, (uint64_t)round->attach_stop_us);
	if (round->detach_stop_us >= 0)
		figure_add(&result.detach_stop_us, (uint64_t)round->detach_stop_us);
}

static void run_round(int number)
{
	struct round round = {.number = number, .status = -1, .begun_ns = limpet_monotonic_ns()};
	/* Every length of a capture comes up, in an order that has no period of its own. */
	long any = (long)((unsigned)number * 2654435761u >> 8), hold_ms = 0;
	pid_t child;
	int from = -1, error;

	if (setup.threads)
		round.wanted_events = (uint64_t)(setup.events_min +
						 any % (setup.events_max - setup.events_min + 1))
				      << 2 * result.thin_in_a_row;
	else
		hold_ms = setup.hold_min_ms + any % (setup.hold_max_ms - setup.hold_min_ms + 1);
	unlink(TRACE);
	error = spawn_attach(hold_ms, &from, &child);
	if (!error) {
		error = listen_to(&round, from, child);
		close(from);
	}
	if (error) {
		result.bad++;
		result.after_failure = true;
		complain(&round, error == -ETIMEDOUT ? "limpet hangs"
				 : error == -ECHILD  ? "limpet was killed by a signal"
						     : "limpet cannot be started");
		return;
	}
	judge(&round);
}

/* ---------------------------------------------------------------- all of them */

static void write_json(double seconds)
{
	FILE *file = setup.json ? fopen(setup.json, "we") : NULL;

	if (!file)
		return;
	fprintf(file,
		"{\"name\":\"%s\",\"rounds\":%d,\"good\":%d,\"incomplete\":%d,\"gave_up\":%d,"
		"\"dormant\":%d,\"bad\":%d,\"thin\":%d,\"events\":%lu,\"fewest_events\":%lu,"
		"\"fewest_threads\":%d,\"seconds\":%.1f,\"agent_ranges\":%d,"
		"\"largest_trace_bytes\":%lu,",
		setup.name, result.rounds, result.good, result.incomplete, result.gave_up,
		result.dormant, result.bad, result.thin, (unsigned long)result.events,
		(unsigned long)result.fewest_events, result.fewest_threads, seconds,
		result.range_count, (unsigned long)result.max_file_bytes);
	figure_write(file, "attach_microseconds", &result.attach_us);
	fputc(',', file);
	figure_write(file, "attach_stop_microseconds", &result.attach_stop_us);
	fputc(',', file);
	figure_write(file, "detach_stop_microseconds", &result.detach_stop_us);
	fputc(',', file);
	figure_write(file, "round_microseconds", &result.round_us);
	fputs("}\n", file);
	fclose(file);
}

static void write_ranges(void)
{
	FILE *file = setup.ranges ? fopen(setup.ranges, "ae") : NULL;

	if (!file)
		return;
	for (int i = 0; i < result.range_count; i++)
		fprintf(file, "%lx-%lx %lx\n", (unsigned long)result.ranges[i].start,
			(unsigned long)result.ranges[i].end, (unsigned long)result.ranges[i].step);
	fclose(file);
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {{"name", required_argument, NULL, 'n'},
						{"hold", required_argument, NULL, 'h'},
						{"events", required_argument, NULL, 'e'},
						{"threads", required_argument, NULL, 't'},
						{"ranges", required_argument, NULL, 'r'},
						{"json", required_argument, NULL, 'j'},
						{"seconds", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			setup.name = optarg;
			break;
		case 'h':
			if (sscanf(optarg, "%ld-%ld", &setup.hold_min_ms, &setup.hold_max_ms) != 2)
				return false;
			break;
		case 'e':
			if (sscanf(optarg, "%ld-%ld", &setup.events_min, &setup.events_max) != 2)
				return false;
			break;
		case 't':
			setup.threads = atoi(optarg);
			break;
		case 's':
			setup.seconds = atoi(optarg);
			break;
		case 'r':
			setup.ranges = optarg;
			break;
		case 'j':
			setup.json = optarg;
			break;
		default:
			return false;
		}
	}
	if (argc - optind < 3)
		return false;
	setup.limpet = argv[optind];
	setup.pid = atoi(argv[optind + 1]);
	setup.count = atoi(argv[optind + 2]);
	optind += 3;
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	setup.attach_options = argv + optind;
	return setup.pid > 0 && setup.count > 0 && setup.hold_min_ms > 0 &&
	       setup.hold_max_ms >= setup.hold_min_ms && setup.events_min > 0 &&
	       setup.events_max >= setup.events_min;
}

int main(int argc, char **argv)
{
	uint64_t begun_ns = limpet_monotonic_ns();
	const char *patience = getenv("LIMPET_TEST_PATIENCE");
	int allowed;

	setup.limit_ns = ROUND_LIMIT_NS * (patience ? strtoull(patience, NULL, 10) : 1);
	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: captures [--name WORD] [--events MIN-MAX] [--threads N] "
				"[--hold MIN-MAX] [--seconds N] [--ranges FILE] [--json FILE] "
				"LIMPET PID COUNT [-- "
				"OPTION...]\n");
		return 2;
	}
	result.fewest_events = UINT64_MAX;
	result.fewest_threads = MAX_TIDS;
	/* The last one, too, is followed by one that cleans up. */
	while (result.rounds < setup.count + result.thin ||
	       (result.after_failure &&
		result.rounds < setup.count + result.thin + MOST_CLEANING)) {
		run_round(result.rounds++);
		if (look_at_maps() < 0 || result.thin_in_a_row >= MOST_THIN)
			break;
		if (setup.seconds && !result.after_failure &&
		    limpet_monotonic_ns() - begun_ns > (uint64_t)setup.seconds * 1000000000u)
			break;
	}
	unlink(TRACE);
	write_json((double)(limpet_monotonic_ns() - begun_ns) / 1e9);
	write_ranges();
	allowed = result.rounds / 1000 ? result.rounds / 1000 : 1;
	if (result.thin_in_a_row)
		printf("%s: %d rounds in a row without events of %d threads\n", setup.name,
		       result.thin_in_a_row, setup.threads);
	return result.bad || result.thin_in_a_row || result.gave_up + result.dormant > allowed;
}
