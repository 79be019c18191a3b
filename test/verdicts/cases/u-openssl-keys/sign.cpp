// A signing service on OpenSSL: a key for each tenant. Rotated keys are replaced but not freed.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <openssl/evp.h>
#include <string>
#include <thread>
#include <vector>

class Keyring {
public:
	[[gnu::noinline]] void rotate(const std::string &tenant)
	{
		EVP_PKEY *key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");

		keys_[tenant] = key; // the one before should have been freed
		rotated_++;
	}
	[[gnu::noinline]] std::vector<unsigned char> sign(const std::string &tenant, const std::string &text) const
	{
		EVP_MD_CTX *context = EVP_MD_CTX_new();
		std::vector<unsigned char> signature(64);
		size_t size = signature.size();

		EVP_DigestSignInit(context, nullptr, nullptr, nullptr, keys_.at(tenant));
		EVP_DigestSign(context, signature.data(), &size, reinterpret_cast<const unsigned char *>(text.data()), text.size());
		EVP_MD_CTX_free(context);
		return signature;
	}
	unsigned long rotated() const { return rotated_; }

private:
	std::map<std::string, EVP_PKEY *> keys_;
	unsigned long rotated_ = 0;
};

int main()
{
	Keyring ring;
	unsigned long sum = 0;
	auto next = std::chrono::steady_clock::now();

	for (int i = 0; i < 16; i++)
		ring.rotate("tenant" + std::to_string(i));
	std::cout << "ready" << std::endl;
	for (unsigned tick = 0;; tick++) {
		for (unsigned i = 0; i < 3; i++)
			ring.rotate("tenant" + std::to_string((tick + i) % 16));
		sum += ring.sign("tenant" + std::to_string(tick % 16), "message " + std::to_string(tick))[0];
		if (tick % 100 == 0)
			std::fprintf(stderr, "%lu keys made, 16 in use (%lu)\n", ring.rotated(), sum);
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
