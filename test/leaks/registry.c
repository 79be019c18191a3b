/* A registry that forgets to remove: it grows, and holds all. */
#include "planted.h"

#include <stdlib.h>

struct client {
	char name[40];
	struct client **place;
	char *buffer;
};

struct registry {
	size_t count, room;
	struct client **clients;
} sessions;

PLANTED_FRAME static void register_client(void)
{
	struct client *client = block(sizeof(*client));

	client->buffer = block(520);
	if (sessions.count == sessions.room) {
		sessions.room = sessions.room ? 2 * sessions.room : 16;
		sessions.clients = realloc(sessions.clients, sessions.room * sizeof(client));
		if (!sessions.clients)
			broken("realloc");
	}
	sessions.clients[sessions.count++] = client;
}

void plant(void)
{
	for (int i = 0; i < 1000; i++)
		register_client();
}
