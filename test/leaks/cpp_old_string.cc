// std::string as before C++11: it points behind a header, and nothing else points to the block.
#define _GLIBCXX_USE_CXX11_ABI 0
#include "planted.h"

#include <string>

namespace
{
PLANTED_FRAME std::string make_name()
{
	return std::string(103, 'x');
}
} // namespace

std::string kept_names[20];

void plant()
{
	for (int i = 0; i < 20; i++)
		kept_names[i] = make_name();
}
