#!/usr/bin/env bats
# How fast a page is: the largest graph that is asked for is drawn within 50 ms, a picture is there within a second, and
# another picture of the most stacks within 100 ms.
# What it draws is counted in test/integration/html_sizes.bats.
# needs-machine: how fast a page is

load ../integration/helpers
setup() { begin; }
teardown() { end; }

@test "a graph of 100,000 frames is drawn within 50 ms" {
	command -v chromedriver >/dev/null || skip "no chromedriver"
	"$LIMPET" html "$root/test/traces/storm.trace" -o page.html
	"$root/test/html/large" page.html 100000 large.html large.json
	HOME=$work within 200 "$root/test/html/drive" large.html large.json --speed >drive.say 2>drive.err || fail "$(<drive.err)"
	sed 's/^/# figures:   /' drive.say >&3
}

@test "what changes the picture of 120,000 stacks takes 100 ms" {
	command -v chromedriver >/dev/null || skip "no chromedriver"
	"$LIMPET" html "$root/test/traces/storm.trace" -o page.html
	"$root/test/html/made" page.html 120000 many.html many.json
	HOME=$work within 200 "$root/test/html/drive" many.html many.json --changes >drive.say 2>drive.err || fail "$(<drive.err)"
	sed 's/^/# figures:   /' drive.say >&3
}
