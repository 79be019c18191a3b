#!/usr/bin/env bats
# Traces that were kept: what limpet said of them when they were written, it says today.

load helpers
setup() { begin; }
teardown() { end; }

traces=$root/test/traces

# said_as_before REPORT BEFORE: all that the kept report says, the newer says too; it may say more.
# The limits of estimates may become better, and what counts as noise. What is made of the figures is judged elsewhere.
said_as_before() {
	jq -n -r --slurpfile now "$1" --slurpfile before "$2" '
		def missing($now; $path):
			if type == "object" then
				to_entries[] | select(.key | test("_(low|high)$|^noise$") | not) |
				.key as $key | .value | missing($now | if type == "object" then .[$key] else null end;
								$path + "." + $key)
			elif type == "array" then
				if ($now | type) != "array" or length != ($now | length) then $path + ": another length"
				else range(length) as $i | .[$i] | missing($now[$i]; $path + "[\($i)]") end
			elif . != $now then "\($path): \($now) instead of \(.)"
			else empty end;
		$before[0] | del(.findings, .verdict) | missing($now[0]; "")' >differences
	[[ ! -s $work/differences ]] || fail "$(head -n 5 "$work/differences")"
}

# A trace beside which limpet's words were kept: whole, and of the window that is kept with them.
reads_as_before() {
	local trace=$1 window
	zstd -dcq "$trace.json.zst" >kept.json
	jq '.reports[0]' kept.json >whole.json
	jq '.reports[1]' kept.json >part.json
	read -ra window < <(jq -r .window kept.json)
	within 60 "$LIMPET" report "$trace" --json >now.json || return 1
	said_as_before now.json whole.json || return 1
	((${#window[@]})) || return 0
	within 60 "$LIMPET" report "$trace" --json "${window[@]}" >now.json || return 1
	said_as_before now.json part.json
}

# bats test_tags=release
@test "kept traces are read as they were then" {
	local trace seen=0
	for trace in "$traces"/*.trace; do
		reads_as_before "$trace" || fail "$trace" || return 1
		seen=$((seen + 1))
	done
	((seen >= 11)) || fail "only $seen traces"
	# It can say no.
	jq '.totals.frees += 1' now.json >other.json
	run said_as_before now.json other.json
	[[ $status != 0 && $output == *.totals.frees:* ]] || fail "a difference was not seen: $output"
}

# bats test_tags=release
@test "kept traces: a second reader replays every event and finds the sums" {
	local trace
	for trace in "$traces"/*.trace; do
		within 120 "$root/scripts/limpet-trace-read" "$trace" >read.json || fail "$trace" || return 1
		# A sampled trace has the samples' figures only.
		within 60 "$LIMPET" report "$trace" --json -n 1 >now.json || return 1
		json_says --slurpfile read read.json '.capture.estimated or
			(.totals as $said | $read[0].totals | del(.peak_ns) | length > 15 and all(to_entries[]; .value == $said[.key]))' <now.json ||
			fail "$trace: other totals" || return 1
	done
}
