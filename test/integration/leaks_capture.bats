#!/usr/bin/env bats
# attach --leaks: which of a capture's live blocks are lost at its end, and what holds the others.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# capture_more NAME [TIMES]: captures that target while it loses 37 blocks, and opens 200 sessions: report.json.
capture_more() {
	local i
	attach "$pid" --leaks || return 1
	for ((i = 0; i < ${2:-1}; i++)); do
		tell "$1" more "done" || return 1
	done
	stop "$pid" || return 1
	"$LIMPET" report "$trace" --json >report.json
}

# lost_of FUNCTION, held_of FUNCTION: the blocks of sites in this function that are lost, and that are not.
sites_of() { jq --arg f "$1" "[.sites[] | select(any(.stack[]; .function == \$f)) | $2] | add // 0" report.json; }
lost_of() { sites_of "$1" '.lost.blocks'; }
held_of() { sites_of "$1" '.live_allocations - .lost.blocks'; }

# bats test_tags=check
@test "blocks that nothing points to are lost, by their stacks; a list is held by its variable" {
	start lost "$TARGETS/lost"
	capture_more lost
	says_in report.json '.lost | .definitely.blocks + .indirectly.blocks + .probably.blocks == 37'
	says_in report.json '.lost | .definitely.bytes + .indirectly.bytes + .probably.bytes == 305792'
	same "blocks of lose() that are lost, and not" "$(lost_of lose) $(held_of lose)" "37 0"
	same "the same of open_sessions()" "$(lost_of open_sessions) $(held_of open_sessions)" "0 200"
	says_in report.json '[.sites[] | select(any(.stack[]; .function == "open_sessions")) | .holder.name] == ["sessions (lost.c:'"$(grep -n '^static struct session \*volatile sessions' "$root/test/targets/lost.c" | cut -d: -f1)"')"]'
	grep -q '^limpet: lost: 298.6 KiB in 37 blocks$' "attach.$captures.err" || fail "$(<"attach.$captures.err")"
	finish lost
}

@test "blocks of jemalloc, mimalloc and tcmalloc, too" {
	local library count=0
	for library in libjemalloc.so.2 libmimalloc.so.2.0 libtcmalloc_minimal.so.4; do
		[[ -e /usr/lib/x86_64-linux-gnu/$library ]] || continue
		count=$((count + 1))
		start "lost$count" env LD_PRELOAD="/usr/lib/x86_64-linux-gnu/$library" "$TARGETS/lost"
		capture_more "lost$count" 100
		# Their own books may point to the first block of a page, to large ones, and to some hundred that they gave last.
		says_in report.json '.lost | .definitely.blocks + .indirectly.blocks + .probably.blocks | . >= 2000 and . <= 3700' ||
			fail "$library: $(jq -c .lost report.json)"
		same "$library: sessions that are lost, and not" "$(lost_of open_sessions) $(held_of open_sessions)" "0 20000"
		finish "lost$count"
	done
	((count > 0)) || skip "no other allocator is installed"
}

@test "pointers that move, and blocks that come and go, are not lost" {
	start lost "$TARGETS/lost"
	tell lost move "done"
	tell lost churn "done"
	capture_more lost
	same "blocks of lose() that are lost" "$(lost_of lose)" 37
	same "of churn(), move() and open_sessions()" "$(lost_of churn) $(lost_of move) $(lost_of open_sessions)" "0 0 0"
	finish lost
}

@test "without --leaks nothing is said; where the program ends first that is said" {
	start lost "$TARGETS/lost"
	attach "$pid"
	tell lost more "done"
	stop "$pid"
	"$LIMPET" report "$trace" --json >report.json
	says_in report.json '.lost == null and all(.sites[]; .lost == null and .holder == null)'
	attach "$pid" --leaks
	finish lost
	attached
	grep -q 'lost blocks are not known: the program ended before the search' "attach.$captures.err" || fail "$(<"attach.$captures.err")"
	"$LIMPET" report "$trace" --json >report.json
	says_in report.json '.lost == null'
}

@test "report --fail-on: what is lost, and how fast it grows, is the exit status" {
	local small=$root/test/verdicts/traces
	start lost "$TARGETS/lost"
	capture_more lost
	finish lost
	run -6 "$LIMPET" report "$trace" --fail-on lost
	[[ $output == *"--fail-on lost: 298.6 KiB in 37 blocks are lost"* ]] || fail "$output"
	run -6 "$LIMPET" report "$trace" --json --fail-on "lost>1MiB" --fail-on "lost>298KiB"
	run -0 "$LIMPET" report "$trace" --fail-on "lost>299KiB"
	# A leak of 2.3 MiB in 16 s, and a program in which nothing grows.
	run -6 "$LIMPET" report "$small/xstrdup-attributes.limpet" --fail-on "growth>1KiB/s"
	[[ $output == *"--fail-on growth>1KiB/s: Live memory grew by "* ]] || fail "$output"
	run -0 "$LIMPET" report "$small/xstrdup-attributes.limpet" --fail-on "growth>1TiB/h"
	run -0 "$LIMPET" report "$small/u-sawtooth-batches.limpet" --fail-on "growth>1MiB/h"
	run -1 "$LIMPET" report "$small/xstrdup-attributes.limpet" --fail-on lost
	[[ $output == *"does not say what is lost (capture with --leaks)"* ]] || fail "$output"
	refused 2 "--fail-on knows lost" "$LIMPET" report "$trace" --fail-on "lost<1"
	refused 2 "--fail-on knows lost" "$LIMPET" report "$trace" --fail-on "growth>1MiB/week"
	refused 2 "not for a view" "$LIMPET" report "$trace" --view sizes --fail-on lost
}
