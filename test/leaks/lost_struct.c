/* Structures that nothing points to. Each points to one that is kept: that holds neither. */
#include "planted.h"

struct session {
	void *registry;
	char name[96];
};

void *kept_registry;

PLANTED_FRAME static void open_session(void)
{
	struct session *session = block(sizeof(*session));

	session->registry = kept_registry;
}

void plant(void)
{
	kept_registry = block(56);
	for (int i = 0; i < 100; i++)
		open_session();
}
