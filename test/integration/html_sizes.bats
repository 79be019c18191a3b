#!/usr/bin/env bats
# Pages of many stacks and of long names, and a person's tasks in every view; in headless Chromium.
# time-limit: 600

load helpers
load browser

# How long it takes: test/torture/html_limits.bats.
graph_of() {
	"$LIMPET" html "$root/test/traces/storm.trace" -o page.html
	"$root/test/html/large" page.html "$1" large.html large.json
	driven large.html large.json --large
}

@test "a graph of 20,000 frames: what can be seen is drawn, once for each key" {
	graph_of 20000
}

# bats test_tags=release
@test "a graph of 100,000 frames: what can be seen is drawn, once for each key" {
	graph_of 100000
}

made_of() {
	"$LIMPET" html "$root/test/traces/storm.trace" -o page.html
	"$root/test/html/made" page.html "$1" made.html made.json
}

@test "a page of 20,000 stacks can be filtered, and draws a bounded part of them" {
	made_of 20000
	driven made.html made.json --many
}

# bats test_tags=release
@test "a page of 120,000 stacks can be filtered, and draws a bounded part of them" {
	made_of 120000
	driven made.html made.json --many
}

# bats test_tags=release
@test "a page of names and stacks that are out of the ordinary" {
	made_of 300
	driven made.html made.json --made
}

@test "functions and threads of like names; how old what is live is" {
	made_of 300
	"$root/test/html/figures" made.html |
		jq -c '.kept.survivors = true | .sites |= map(.s = .b | .sb = ([.ab, .fb] | transpose | map(.[0] - .[1])))' |
		"$root/test/html/figures" made.html --put aged.html
	# The largest of the known stacks are two instances of a template.
	"$root/test/html/figures" made.html | jq -c '.strings[0] = "box::Box<int>::run(int)" | .strings[1] = "box::Box<char>::run(int)" |
		.threads[].name = "worker" | .sites[2].th |= reverse' | "$root/test/html/figures" made.html --put alike.html
	driven aged.html made.json --aged -- alike.html made.json --alike
}

# test/html/shop.trace: of the program in docs/tasks.md, with the marks that are named there. It is kept, as what grows is
# said of more seconds than a test should take.
@test "the tasks of docs/tasks.md, by keys alone, by mouse alone and by touch alone" {
	trace=$root/test/html/shop.trace
	"$LIMPET" html "$trace" -o shop.html
	"$LIMPET" report "$trace" --born-between before,after --json >born.json
	json_says '.totals.live_allocations > 1000 and all(.sites[] | select(.live_bytes > 0); .stack[0].function == "session_new")' <born.json
	driven shop.html born.json --tasks
}

# With axe-core, the checker of accessibility.
accessible() {
	local axe=$TARGETS/npm/node_modules/axe-core/axe.min.js
	[[ -f $axe ]] || skip "npm did not bring axe-core ($TARGETS/npm)"
	echo '{}' >none.json
	driven page.html none.json --axe "$axe" -- both.html none.json --axe "$axe"
}

# bats test_tags=release
@test "axe-core finds nothing to improve in any view, light or dark" {
	local trace=$root/test/html/shop.trace
	"$LIMPET" html "$trace" -o page.html
	"$LIMPET" diff "$trace@-before" "$trace@before-after" -o both.html
	accessible
}

# bats test_tags=release
@test "axe-core finds nothing to improve in long tables, light or dark" {
	local traces=$root/test/traces
	"$LIMPET" html "$traces/storm.trace" -o page.html
	"$LIMPET" diff "$traces/storm.trace" "$traces/rust.trace" -o both.html
	accessible
}
