/* Verifies signed tokens. The context and the key of a token that is not valid are not freed. */
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static EVP_PKEY *signing_key;
static unsigned char public_key[32];
static unsigned checked, refused;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) char *make_token(unsigned number, unsigned char signature[64])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char *token = malloc(200);
	size_t size = 64;

	snprintf(token, 200, "sub=%u;exp=%u;scope=read write", number, number + 3600);
	EVP_DigestSignInit(context, NULL, NULL, NULL, signing_key);
	EVP_DigestSign(context, signature, &size, (unsigned char *)token, strlen(token));
	EVP_MD_CTX_free(context);
	return token;
}

static __attribute__((noinline)) int verify_token(const char *token, const unsigned char *signature)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, 32);
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	checked++;
	EVP_DigestVerifyInit(context, NULL, NULL, NULL, key);
	if (EVP_DigestVerify(context, signature, 64, (const unsigned char *)token, strlen(token)) !=
	    1) {
		refused++;
		return 0;
	}
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(key);
	return 1;
}

static __attribute__((noinline)) int handle_login(unsigned number)
{
	unsigned char signature[64];
	char *token = make_token(number, signature);
	int valid;

	if (number % 2)
		token[5] ^= 1;
	valid = verify_token(token, signature);
	free(token);
	return valid;
}

int main(void)
{
	struct timespec next;
	size_t size = sizeof(public_key);
	unsigned valid = 0;

	signing_key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	EVP_PKEY_get_raw_public_key(signing_key, public_key, &size);
	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		valid += (unsigned)handle_login(number);
		if (number == 200) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 3000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%u tokens, %u refused and lost\n", checked, refused);
	return valid == checked;
}
