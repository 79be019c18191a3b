#!/usr/bin/env bats
# The pages of `limpet html` and `limpet diff -o`, used as a person would, in headless Chromium.
# time-limit: 600

load helpers
load browser

# One capture for those who look at it only: several periods, by the number of events.
setup_file() {
	local operations
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR begin
	# A busy machine makes fewer and longer ones: then more events.
	for operations in 150000 300000 600000 1200000; do
		start "storm$operations" "$TARGETS/storm" --threads 2
		attach "$pid"
		tell "storm$operations" "run $operations" ran
		stop "$pid"
		finish "storm$operations"
		"$LIMPET" html "$trace" -o steps.html
		(($(edges_of steps.html | wc -l) <= 4)) || break
	done
	cp "$trace" "$BATS_FILE_TMPDIR/storm.limpet"
	serve_browser
}

of_storm() {
	trace=$BATS_FILE_TMPDIR/storm.limpet
	good_capture
}

@test "a page says what the report says, whole and in part; mouse, keys, search, drag" {
	of_storm
	run --separate-stderr "$LIMPET" html "$trace" -o page.html
	[[ $status == 0 && $output == page.html ]]
	[[ $(stat -c %a page.html) == 600 ]]
	(($(edges_of page.html | wc -l) > 3)) || fail "too few steps: $(edges_of page.html)"
	driven page.html report.json
}

@test "threads have the names that they gave themselves, in page and report" {
	of_storm
	"$LIMPET" report "$trace" --view threads --json >threads.json
	json_says '[.threads[] | select(.name == "storm-worker")] | length == 2' <threads.json ||
		fail "$(jq -c '.threads[] | [.thread, .name]' threads.json)" || return 1
	"$LIMPET" report "$trace" --view threads >threads.text
	[[ $(grep -c ' storm-worker$' threads.text) == 2 ]]
	"$LIMPET" html "$trace" -o page.html
	figures page.html | json_says '[.threads[] | select(.name == "storm-worker")] | length == 2'
}

