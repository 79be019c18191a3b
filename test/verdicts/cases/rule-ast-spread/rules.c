/* A filter of mail whose rules are compiled again whenever a folder changes. The tree of a rule is
 * never freed. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { OR, AND, NOT, COMPARE, CALL, FIELD, TEXT, NUMBER };

struct node {
	enum kind kind;
	int count;
	struct node **children;
	char *text;
	double number;
};

static size_t nodes;
static size_t rules;
static volatile sig_atomic_t ended;

static struct node *parse_or(const char **at);

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static void skip(const char **at)
{
	while (isspace((unsigned char)**at))
		++*at;
}

static struct node *new_node(enum kind kind)
{
	struct node *node = calloc(1, sizeof(*node));

	node->kind = kind;
	nodes++;
	return node;
}

static void add_child(struct node *node, struct node *child)
{
	node->children = realloc(node->children, (size_t)(node->count + 1) * sizeof(child));
	node->children[node->count++] = child;
}

static __attribute__((noinline)) struct node *parse_text(const char **at)
{
	const char *from = ++*at;
	struct node *node = new_node(TEXT);

	while (**at && **at != '"')
		++*at;
	node->text = strndup(from, (size_t)(*at - from));
	if (**at)
		++*at;
	return node;
}

static __attribute__((noinline)) struct node *parse_number(const char **at)
{
	char *after;
	struct node *node = new_node(NUMBER);

	node->number = strtod(*at, &after);
	*at = after;
	return node;
}

static __attribute__((noinline)) struct node *parse_name(const char **at)
{
	const char *from = *at;
	struct node *node;

	while (isalnum((unsigned char)**at) || **at == '_')
		++*at;
	node = new_node(**at == '(' ? CALL : FIELD);
	node->text = strndup(from, (size_t)(*at - from));
	if (node->kind == FIELD)
		return node;
	do {
		++*at;
		skip(at);
		add_child(node, parse_or(at));
		skip(at);
	} while (**at == ',');
	++*at;
	return node;
}

static __attribute__((noinline)) struct node *parse_primary(const char **at)
{
	struct node *node;

	skip(at);
	if (**at == '(') {
		++*at;
		node = parse_or(at);
		skip(at);
		++*at;
		return node;
	}
	if (**at == '!') {
		++*at;
		node = new_node(NOT);
		add_child(node, parse_primary(at));
		return node;
	}
	if (**at == '"')
		return parse_text(at);
	if (isdigit((unsigned char)**at))
		return parse_number(at);
	return parse_name(at);
}

static __attribute__((noinline)) struct node *parse_compare(const char **at)
{
	struct node *left = parse_primary(at), *node;

	skip(at);
	if (!**at || !strchr("=<>", **at))
		return left;
	++*at;
	node = new_node(COMPARE);
	add_child(node, left);
	add_child(node, parse_primary(at));
	return node;
}

static __attribute__((noinline)) struct node *parse_and(const char **at)
{
	struct node *left = parse_compare(at), *node;

	for (skip(at); **at == '&'; skip(at)) {
		++*at;
		node = new_node(AND);
		add_child(node, left);
		add_child(node, parse_compare(at));
		left = node;
	}
	return left;
}

static __attribute__((noinline)) struct node *parse_or(const char **at)
{
	struct node *left = parse_and(at), *node;

	for (skip(at); **at == '|'; skip(at)) {
		++*at;
		node = new_node(OR);
		add_child(node, left);
		add_child(node, parse_and(at));
		left = node;
	}
	return left;
}

static __attribute__((noinline)) int count_fields(const struct node *node)
{
	int fields = node->kind == FIELD;

	for (int i = 0; i < node->count; i++)
		fields += count_fields(node->children[i]);
	return fields;
}

/* The bytecode, which its caller frees. */
static __attribute__((noinline)) unsigned char *compile_rule(const char *source)
{
	struct node *tree = parse_or(&source);
	int fields = count_fields(tree);
	unsigned char *code = malloc(64 + (size_t)fields * 16);

	memset(code, fields, 64 + (size_t)fields * 16);
	rules++;
	return code;
}

static __attribute__((noinline)) void folder_changed(unsigned number)
{
	static unsigned char *current[16];
	char source[512];

	snprintf(source, sizeof(source),
		 "from = \"user%u@example.org\" & size > %u | !(contains(subject, \"offer %u\", 3) "
		 "& "
		 "(to = \"list%u\" | cc = \"list%u\")) | age(date) < 30 & header(\"X-Spam\", %u) = "
		 "1",
		 number, number, number, number % 7, number % 5, number % 11);
	free(current[number % 16]);
	current[number % 16] = compile_rule(source);
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		folder_changed(number);
		if (number == 100) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 5000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%zu rules, %zu nodes of %zu bytes kept\n", rules, nodes,
		sizeof(struct node));
	return 0;
}
