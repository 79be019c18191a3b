// Pairs of std::shared_ptr that hold each other.
#include "planted.h"

#include <memory>

namespace
{
struct Peer {
	std::shared_ptr<Peer> other;
	char name[56];
};

PLANTED_FRAME void make_pair()
{
	auto first = std::make_shared<Peer>(), second = std::make_shared<Peer>();

	first->other = second;
	second->other = first;
}
} // namespace

void plant()
{
	for (int i = 0; i < 20; i++)
		make_pair();
}
