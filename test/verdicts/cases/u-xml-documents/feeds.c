#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>

/* A reader of feeds with libxml2. A feed whose title is the known one is not freed. */
static unsigned long read_feeds, unchanged;

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

static int feed_write(char *text, size_t room, unsigned id)
{
	int at = snprintf(text, room, "<feed><title>%s</title>", id % 3 == 0 ? "new" : "same");

	for (int i = 0; i < 20; i++)
		at += snprintf(text + at, room - (size_t)at,
			       "<entry id='%u.%d'><author>a%d</author><body>text of entry "
			       "%d</body></entry>",
			       id, i, i, i);
	return at + snprintf(text + at, room - (size_t)at, "</feed>");
}

__attribute__((noinline)) int feed_title_is_known(xmlDocPtr document)
{
	xmlXPathContextPtr context = xmlXPathNewContext(document);
	xmlXPathObjectPtr found =
		xmlXPathEvalExpression((const xmlChar *)"string(/feed/title)", context);
	int known = xmlStrcmp(found->stringval, (const xmlChar *)"same") == 0;

	xmlXPathFreeObject(found);
	xmlXPathFreeContext(context);
	return known;
}

__attribute__((noinline)) int feed_update(const char *text, int size)
{
	xmlDocPtr document = xmlReadMemory(text, size, "feed.xml", NULL, XML_PARSE_NOBLANKS);

	if (feed_title_is_known(document)) {
		unchanged++;
		return 0;
	}
	xmlFreeDoc(document);
	return 1;
}

int main(void)
{
	char text[8192];

	puts("ready");
	fflush(stdout);
	for (unsigned id = 0;; id++) {
		feed_update(text, feed_write(text, sizeof(text), id));
		read_feeds++;
		if (id % 100 == 0)
			fprintf(stderr, "%lu feeds, %lu unchanged\n", read_feeds, unchanged);
		pace(40);
	}
}
