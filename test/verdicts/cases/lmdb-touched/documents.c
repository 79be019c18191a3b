/* Looks documents up in an LMDB database; each look-up touches more of its map. */
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DOCUMENTS = 16000, SIZE = 4000 };

static MDB_env *environment;
static MDB_dbi documents;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}
static long rss_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

static void open_database(const char *path)
{
	MDB_txn *txn;

	mdb_env_create(&environment);
	mdb_env_set_mapsize(environment, 1ul << 30);
	if (mdb_env_open(environment, path, MDB_NOSYNC | MDB_NORDAHEAD, 0600))
		abort();
	mdb_txn_begin(environment, NULL, 0, &txn);
	mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &documents);
	mdb_txn_commit(txn);
}

static void fill(void)
{
	char text[SIZE];
	MDB_txn *txn;

	memset(text, 't', sizeof(text));
	for (unsigned id = 0; id < DOCUMENTS;) {
		mdb_txn_begin(environment, NULL, 0, &txn);
		for (int i = 0; i < 1000; i++, id++) {
			MDB_val key = {sizeof(id), &id}, value = {SIZE, text};

			mdb_put(txn, documents, &key, &value, MDB_APPEND);
		}
		mdb_txn_commit(txn);
	}
}

static __attribute__((noinline)) unsigned lookup_document(unsigned id)
{
	MDB_val key = {sizeof(id), &id}, value;
	MDB_txn *txn;
	unsigned sum = 0;

	mdb_txn_begin(environment, NULL, MDB_RDONLY, &txn);
	if (!mdb_get(txn, documents, &key, &value)) {
		char *copy = malloc(value.mv_size);

		memcpy(copy, value.mv_data, value.mv_size);
		for (size_t i = 0; i < value.mv_size; i += 64)
			sum += (unsigned char)copy[i];
		free(copy);
	}
	mdb_txn_abort(txn);
	return sum;
}

int main(int argc, char **argv)
{
	struct timespec next;
	unsigned sum = 0;
	long before = 0;

	(void)argc;
	signal(SIGTERM, end);
	mkdir(argv[1], 0700);
	open_database(argv[1]);
	fill();
	mdb_env_close(environment);
	open_database(argv[1]);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sum += lookup_document(number % DOCUMENTS);
		if (number == 1000) {
			before = rss_kib();
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "RSS %ld KiB at first, then %ld KiB\n", before, rss_kib());
	return sum == 1;
}
