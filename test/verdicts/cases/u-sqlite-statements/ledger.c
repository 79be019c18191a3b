#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

/* A ledger in SQLite. ledger_balance() forgets to finalize its statement when it has found the row.
 */
static sqlite3 *db;
static unsigned long balances, posted;

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

__attribute__((noinline)) double ledger_balance(int account)
{
	sqlite3_stmt *statement;
	double balance = 0;

	if (sqlite3_prepare_v2(db,
			       "SELECT sum(amount) FROM entries WHERE account = ? GROUP BY account",
			       -1, &statement, NULL) != SQLITE_OK)
		return -1;
	sqlite3_bind_int(statement, 1, account);
	balances++;
	if (sqlite3_step(statement) == SQLITE_ROW)
		return sqlite3_column_double(statement, 0);
	sqlite3_finalize(statement);
	return balance;
}

__attribute__((noinline)) void ledger_post(int account, double amount)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO entries(account, amount) VALUES (?, ?)",
			       -1, &statement, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int(statement, 1, account);
	sqlite3_bind_double(statement, 2, amount);
	sqlite3_step(statement);
	sqlite3_finalize(statement);
	posted++;
}

int main(void)
{
	double total = 0;

	sqlite3_open(":memory:", &db);
	sqlite3_exec(db, "CREATE TABLE entries(account INTEGER PRIMARY KEY, amount REAL)", NULL,
		     NULL, NULL);
	for (int i = 0; i < 100; i++)
		ledger_post(i, i);
	puts("ready");
	fflush(stdout);
	for (int tick = 0;; tick++) {
		for (int i = 0; i < 2; i++) {
			ledger_post((tick + i) % 100, tick);
			total += ledger_balance((tick * 2 + i) % 100);
		}
		if (tick % 100 == 0)
			fprintf(stderr, "%lu balances, %lu posted, sqlite holds %lld bytes (%g)\n",
				balances, posted, (long long)sqlite3_memory_used(), total);
		pace(20);
	}
}
