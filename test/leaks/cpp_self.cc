// Lost std::strings that are short: each points to itself, which holds nothing.
#include "planted.h"

#include <string>

namespace
{
PLANTED_FRAME void make_name()
{
	auto *name = new std::string("short");

	__asm__ volatile("" : : "r"(name) : "memory");
}
} // namespace

void plant()
{
	for (int i = 0; i < 20; i++)
		make_name();
}
