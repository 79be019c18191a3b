/* A server that loses what each request made. Requests come for eight seconds, then none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void parse_request(void)
{
	char *volatile line = malloc(500);

	free(line);
}

static __attribute__((noinline)) void remember_request(void)
{
	char *volatile session = malloc(3000);

	memset(session, 1, 3000); /* and nobody frees it */
}

int main(void)
{
	char byte;

	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		continue;
	for (int i = 0; i < 800; i++) {
		parse_request();
		remember_request();
		usleep(10000);
	}
	for (;;) {
		parse_request();
		usleep(50000);
	}
}
