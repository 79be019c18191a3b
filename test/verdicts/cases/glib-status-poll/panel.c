/* A panel that polls its devices from glib's main loop. The table of each status is never
 * unreferenced. */
#include <glib-unix.h>
#include <glib.h>
#include <stdio.h>

static guint polls;
static gsize bytes;
static GHashTable *last_seen;

static GVariant *read_status(guint device)
{
	GVariantBuilder builder;

	g_variant_builder_init(&builder, G_VARIANT_TYPE_VARDICT);
	for (guint port = 0; port < 12; port++) {
		gchar *key = g_strdup_printf("port-%u/%u/rate", device, port);

		g_variant_builder_add(&builder, "{sv}", key, g_variant_new_uint64(polls * port));
		g_free(key);
	}
	return g_variant_ref_sink(g_variant_builder_end(&builder));
}

static void publish(GVariant *status)
{
	gchar *text = g_variant_print(status, FALSE);

	bytes += g_variant_get_size(status);
	g_free(text);
}

static gboolean on_status_poll(gpointer unused)
{
	guint device = polls++ % 40;
	GVariant *status = read_status(device);

	g_hash_table_replace(last_seen, GUINT_TO_POINTER(device + 1), g_strdup_printf("%u", polls));
	publish(status); /* which does not take the reference */
	if (polls == 100) {
		puts("ready");
		fflush(stdout);
	}
	(void)unused;
	return G_SOURCE_CONTINUE;
}

static gboolean on_end(gpointer loop)
{
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

int main(void)
{
	GMainLoop *loop = g_main_loop_new(NULL, FALSE);

	last_seen = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	g_unix_signal_add(15, on_end, loop);
	g_timeout_add(10, on_status_poll, NULL);
	g_main_loop_run(loop);
	fprintf(stderr, "%u polls, %zu bytes of serialized status never unreferenced\n", polls,
		bytes);
	return 0;
}
