/* Messages between the process that needs symbols (symbolize.h) and the confined one that reads the
 * files (symbol_worker.h): a head, a payload of bounded size, and sometimes a descriptor, over a
 * socket pair. Neither side trusts the other: a file may take over the process that reads it.
 *
 * Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOL_CHANNEL_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/err.h"

enum limpet_symbol_message_type {
	/* Requests, with their payload. */
	LIMPET_SYMBOL_OPEN = 1, /* the module's file */
	LIMPET_SYMBOL_RESOLVE,  /* count, addresses */
	LIMPET_SYMBOL_MAP,      /* count, ascending addresses, each minus the previous one; the last
				   message has the map's descriptor */
	LIMPET_SYMBOL_SCRIPT,   /* the same for places of a script (source_map.h), and its file */
	LIMPET_SYMBOL_VARIABLE, /* address */
	LIMPET_SYMBOL_FILE,     /* the wanted file, if there is one */
	/* Answers. */
	LIMPET_SYMBOL_OPENED, /* code, has lines, words */
	LIMPET_SYMBOL_FRAMES, /* of the next addresses: count, frames of each */
	LIMPET_SYMBOL_FOUND,  /* of VARIABLE: start, bytes, line, name, file; no name: none is there
			       */
	LIMPET_SYMBOL_DONE, /* code: the map, or the script's, was read; FRAMES follow if it is 0 */
	LIMPET_SYMBOL_REFUSED, /* code, words: it could not be confined; it reads nothing */
	/* Words: why debug information that is there cannot be read. Once, before an OPENED or
	   FRAMES. */
	LIMPET_SYMBOL_UNREAD,
	/* Requests of the confined process in between, answered by FILE. */
	LIMPET_SYMBOL_REQUEST_DEBUG, /* checksum, name */
	LIMPET_SYMBOL_REQUEST_ALT,   /* build-id, name */
	LIMPET_SYMBOL_REQUEST_SPLIT, /* name */
	LIMPET_SYMBOL_REQUEST_SOURCE /* name: a source map */
};

/* Limit of a payload: function and file of each of 32 frames fit, and many more short ones. */
#define LIMPET_SYMBOL_PAYLOAD_MAX (1u << 20)
/* Limit of a name; longer ones are cut. */
#define LIMPET_SYMBOL_TEXT_MAX 8192u

struct limpet_symbol_channel {
	int socket;
	bool accepts_files; /* else the kernel closes received descriptors */
	/* Called if a part has not come yet, or there is no room for it: returns 0 to try again, or
	 * -errno to give up. `events` as in poll(2). NULL: waits forever. */
	int (*wait)(void *context, short events);
	void *context;
	struct limpet_bytes out; /* the payload that is being written */
	/* The last message received. */
	uint32_t type;
	struct limpet_bytes in;
	struct limpet_cursor cursor; /* over `in`: what has not been taken yet */
	int fd;                      /* owned; -1: none came, or it was taken */
};

void limpet_symbol_channel_init(struct limpet_symbol_channel *channel, int socket);
/* Closes the socket too. */
void limpet_symbol_channel_done(struct limpet_symbol_channel *channel);

void limpet_symbol_append_text(struct limpet_symbol_channel *channel,
			       const char *text); /* or NULL */
void limpet_symbol_append_build_id(struct limpet_symbol_channel *channel, const uint8_t *build_id,
				   size_t bytes);
static inline void limpet_symbol_append(struct limpet_symbol_channel *channel, uint64_t number)
{
	limpet_bytes_append_varint(&channel->out, number);
}
/* Sends the payload, which is empty afterwards; `fd` stays the caller's, -1: none. Returns 0,
 * -ENOMEM, or the error of the socket. */
int limpet_symbol_send(struct limpet_symbol_channel *channel, enum limpet_symbol_message_type type,
		       int fd) LIMPET_MUST_CHECK;

/* Returns 0; -EPIPE: the other side has ended; -EBADMSG: not a message; or the error of the socket
 * or of `wait`. */
int limpet_symbol_receive(struct limpet_symbol_channel *channel) LIMPET_MUST_CHECK;
/* Take the next item from the last message received: 0 or NULL at its end. */
static inline uint64_t limpet_symbol_read(struct limpet_symbol_channel *channel)
{
	return limpet_cursor_varint(&channel->cursor);
}
const char *limpet_symbol_read_text(struct limpet_symbol_channel *channel);
const uint8_t *limpet_symbol_read_build_id(struct limpet_symbol_channel *channel,
					   size_t *ret_bytes);
/* Whether exactly the whole message was taken. */
static inline bool limpet_symbol_is_whole(const struct limpet_symbol_channel *channel)
{
	return !channel->cursor.failed && !limpet_cursor_left(&channel->cursor);
}

#endif
