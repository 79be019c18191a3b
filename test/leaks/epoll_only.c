/* Held by an epoll instance alone, whose words /proc/PID/fdinfo tells. Other tools call these lost.
 */
#include "planted.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

PLANTED_FRAME static void *make_connection(void)
{
	return block(104);
}

void plant(void)
{
	const int epoll = epoll_create1(0);

	for (int i = 0; i < 10; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = make_connection()};

		if (epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event))
			broken("epoll_ctl");
	}
}
