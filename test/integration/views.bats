#!/usr/bin/env bats
# The views of limpet report, on captures whose sums are known. What is known of test/targets/kinds: each
# of its functions makes the same calls in every run.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

traces=$root/test/traces

# One capture for those who look at it only.
setup_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR begin
	within 120 "$LIMPET" run -q --on-overload wait -o "$BATS_FILE_TMPDIR/kinds.limpet" -- "$TARGETS/kinds" >run.say 2>run.err
}
teardown_file() { end; }

of_kinds() {
	trace=$BATS_FILE_TMPDIR/kinds.limpet
}

# view NAME [OPTION...]: into view.json.
view() {
	within 60 "$LIMPET" report "$trace" --json --view "$@" >view.json 2>view.err ||
		fail "limpet report --view $*"
}

says() { says_in view.json "$@"; }

# bats test_tags=check
@test "functions: calls and bytes of each site are those that the program made" {
	of_kinds
	view functions
	says 'def of($name): .functions[] | select(.function == $name);
		of("kinds_churn").allocations == 60000 and of("kinds_churn").live_bytes == 0 and
		of("kinds_churn").self.allocated_bytes == 60000 * 120 and
		of("kinds_small").live_allocations == 10000 and of("kinds_small").live_bytes == 640000 and
		of("kinds_large").live_bytes == 1000000 and
		of("kinds_large").file != null and
		of("main").self.allocations < 10 and of("main").allocations == .totals.allocations -
			([.functions[] | select(.function == "(stack unknown)") | .allocations] | add // 0)'
	run "$LIMPET" report "$trace" --view functions -n 3
	[[ $status == 0 && $output == *main*"more"* ]]
}

@test "trees: each node holds its children, and the first level everything" {
	local kind
	of_kinds
	for kind in top-down bottom-up; do
		view $kind
		says '(reduce .nodes[] as $n ({}; .[$n.parent | tostring] += $n.allocated_bytes)) as $below |
			.totals.allocated_bytes == $below["0"] and
			all(.nodes[]; .allocated_bytes >= ($below[.id | tostring] // 0)) and
			(reduce .nodes[] as $n ({"0": true, ok: true};
				.ok = (.ok and .[$n.parent | tostring] == true) | .[$n.id | tostring] = true) | .ok)'
	done
	says '[.nodes[] | select(.depth == 1 and .function == "kinds_small")][0] | .live_bytes == 640000'
}

@test "callers, callees and lines of a function" {
	of_kinds
	within 60 "$LIMPET" report "$trace" --json --view callers=kinds_small >view.json
	says '.view == "callers" and .total.live_bytes == 640000 and .self.live_bytes == 640000 and
		(.callers | length) == 1 and .callers[0].function == "main" and
		all(.lines[]; .file | endswith("kinds.c")) and (.lines | length) > 0'
	within 60 "$LIMPET" report "$trace" --json --view callers=main >view.json
	says '([.callees[] | select(.function == "kinds_churn")][0].allocations) == 60000 and
		([.lines[] | select(.allocations == 60000)] | length) == 1'
	# Of a function that is small beside the whole, too.
	run -0 "$LIMPET" report "$trace" --view callers=kinds_large --sort allocations
	[[ $output == *"with what it calls 40, <1 %; itself 40, <1 %"*"called by"*"40  <1 %  main"*"from its lines"*"kinds.c:"* ]] ||
		fail "$output"
	"$LIMPET" report "$trace" --view callers=kinds_churn --sort live >text
	grep -qx 'with what it calls 0 B; itself 0 B' text || fail "$(<text)"
	# A part of many names is asked back.
	refused 1 "part of" "$LIMPET" report "$trace" --view callers=kinds
	refused 1 "no function" "$LIMPET" report "$trace" --view callers=nothing_like_it
	refused 2 "needs a function: callers=NAME" "$LIMPET" report "$trace" --view callers
	# Which trace is meant is asked only where there is none.
	refused 1 "cannot read 'nothing" "$LIMPET" report nothing.limpet
	[[ $stderr == *"print the path of their trace"* ]]
	echo text >text.limpet
	refused 1 "not a limpet trace" "$LIMPET" report text.limpet
	[[ $stderr == *"print the path of their trace"* ]]
	head -c 20 "$trace" >cut.limpet
	failed_bare "cut short" "$LIMPET" report cut.limpet
}

@test "threads: who allocated, and who freed" {
	of_kinds
	view threads
	# The second thread frees half of the small blocks, which the first has allocated.
	says '([.threads[] | select(.own_frees == 10000)] | length) == 1 and
		([.threads[].allocations] | add) == .totals.allocations and
		([.threads[].live_bytes] | add) == .totals.live_bytes and
		([.threads[].peak_bytes] | add) == .totals.peak_bytes and
		([.threads[].own_frees] | add) == .totals.frees'
	local main
	main=$(jq '[.threads[] | select(.allocations > 100000)][0].thread' view.json)
	"$LIMPET" report "$trace" --json --include "thread:$main" --include function:kinds_small >report.json
	expect '.totals.live_bytes == 640000 and .totals.frees == 10000 and .totals.allocations == 20000'
	"$LIMPET" report "$trace" --json --exclude "thread:$main" --include function:kinds_small >report.json
	expect '.totals.allocations == 0 and (.sites | length) == 0'
}

@test "sizes and lifetimes of each site" {
	of_kinds
	view sizes
	says 'def of($name): .sites[] | select(.stack[0] == $name);
		of("kinds_churn").smallest_bytes == 120 and of("kinds_churn").largest_bytes == 120 and
		of("kinds_vector").smallest_bytes == 256 and of("kinds_vector").largest_bytes == 65536 and
		([.sizes[].allocations] | add) == .totals.allocations and
		([.sizes[].allocated_bytes] | add) == .totals.allocated_bytes and
		all(.sizes[]; .average_bytes >= .from_bytes and .average_bytes <= .to_bytes)'
	view lifetimes
	says 'def of($name): .sites[] | select(.stack[0] == $name);
		([of("kinds_small").ages[].freed] | add) == 10000 and
		([of("kinds_small").ages[].alive] | add) == 10000 and
		([of("kinds_small").ages[].alive_bytes] | add) == 640000 and
		([.ages[].freed] | add) == .totals.frees - .totals.reallocations and
		([.ages[].alive_bytes] | add) == .totals.live_bytes'
}

@test "timeline and modules add up" {
	of_kinds
	view timeline
	"$LIMPET" report "$trace" --view timeline | grep -qE '^ *until +highest +allocs +temporary +RSS +mapped$' || fail "the columns"
	says '(.timeline | length) == 16 and ([.timeline[].allocations] | add) == .totals.allocations and
		([.timeline[].temporary_allocations] | add) == .totals.temporary_allocations and
		([.timeline[].highest_live_bytes] | max) >= .totals.peak_bytes and
		.timeline[-1].live_bytes == .totals.live_bytes'
	view timeline -n 100000
	says '(.timeline | length) == 100000'
	refused 2 "at most 100000 parts, not 100001" "$LIMPET" report "$trace" --view timeline -n 100001
	view modules
	says '([.modules[].self.allocated_bytes] | add) == .totals.allocated_bytes and
		(.modules | length) > 0 and any(.modules[]; .module // "" | endswith("kinds"))'
}

@test "what filters keep and hide are the whole" {
	local whole
	of_kinds
	view functions
	whole=$(jq .totals view.json)
	view functions --include 'function:kinds_(small|large)'
	says '. as $all | .totals.allocations == 20040 and .totals.live_bytes == 1640000 and
		all($whole | keys[]; $whole[.] == $all.totals[.] + $all.hidden[.])' --argjson whole "$whole"
	view functions --exclude 'function:kinds_(small|large)'
	says '.hidden.allocations == 20040 and .totals.live_bytes == $whole.live_bytes - 1640000' --argjson whole "$whole"
	printf '# known\nleak:kinds_small\nrace:kinds_churn\nleak:*_large$\n' >suppressions
	view functions --exclude @suppressions
	says '.hidden.allocations == 20040'
	# The report itself: sizes and timeline are those of what is kept.
	"$LIMPET" report "$trace" --json --include '^kinds_small$' >report.json
	expect '.totals.live_bytes == 640000 and ([.sizes[].allocations] | add) == 20000 and
		.timeline[-1].live_bytes == 640000 and .hidden.allocations > 60000'
	"$LIMPET" report "$trace" --include '^kinds_small$' >text
	grep -q '^filtered  hides' text
	refused 2 "not a regular expression" "$LIMPET" report "$trace" --include '['
	refused 1 "not a suppression" "$LIMPET" report "$trace" --exclude "@$trace"
	refused 2 "did you mean 'top-down'" "$LIMPET" report "$trace" --view topdown
}

@test "a replay finds the sums of every kept trace that has all events" {
	for trace in "$traces"/{cpp,rust,node,storm,lost,sampled,addresses,scattered}.trace; do
		view threads
		says '.totals as $t | .threads as $all |
			def sum(f): [$all[] | f] | add // 0;
			.capture.estimated or (sum(.live_bytes) == $t.live_bytes and sum(.peak_bytes) == $t.peak_bytes and
			sum(.allocations) == $t.allocations and sum(.temporary_allocations) == $t.temporary_allocations)' ||
			fail "$trace" || return 1
		view lifetimes --from 10ms --to 1000s
		says '([.ages[].alive] | add) == .totals.live_allocations' || fail "$trace" || return 1
	done
}

@test "recursion counts a stack once" {
	trace=$traces/node.trace
	view top-down
	# There is some: a function that calls itself.
	says '(reduce .nodes[] as $n ({}; .[$n.id | tostring] = $n.function)) as $name |
		any(.nodes[]; .function == $name[.parent | tostring])'
	view functions
	says '. as $all | all(.functions[]; .allocations <= $all.totals.allocations and
		.allocated_bytes <= $all.totals.allocated_bytes and .self.allocations <= .allocations)'
	"$LIMPET" export "$trace" --format callgrind -o out.callgrind
	# Figures: the line, then live bytes; below a call no more than in all.
	awk -v most="$(jq .totals.live_bytes view.json)" '/^calls=/ { getline; if ($2 > most) exit 1 }' out.callgrind
}

@test "a trace of sums alone: what needs events says so, the rest is there" {
	trace=$work/compact.limpet
	within 120 "$LIMPET" run -q --compact --on-overload wait -o "$trace" -- "$TARGETS/kinds" >run.say 2>run.err
	view functions --include '^kinds_small$'
	says '.totals.allocations == 20000 and .totals.live_bytes == 640000'
	"$LIMPET" report "$trace" --json --include '^kinds_small$' >report.json
	expect '.totals.live_bytes == 640000 and .sizes == [] and .timeline == []'
	local kind
	for kind in threads sizes lifetimes timeline; do
		refused 1 "only sums" "$LIMPET" report "$trace" --view $kind || return 1
	done
	refused 1 "only sums" "$LIMPET" export "$trace" --format heaptrack
	refused 1 "only sums" "$LIMPET" export "$trace" --format massif
	"$LIMPET" export "$trace" --format folded --sort live --include kinds_small >out.folded
	same "folded" "$(cat out.folded)" "main;kinds_small 640000"
}

# at_width COLUMNS OPTION...: the report as a terminal of that width has it; no line is wider.
at_width() {
	local columns=$1
	shift
	script -qec "stty cols $columns; '$LIMPET' report $*" /dev/null </dev/null | tr -d '\r' |
		sed 's/\x1b\[[0-9;]*m//g' >text
	[[ -s $work/text ]] || fail "nothing was shown" || return 1
	awk -v most="$columns" 'length($0) > most { print; found = 1 } END { exit found }' text ||
		fail "wider than $columns columns: $*"
}

@test "text fits the width of the terminal" {
	local kind columns
	for trace in "$traces"/{node,rust,cpp}.trace; do
		for columns in 80 132; do
			for kind in sites bottom-up top-down functions modules threads sizes lifetimes timeline; do
				at_width $columns --view $kind "$trace" || return 1
			done
			at_width $columns --view callers=main "$trace" || return 1
		done
	done
}

# What comes before the sites, without line breaks.
head_words() {
	sed '/^Top /,$d' "$1" | tr -s ' \n' ' '
}

@test "a narrow terminal breaks lines of the head, and cuts nothing off" {
	local columns
	for trace in "$traces"/{node,rust,cpp}.trace; do
		"$LIMPET" report "$trace" >whole
		for columns in 60 80; do
			at_width $columns "$trace" || return 1
			[[ $(head_words text) == "$(head_words whole)" ]] || fail "$columns columns: $(diff text whole)" || return 1
			# A figure stays with its unit.
			run ! grep -E '^ +([KMGT]iB|%|blocks?|frees?)\b' text
		done
	done
}

@test "a stack's calls of a function by itself are one line, unless all frames are asked for" {
	start leak "$TARGETS/leak"
	attach "$pid"
	# The list of sessions has room for eight then, and does not grow below.
	tell leak 'leak 5' leaked
	tell leak 'descend 38' descended
	tell leak 'descend 1' descended
	stop "$pid"
	within 60 "$LIMPET" report "$trace" >text.say
	# The innermost call is at another line, that of the call of what allocates.
	same "folded calls" "$(grep -c 'Registry::descend x38  .*leak\.cc:[0-9]*$' text.say)" 1
	# One alone, and one of each line for 38 and for 1.
	same "lines" "$(grep -c 'Registry::descend' text.say)" 4
	within 60 "$LIMPET" report "$trace" --full >text.say
	same "all frames" "$(grep -c 'Registry::descend' text.say)" $((39 + 2))
	run ! grep -q 'descend.* x38' text.say
	finish leak
}

@test "calls of two functions by each other are shown once, with their number" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 5' leaked
	tell leak 'parse 20' parsed
	stop "$pid"
	within 60 "$LIMPET" report "$trace" >text.say
	# The innermost item is at the line of what it allocates.
	same "frames" "$(sed -n '/^ .*parse_item/,/^ *main/p' text.say | sed 's/  [^ ]*leak.cc:.*//; s/^ *//; s/(anonymous namespace):://')" \
		"$(printf '%s\n' parse_item parse_list parse_item "(these 2 frames x20)" parse_list main)"
	within 60 "$LIMPET" report "$trace" --full >text.say
	same "all frames" "$(grep -cE 'parse_(item|list)' text.say)" 42
	run ! grep -q 'these 2 frames' text.say
	# Stacks in one line, of a view and of a difference.
	within 60 "$LIMPET" report "$trace" --view lifetimes >text.say
	grep -q 'remember < (parse_item < parse_list) x21 < main' <(sed 's/(anonymous namespace):://g' text.say)
	attach "$pid"
	stop "$pid"
	within 60 "$LIMPET" diff "$trace" trace.1.limpet >text.say
	grep -q 'remember < (parse_item < parse_list) x21 < main' <(sed 's/(anonymous namespace):://g' text.say)
	within 60 "$LIMPET" diff --full "$trace" trace.1.limpet >text.say
	run ! grep -qE 'x2[01]' text.say
	finish leak
}

@test "a filter that keeps nothing says so; one that keeps what is older than the window does not" {
	local spike=$root/test/html/spike.trace
	"$LIMPET" report "$spike" --include function:nosuch | grep -qE '^filtered +nothing matches: hides 58\.6 KiB live'
	"$LIMPET" report "$spike" --include thread:nosuch | grep -q '^filtered *nothing matches'
	"$LIMPET" report "$root/test/html/shop.trace" --include thread:sho | grep -q '^filtered *hides 0 B'
	"$LIMPET" report "$spike" --from 1.85s --include function:some | grep -q '^filtered *hides 0 B'
}
