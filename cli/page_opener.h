/* Opens a page in the user's browser. */
#ifndef LIMPET_CLI_PAGE_OPENER_H
#define LIMPET_CLI_PAGE_OPENER_H

/* Starts $BROWSER, a command or several separated by colons, of which the first that is there is
 * taken; or else xdg-open(1), if there is a display. It does not wait, and the program has neither
 * the terminal nor limpet as its parent. If none can be started it says so, and how to see the page
 * elsewhere: the page itself has been written. */
void limpet_page_open(const char *path);

#endif
