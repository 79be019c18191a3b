/* A store of readings on libuv's loop and SQLite. One of its two queries forgets its statement. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static sqlite3 *database;
static unsigned requests, forgotten;

static void insert_reading(unsigned number)
{
	sqlite3_stmt *statement;

	sqlite3_prepare_v2(database, "INSERT OR REPLACE INTO reading VALUES (?, ?, ?)", -1,
			   &statement, NULL);
	sqlite3_bind_int(statement, 1, (int)(number % 500));
	sqlite3_bind_double(statement, 2, number * 0.5);
	sqlite3_bind_text(statement, 3, "a sensor in the cellar", -1, SQLITE_STATIC);
	sqlite3_step(statement);
	sqlite3_finalize(statement);
}

static double mean_of_sensor(unsigned number)
{
	sqlite3_stmt *statement;

	sqlite3_prepare_v2(database, "SELECT avg(value), count(*) FROM reading WHERE id % 10 = ?",
			   -1, &statement, NULL);
	sqlite3_bind_int(statement, 1, (int)(number % 10));
	if (sqlite3_step(statement) != SQLITE_ROW) {
		sqlite3_finalize(statement);
		return 0;
	}
	forgotten++;
	return sqlite3_column_double(statement, 0); /* and the statement stays */
}

static void on_request(uv_timer_t *timer)
{
	char *response = malloc(4096);

	insert_reading(requests);
	if (requests % 4 == 0)
		snprintf(response, 4096, "{\"mean\": %f}", mean_of_sensor(requests));
	free(response);
	if (++requests == 100) {
		puts("ready");
		fflush(stdout);
	}
	(void)timer;
}

static void on_end(uv_signal_t *handle, int number)
{
	(void)number;
	uv_stop(handle->loop);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	uv_timer_t timer;
	uv_signal_t end;

	sqlite3_open(":memory:", &database);
	sqlite3_exec(database,
		     "CREATE TABLE reading (id INTEGER PRIMARY KEY, value REAL, note TEXT)", NULL,
		     NULL, NULL);
	uv_timer_init(loop, &timer);
	uv_timer_start(&timer, on_request, 5, 5);
	uv_signal_init(loop, &end);
	uv_signal_start(&end, on_end, SIGTERM);
	uv_run(loop, UV_RUN_DEFAULT);
	int kept = 0;
	for (sqlite3_stmt *each = sqlite3_next_stmt(database, NULL); each;
	     each = sqlite3_next_stmt(database, each))
		kept++;
	fprintf(stderr, "%u requests, %u statements forgotten, %d open, sqlite uses %lld bytes\n",
		requests, forgotten, kept, (long long)sqlite3_memory_used());
	return 0;
}
