# What the rounds share: captures of a process under load, and what is left in it afterwards.
# shellcheck shell=bash
# shellcheck disable=SC2154

: "${TORTURE:=$root/build/torture}"
: "${FIGURES:=$root/build/figures}"
# No new round after so long, and the figures say how many there were: for `make torture` (0: all of them).
: "${ROUNDS_SECONDS:=0}"
# Whether times are judged: there, too.
: "${ROUNDS_TIMED:=}"

# look_live PID [OPTION of residue...]: the process as it is between the rounds.
look_live() {
	within 120 "$root/test/torture/residue" "$@" --live
}

# What no program of ours changes by itself: its modules and the protection of their pages. Looked at before
# any capture, for what the first leaves behind would be there before all others.
modules_of() {
	sed -n '/^mappings$/,/^descriptors$/p; /^modules$/,/^slots$/p' "$1"
}

as_before() {
	look_live "$@" >"$work/residue.after" 2>"$work/residue.err" &&
		diff -u "$work/residue.before" "$work/residue.after" >"$work/residue.diff"
}

# capture_rounds NAME PID COUNT [OPTION of captures...]: a look, two rounds to warm up, a look, COUNT rounds, a look
# that has to be the same. $busy and $quiet are commands that start the load and let it rest; $own
# holds the options of residue that tell the program's own doings.
capture_rounds() {
	local name=$1 pid=$2 count=$3 before after ranges=$work/ranges
	shift 3
	mkdir -p "$FIGURES"
	rm -f "$FIGURES/rounds-$name.json" "$ranges"
	look_live "$pid" "${own[@]}" >"$work/residue.first" || return 1
	"$busy" || return 1
	within 120 "$TORTURE/captures" --name "$name" --ranges "$ranges" "$@" "$LIMPET" "$pid" 2 || return 1
	"$quiet" || return 1
	: >"$ranges"
	look_live "$pid" "${own[@]}" --ranges "$ranges" >"$work/residue.before" || return 1
	before=$("$root/test/torture/residue" "$pid" --growth) || return 1
	"$busy" || return 1
	# Only what hangs takes longer.
	within $((120 + (ROUNDS_SECONDS ? ROUNDS_SECONDS * 2 : count * 10))) "$TORTURE/captures" --name "$name" --ranges "$ranges" \
		--seconds "$ROUNDS_SECONDS" --json "$FIGURES/rounds-$name.json" "$@" "$LIMPET" "$pid" "$count" ||
		fail "$name: the rounds were not all good" || return 1
	"$quiet" || return 1
	count=$(jq .rounds "$FIGURES/rounds-$name.json") || return 1
	if ! wait_until 20 as_before "$pid" "${own[@]}" --ranges "$ranges"; then
		cat "$work/residue.diff" "$work/residue.err"
		fail "$name is not as it was before $count rounds"
		return 1
	fi
	diff -u <(modules_of "$work/residue.first") <(modules_of "$work/residue.after") ||
		fail "$name has not the modules, or their protections, that it had before the first round" || return 1
	after=$("$root/test/torture/residue" "$pid" --growth) || return 1
	same_size "$name" "$count" "$before" "$after" || return 1
	show_figures "$name"
}

# same_size NAME COUNT BEFORE AFTER: what each round left would be there COUNT times, 128 KiB or a mapping
# each. Few rounds cannot tell it from the program's own growth.
same_size() {
	local before after
	(($2 >= 1000)) || return 0
	read -r -a before <<<"$3"
	read -r -a after <<<"$4"
	((after[0] - before[0] < $2 / 2 && after[1] - before[1] < $2 * 64)) ||
		fail "$1: writable anonymous memory went from $3 to $4 mappings and KiB in $2 rounds"
}

show_figures() {
	local figures="$FIGURES/rounds-$1.json"
	jq -r '
		def ms: . / 10 | round / 100;
		def three: "\(.p50 | ms)/\(.p99 | ms)/\(.max | ms) ms";
		"# figures: \(.name): \(.rounds) rounds in \(.seconds | round) s, \(.good) good (\(.incomplete) with events lost), " +
		"\(.gave_up) gave up, \(.dormant) dormant, \(.thin) made up for; \(.events) events, at least \(.fewest_events) of " +
		"\(.fewest_threads) threads",
		"# figures:   p50/p99/max: attach \(.attach_microseconds | three), stop at attach \(.attach_stop_microseconds | three), " +
		"stop at detach \(.detach_stop_microseconds | three), whole round \(.round_microseconds | three)",
		"# figures:   no failure in \(.good) rounds: under these conditions fewer than one in \(.good / 3 | floor) fails (95 %)"
		' "$figures" >&3
}

# Under a second at p99: of so many rounds that there is a p99. Only `make torture` judges by time.
quick_attach() {
	local figures="$FIGURES/rounds-$1.json"
	[[ -n $ROUNDS_TIMED ]] || return 0
	jq -e '.rounds < 500 or .attach_microseconds.p99 < 1000000' "$figures" >/dev/null ||
		fail "$1: attaching took more than a second at p99: $(jq -c .attach_microseconds "$figures")"
}
