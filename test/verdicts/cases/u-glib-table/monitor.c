/* A desktop monitor on GLib's main loop. on_sample() puts each reading under a key of its own. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

static GHashTable *readings;
static GQueue *recent;

static gboolean on_sample(gpointer data)
{
	static guint64 samples;

	for (int i = 0; i < 8; i++) {
		char *key = g_strdup_printf("sensor-%d-%" G_GUINT64_FORMAT, i, samples++);
		GString *reading = g_string_sized_new(700);

		g_string_append_printf(reading, "%0*d", 650, i);
		g_hash_table_insert(data, key, g_string_free(reading, FALSE));
	}
	return G_SOURCE_CONTINUE;
}

static gboolean on_redraw(gpointer data)
{
	g_queue_push_tail(data, g_strnfill(3000, 'p'));
	if (g_queue_get_length(data) > 100)
		g_free(g_queue_pop_head(data));
	return G_SOURCE_CONTINUE;
}

static gboolean on_report(gpointer data)
{
	fprintf(stderr, "%u readings, %u recent\n", g_hash_table_size(data),
		g_queue_get_length(recent));
	return G_SOURCE_CONTINUE;
}

static gboolean on_started(gpointer data)
{
	if (g_queue_get_length(data) < 100)
		return G_SOURCE_CONTINUE;
	puts("ready");
	fflush(stdout);
	return G_SOURCE_REMOVE;
}

int main(void)
{
	readings = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	recent = g_queue_new();
	g_timeout_add(20, on_sample, readings);
	g_timeout_add(30, on_redraw, recent);
	g_timeout_add(2000, on_report, readings);
	g_timeout_add(100, on_started, recent);
	g_main_loop_run(g_main_loop_new(NULL, FALSE));
	return 0;
}
