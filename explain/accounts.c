#include "explain/accounts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/runtimes.h"

/* Then further owners of a kind are one: names are the process's to choose. */
#define ACCOUNTS_LIMIT 1024u

struct limpet_account *limpet_accounts_find(const struct limpet_explanation *explanation,
					    const char *kind, const char *owner)
{
	for (size_t i = 0; i < explanation->account_count; i++) {
		struct limpet_account *account = &explanation->accounts[i];

		if (!strcmp(account->kind, kind) &&
		    (!owner || !strncmp(account->owner, owner, sizeof(account->owner) - 1)))
			return account;
	}
	return NULL;
}

uint64_t limpet_accounts_bytes(const struct limpet_explanation *explanation, const char *kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < explanation->account_count; i++)
		if (!strcmp(explanation->accounts[i].kind, kind))
			sum += explanation->accounts[i].bytes;
	return sum;
}

void limpet_accounts_add(struct limpet_accounts *accounts, const char *kind, const char *owner,
			 uint64_t bytes, unsigned things)
{
	struct limpet_explanation *explanation = accounts->explanation;
	struct limpet_account *account;

	if (accounts->error)
		return;
	account = limpet_accounts_find(explanation, kind, owner);
	if (!account && explanation->account_count >= ACCOUNTS_LIMIT) {
		owner = "others";
		account = limpet_accounts_find(explanation, kind, owner);
	}
	if (!account) {
		accounts->error = limpet_reserve_zeroed(
			&explanation->accounts, &explanation->account_capacity,
			explanation->account_count + 1, sizeof(*explanation->accounts));
		if (accounts->error)
			return;
		account = &explanation->accounts[explanation->account_count++];
		account->kind = kind;
		strncpy(account->owner, owner, sizeof(account->owner) - 1);
	}
	account->bytes += bytes;
	account->count += things;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_account *left = a, *right = b;
	bool left_last = !strcmp(left->kind, LIMPET_KIND_UNKNOWN),
	     right_last = !strcmp(right->kind, LIMPET_KIND_UNKNOWN);

	if (left_last != right_last)
		return left_last ? 1 : -1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return strcmp(left->owner, right->owner);
}

/* Those that several accounts can have: others have one owner. */
const char *limpet_explain_words(const char *kind)
{
	static const char *const words[][2] = {
		{LIMPET_KIND_STACKS, "thread stacks"},
		{LIMPET_KIND_MEMFD, "memfds"},
		{LIMPET_KIND_NAMED, "memory named by the program"},
		{LIMPET_KIND_DATA, "written pages of files"},
		{LIMPET_KIND_V8, "parts of V8's heap"},
		{LIMPET_KIND_JAVA, "parts of Java's heap"},
		{LIMPET_KIND_MIMALLOC, "parts of mimalloc's heap"},
		{LIMPET_KIND_TCMALLOC, "parts of tcmalloc's heap"},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(words); i++)
		if (!strcmp(kind, words[i][0]))
			return words[i][1];
	return kind;
}

int limpet_accounts_sort(struct limpet_accounts *accounts)
{
	struct limpet_explanation *explanation = accounts->explanation;
	size_t kept = 0;

	if (accounts->error)
		return accounts->error;
	for (size_t i = 0; i < explanation->account_count; i++)
		if (explanation->accounts[i].bytes)
			explanation->accounts[kept++] = explanation->accounts[i];
	explanation->account_count = kept;
	if (kept)
		qsort(explanation->accounts, kept, sizeof(*explanation->accounts), compare);
	return 0;
}