# A step has the events that were written in it: between these ends, and only between them, they are those of the time.
# two_windows SORT...
two_windows() {
	local edges middle to sort sides=()
	trace=$root/test/html/spike.trace
	"$LIMPET" html "$trace" -o page.html
	mapfile -t edges < <(edges_of page.html)
	((${#edges[@]} == 6)) || fail "other steps: ${edges[*]}"
	printf -v middle %.9f "${edges[2]}"
	printf -v to %.9f "${edges[4]}"
	for sort in live allocated; do
		"$LIMPET" diff --json --sort "$sort" "$trace@0s-${middle}s" "$trace@${middle}s-${to}s" >"$sort.json"
		json_says '.change != 0' <"$sort.json"
		[[ " $* " != *" $sort "* ]] || sides+=(-- page.html "$sort.json" --windows 0 "${edges[2]}" "${edges[4]}")
	done
	driven page.html live.json --flag 'peak 0.93 s: main \+1\.0 GiB$' "${sides[@]}"
}

@test "two windows of a capture say what limpet diff says of them; what rose to the peak has a name" {
	two_windows live allocated
}

# bats test_tags=release
@test "a page of what filters keep, begun with a part of the time" {
	of_storm
	"$LIMPET" html "$trace" -o page.html
	local edges from to
	mapfile -t edges < <(edges_of page.html)
	((${#edges[@]} > 3)) || fail "too few steps: ${edges[*]}"
	# Near an edge, not on it; without an exponent, which jq writes of less than a ten-thousandth.
	printf -v from %.9f "$(jq -n "${edges[1]} * 0.8 + ${edges[2]} * 0.2")"
	printf -v to %.9f "$(jq -n "${edges[2]} * 0.2 + ${edges[3]} * 0.8")"
	"$LIMPET" html "$trace" --from "${from}s" --to "${to}s" -o part.html
	refused 2 "beyond the end" "$LIMPET" html "$trace" --from 1h -o none.html
	refused 2 "later than" "$LIMPET" html "$trace" --from 2ms --to 1ms -o none.html
	[[ ! -e none.html ]]
	local thread
	"$LIMPET" report "$trace" --view threads --json >threads.json
	thread=$(jq '.threads | sort_by(.allocations) | last.thread' threads.json)
	local kept=0 cut
	for cut in "--exclude=storm_realloc" "--include=thread:$thread"; do
		kept=$((kept + 1))
		"$LIMPET" report "$trace" "$cut" --json >cut.$kept.json
		[[ $(jq .totals.allocations cut.$kept.json) != "$(jq .totals.allocations report.json)" ]] ||
			fail "$cut cuts nothing" || return 1
		"$LIMPET" html "$trace" "$cut" -o cut.$kept.html
	done
	driven part.html report.json --part "$from" "$to" -- cut.1.html cut.1.json --figures -- cut.2.html cut.2.json --figures
	# Of what is left out nothing is in the page but its sum.
	[[ $(figures cut.1.html | grep -c storm_realloc) == 0 ]] || fail "names that were cut"
}

@test "a page that was not copied whole says so" {
	of_storm
	"$LIMPET" html "$trace" -o page.html
	echo '{}' >none.json
	local at
	at=$(grep -abo 'id="data">' page.html | cut -d: -f1)
	head -c $((at + 4000)) page.html >cut.html
	# Others in the middle, and some that are missing.
	{ head -c $((at + 2000)) page.html && printf AAAAAAAA && tail -c +$((at + 2009)) page.html; } >broken.html
	{ head -c $((at + 2000)) page.html && tail -c +$((at + 2401)) page.html; } >short.html
	driven cut.html none.json --unread 'if none appear.*not copied whole' -- broken.html none.json --unread 'cannot be read: .*copied whole' -- \
		short.html none.json --unread 'cannot be read: .*copied whole'
}

# hostile [OPTION]: of pages with such names.
hostile() {
	local name='</script><img src=x onerror=window.owned=1>'
	hostile_program "$name" '<script>window.owned=1'
	"$LIMPET" run -q --on-overload wait -o evil.limpet -- './<script>window.owned=1'
	trace=evil.limpet
	report
	"$LIMPET" html evil.limpet
	# In the page they are letters of base64.
	grep -qx '<script type="text/plain" id="data">[A-Za-z0-9+/=]*</script>' evil.html
	within 60 "$LIMPET" run -q --on-overload wait -o plain.limpet -- "$TARGETS/storm" --threads 1 <<<quit >said
	"$LIMPET" diff --sort allocated plain.limpet evil.limpet -o both.html
	"$LIMPET" diff --json --sort allocated plain.limpet evil.limpet >diff.json
	driven evil.html report.json --hostile "$name" "$@" -- both.html diff.json --hostile "$name" "$@"
}

@test "hostile names do nothing" {
	hostile --figures
}

# bats test_tags=release
@test "hostile names do nothing wherever a page is used" {
	hostile
}

# A program that keeps `$1` blocks of storm_leak's, and whatever the other commands say.
kept_by() {
	local name=$1
	shift
	printf '%s\n' "$@" quit >commands
	within 60 "$LIMPET" run -q --on-overload wait -o "$name" -- "$TARGETS/storm" --threads 1 <commands >said || fail "limpet run"
}

@test "two captures as a page: what the diff says, in colours, words and tables; mouse and keys" {
	kept_by old.limpet "leak 100" "run 10"
	kept_by new.limpet "leak 300" "run 30" hold
	run --separate-stderr "$LIMPET" diff --sort live old.limpet new.limpet -o new.diff.html
	[[ $status == 0 && $output == new.diff.html && $(stat -c %a new.diff.html) == 600 ]]
	"$LIMPET" diff --json --sort live old.limpet new.limpet >diff.json
	# The other way round: blue instead of orange.
	"$LIMPET" diff --sort live new.limpet old.limpet -o back.html
	"$LIMPET" diff --json --sort live new.limpet old.limpet >back.json
	driven new.diff.html diff.json -- back.html back.json
	# Over another one; whole or not there.
	"$LIMPET" diff -o new.diff.html old.limpet new.limpet@-1s
	refused 1 "it exists, and is no page" "$LIMPET" diff -o new.limpet old.limpet new.limpet
	[[ $("$LIMPET" diff -o - old.limpet new.limpet | tail -n 1) == "</html>" ]]
	failed_bare "cannot write" "$LIMPET" diff -o /dev/full old.limpet new.limpet
	refused 2 "cannot be used together" "$LIMPET" diff -o x --json old.limpet new.limpet
	[[ ! -e x ]]
}

@test "the page is written over an earlier one alone, and is whole or not there" {
	trace=$root/test/traces/storm.trace
	echo mine >page.html
	run --separate-stderr "$LIMPET" html "$trace" -o page.html
	[[ $status == 1 && $stderr == *"it exists, and is no page"*"hint: "* && $(<page.html) == mine ]]
	rm page.html
	"$LIMPET" html "$root/test/traces/cpp.trace" -o page.html
	"$LIMPET" html "$trace" -o page.html
	grep -q '^</html>' page.html
	[[ $("$LIMPET" html "$trace" -o - | tail -n 1) == "</html>" ]]
	run --separate-stderr "$LIMPET" html "$trace" -o /dev/full
	[[ $status == 1 && $stderr == *"/dev/full"* && -c /dev/full ]]
	run "$LIMPET" html nothing.limpet
	[[ $status == 1 && ! -e nothing.html ]]
	run "$LIMPET" html
	[[ $status == 2 ]]
}
