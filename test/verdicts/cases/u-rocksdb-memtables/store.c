#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rocksdb/c.h>

/* A store on RocksDB: writes fill memtables of 8 MiB, which are flushed to files and freed. */
static rocksdb_t *db;
static rocksdb_writeoptions_t *writing;
static unsigned long written;

static void pace(long ms)
{
	static struct timespec next;

	if (next.tv_sec == 0)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += ms * 1000000;
	while (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		continue;
}

static void die_of(char *error)
{
	if (error != NULL) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
}

__attribute__((noinline)) void user_save(unsigned long id)
{
	char key[32], value[8000], *error = NULL;
	int size = snprintf(key, sizeof(key), "user-%lu", id % 300);

	memset(value, (int)id, sizeof(value));
	rocksdb_put(db, writing, key, (size_t)size, value, sizeof(value), &error);
	die_of(error);
	written++;
}

int main(int argc, char **argv)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *error = NULL;

	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_write_buffer_size(options, 8 << 20);
	rocksdb_options_set_max_write_buffer_number(options, 2);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	db = rocksdb_open(options, argv[argc - 1], &error);
	die_of(error);
	writing = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(writing, 1);
	for (unsigned long tick = 0;; tick++) {
		for (int i = 0; i < 8; i++)
			user_save(tick * 8 + (unsigned long)i);
		if (written == 4000) {
			puts("ready");
			fflush(stdout);
		}
		if (tick % 50 == 0) {
			char *tables =
				rocksdb_property_value(db, "rocksdb.cur-size-all-mem-tables");

			fprintf(stderr, "%lu written, memtables %s bytes\n", written, tables);
			free(tables);
		}
		pace(20);
	}
}
