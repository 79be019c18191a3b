/* Imports products from XML, on tcmalloc. A document without products is not freed. */
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned imports, lost;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static unsigned count_products(const xmlNode *node)
{
	unsigned products = 0;

	for (; node; node = node->next) {
		products += !xmlStrcmp(node->name, BAD_CAST "product");
		products += count_products(node->children);
	}
	return products;
}

static __attribute__((noinline)) unsigned import_feed(const char *text, size_t size)
{
	xmlDoc *document = xmlReadMemory(text, (int)size, "feed.xml", NULL, XML_PARSE_NONET);
	unsigned products = count_products(xmlDocGetRootElement(document));

	imports++;
	if (!products) {
		lost++;
		return 0;
	}
	xmlFreeDoc(document);
	return products;
}

static __attribute__((noinline)) size_t write_feed(char *text, size_t size, unsigned number)
{
	size_t used = (size_t)snprintf(text, size, "<feed number=\"%u\">", number);

	for (int i = 0; i < 20; i++)
		used += (size_t)snprintf(text + used, size - used,
					 "<%s id=\"%u\"><title>title of item %d</title></%s>",
					 number % 4 ? "product" : "notice", number + (unsigned)i, i,
					 number % 4 ? "product" : "notice");
	return used + (size_t)snprintf(text + used, size - used, "</feed>");
}

int main(void)
{
	struct timespec next;
	unsigned sum = 0;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		char *text = malloc(8192);

		sum += import_feed(text, write_feed(text, 8192, number));
		free(text);
		if (number == 400) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 4000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%u imports, %u documents lost; %u products\n", imports, lost, sum);
	return 0;
}
