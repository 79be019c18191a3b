#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A rule engine that compiles each rule that it is sent. The trees of replaced rules are never
 * freed. */
enum { RULES = 64 };

struct node {
	int op;
	double number;
	struct node *left, *right;
	char name[16];
};

static struct node *active[RULES];
static unsigned long compiled, nodes;
static const char *cursor;

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

struct node *parse_sum(void);

__attribute__((noinline)) struct node *parse_number(void)
{
	struct node *node = calloc(1, sizeof(*node));
	char *end;

	node->op = '0';
	node->number = strtod(cursor, &end);
	cursor = end;
	nodes++;
	return node;
}

__attribute__((noinline)) struct node *parse_name(void)
{
	struct node *node = calloc(1, sizeof(*node));

	node->op = 'v';
	for (size_t i = 0; *cursor >= 'a' && *cursor <= 'z' && i < sizeof(node->name) - 1; i++)
		node->name[i] = *cursor++;
	nodes++;
	return node;
}

__attribute__((noinline)) struct node *parse_factor(void)
{
	if (*cursor == '(') {
		struct node *inner;

		cursor++;
		inner = parse_sum();
		cursor++;
		return inner;
	}
	return *cursor >= '0' && *cursor <= '9' ? parse_number() : parse_name();
}

__attribute__((noinline)) struct node *parse_product(void)
{
	struct node *left = parse_factor();

	while (*cursor == '*' || *cursor == '/') {
		struct node *node = malloc(sizeof(*node));

		node->op = *cursor++;
		node->left = left;
		node->right = parse_factor();
		left = node;
		nodes++;
	}
	return left;
}

__attribute__((noinline)) struct node *parse_sum(void)
{
	struct node *left = parse_product();

	while (*cursor == '+' || *cursor == '-') {
		struct node *node = malloc(sizeof(*node));

		node->op = *cursor++;
		node->left = left;
		node->right = parse_product();
		left = node;
		nodes++;
	}
	return left;
}

__attribute__((noinline)) double eval(const struct node *node)
{
	switch (node->op) {
	case '0':
		return node->number;
	case 'v':
		return node->name[0];
	case '+':
		return eval(node->left) + eval(node->right);
	case '-':
		return eval(node->left) - eval(node->right);
	case '*':
		return eval(node->left) * eval(node->right);
	default:
		return eval(node->left) / (1 + eval(node->right));
	}
}

__attribute__((noinline)) void compile_rule(int slot, const char *text)
{
	cursor = text;
	active[slot] = parse_sum(); /* and the tree that was there is lost */
	compiled++;
}

__attribute__((noinline)) char *receive_rule(unsigned id)
{
	char *text = malloc(2048);
	int at = sprintf(text, "price*%u", id);

	for (int i = 0; i < 20; i++)
		at += sprintf(text + at, "+(volume-%d*(%u+tax/%d))*weight", i, id, i + 2);
	return text;
}

int main(void)
{
	double total = 0;

	for (int i = 0; i < RULES; i++)
		compile_rule(i, "price*2+1");
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0;; i++) {
		char *text = receive_rule(i);

		compile_rule(i % RULES, text);
		free(text);
		for (int j = 0; j < RULES; j++)
			total += eval(active[j]);
		pace(25);
		if (i % 100 == 0)
			fprintf(stderr, "%lu rules, %lu nodes, %lu bytes (%g)\n", compiled, nodes,
				nodes * sizeof(struct node), total);
	}
}
