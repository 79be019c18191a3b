#!/usr/bin/env bats
# Traces of earlier versions: what limpet said of them when they were written, it says today.

load helpers
setup() { begin; }
teardown() { end; }

traces=$root/test/traces

# said_as_before REPORT BEFORE: all that the older report says, the newer says too; it may say more.
# The limits of estimates may become better, and what counts as noise. `exact` was said of damage alone; those
# that were made up said `complete` and counted calls that were not recorded. To what resident memory belonged is not
# read any more.
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
		def older: ("bridged", "given-up");
		# What is made of the figures is judged by other rules now.
		$before[0] | del(.findings, .unfollowed) | if .capture.exact then
			.capture.exact = ($now[0].capture.inexact_reasons - [older] == []) else . end |
		if .capture.complete and .capture.unseen_calls > 0 then .capture.complete = false else . end |
			missing($now[0]; "")' >differences
	[[ ! -s $work/differences ]] || fail "$(head -n 5 "$work/differences")"
}

# A trace beside which limpet's words were kept: whole, and of the window that is kept with them. Two answers
# were wrong, and are others since then.
reads_as_before() {
	local trace=$1 window
	zstd -dcq "$trace.json.zst" >kept.json
	jq '.reports[0]' kept.json >whole.json
	jq '.reports[1]' kept.json >part.json
	read -ra window < <(jq -r .window kept.json)
	within 60 "$LIMPET" report "$trace" --json >now.json || return 1
	said_as_before now.json whole.json || return 1
	case $trace in
	*/version-3/bounded.trace)
		# Asked of a part of what it has sums of alone, it told these, all of them.
		refused 1 "only their sum" "$LIMPET" report "$trace" "${window[@]}"
		return
		;;
	*/version-3/compact.trace)
		# It told whole minutes then too, as if they were the window that was asked for.
		jq 'del(.window, .capture.exact)' part.json >minutes.json
		mv minutes.json part.json
		;;
	esac
	within 60 "$LIMPET" report "$trace" --json "${window[@]}" >now.json || return 1
	said_as_before now.json part.json
}

# bats test_tags=release
@test "traces of earlier versions are read as they were then" {
	local trace seen=0
	for trace in "$traces"/*/*.trace; do
		reads_as_before "$trace" || fail "$trace" || return 1
		seen=$((seen + 1))
	done
	((seen >= 8)) || fail "only $seen traces"
	# It can say no.
	jq '.totals.frees += 1' now.json >other.json
	run said_as_before now.json other.json
	[[ $status != 0 && $output == *.totals.frees:* ]] || fail "a difference was not seen: $output"
}

# bats test_tags=release
@test "traces of earlier versions: a second reader replays every event and finds the sums" {
	local trace
	for trace in "$traces"/*/*.trace; do
		within 120 "$root/scripts/limpet-trace-read" "$trace" >read.json || fail "$trace" || return 1
		# A sampled trace has the samples' figures only.
		within 60 "$LIMPET" report "$trace" --json -n 1 >now.json || return 1
		json_says --slurpfile read read.json '.capture.estimated or
			(.totals as $said | $read[0].totals | del(.peak_ns) | length > 15 and all(to_entries[]; .value == $said[.key]))' <now.json ||
			fail "$trace: other totals" || return 1
	done
}
