#!/usr/bin/env bats
# limpet pages: which stacks touch pages, and what is given back, of programs that know what they do.
# time-limit: 300

load helpers
setup() {
	begin
	within 60 "$LIMPET" pages $$ -d 1ms --no-seal -o probe.limpet >/dev/null 2>probe.err ||
		[[ $? != 3 ]] || skip "page faults may not be recorded here: $(<probe.err)"
}
teardown() { end; }

mib=$((1 << 20))

# record PID [OPTION...]: limpet pages beside the test; returns when it captures. Sets `trace`.
record() {
	local target=$1
	shift
	captures=$((captures + 1))
	trace=$work/trace.$captures.limpet
	env --default-signal=INT,HUP,QUIT "$LIMPET" pages "$target" -o "$trace" "$@" \
		>"$work/pages.$captures.say" 2>"$work/pages.$captures.err" </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$target" || return 1
	! ended "$limpet_job"
}

# stopped: `limpet stop` ends it; lost faults are for the machine to blame, and no failure.
stopped() {
	local status=0
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || status=$?
	exit_status_of "$limpet_job" 60 || return 1
	((status == 0 || status == 4)) || fail "limpet pages: $(<"$work/pages.$captures.err")" || return 1
	report
}

# Its resident anonymous memory.
anonymous_of() {
	local key kib
	while read -r key kib _; do
		[[ $key != Anonymous: ]] || echo $((kib * 1024))
	done <"/proc/$1/smaps_rollup"
}

# holds FUNCTION MIB: so much is live of stacks with that function, to a twentieth and the page of a thread's last fault;
# where faults were lost, no more.
holds() {
	local live
	live=$(site_sum "$1" live_bytes)
	echo "$1 holds $live"
	((live <= $2 * mib * 21 / 20 + 4096)) || fail "$1 holds $live instead of $2 MiB" || return 1
	json_says '.capture.complete | not' <"$work/report.json" && return
	((live >= $2 * mib * 19 / 20)) || fail "$1 holds $live instead of $2 MiB"
}

# adds_up BEFORE: what is live, less older pages that were returned, is the change of RSS to a twentieth, files
# aside.
adds_up() {
	local change sum slack=$((128 << 10))
	change=$(($(anonymous_of "$pid") - $1))
	sum=$(jq '.totals.live_bytes - (.totals.foreign_freed_bytes // 0)' "$work/report.json")
	echo "RSS changed by $change, explained are $sum"
	((slack += (change < 0 ? -change : change) / 20))
	((sum - change <= slack && change - sum <= slack)) || fail "RSS changed by $change, explained are $sum"
}

# bats test_tags=check
@test "who touches pages has them" {
	start toucher "$TARGETS/toucher"
	before=$(anonymous_of "$pid")
	record "$pid"
	tell toucher "red 24" did
	within 60 "$LIMPET" mark "$pid" red
	tell toucher "blue 16" did
	tell toucher "grow 8" did
	tell toucher "thread 12" did
	stopped
	expect '.capture.mode == "pages" and .capture.end == "stop" and .capture.agent_unloaded'
	holds touch_red 24
	holds touch_blue 16
	holds touch_heap 8
	within 60 "$LIMPET" report "$trace" --born-between ,red --json >born.json
	json_says '[.sites[].stack[].function] | any(. == "touch_red") and all(. != "touch_blue")' <born.json
	holds touch_in_thread 12
	adds_up "$before"
	within 60 "$LIMPET" report "$trace" >report.text
	grep -q '^pages  *[0-9.]* k touched' report.text
	grep -q '^growth  *RSS +' report.text
	run ! grep -q malloc report.text
	# Who touched a page first is known, not what uses it now.
	grep -q '^resident  *[0-9.]* MiB in ' report.text
	# Of lost faults the stacks are not known.
	! json_says '.capture.complete' <born.json || grep -Eq '^- .*(resident, [0-9]* % of it under|first touched( under)?) ' report.text || fail "$(<report.text)"
	grep -q '^- `limpet attach [0-9]*` tells what keeps pages, if it can follow the allocator' report.text
	run ! grep -q '^Sizes' report.text
	run ! grep -Ew 'holds|held|live|freed|leaks|allocations?|allocated' report.text
	within 60 "$LIMPET" report "$trace" --include touch_red >report.text
	grep -q '^stacks  *a page counts for the stack that touched it first' report.text
	for view in bottom-up top-down functions threads modules lifetimes timeline; do
		within 60 "$LIMPET" report "$trace" --view "$view" >view.text
		grep -q '^stacks  *a page counts for the stack that touched it first' view.text
		run ! grep -Ew 'holds|held|live|alive|freed|frees|allocs|allocated' view.text
	done
	within 60 "$LIMPET" report "$trace" --view sizes >view.text
	grep -q '^sizes  *all are pages of one size' view.text
	run ! grep -q ' KiB ' view.text
	within 60 "$LIMPET" report "$trace" --view pages >view.text
	grep -q 'because  *this view is of blocks, for traces of limpet attach and limpet run' view.text
	refused 1 "is of blocks, and .* of touched pages" "$LIMPET" diff "$root/test/traces/storm.trace" "$trace"
	refused 1 "does not say what memory was used for" "$LIMPET" explain "$trace"
	finish toucher
}

@test "what is given back is no longer live, however" {
	start toucher "$TARGETS/toucher"
	tell toucher "blue 10" did
	before=$(anonymous_of "$pid")
	record "$pid"
	tell toucher "red 24" did
	tell toucher give did
	tell toucher "grow 8" did
	tell toucher shrink did
	# Also what was there before, which the program gives back as older pages.
	tell toucher "blue 6" did
	tell toucher unmap did
	stopped
	holds touch_red 12
	holds touch_heap 0
	holds touch_blue 0
	expect '.totals.foreign_freed_bytes >= 10485760 and .totals.foreign_freed_bytes < 12582912'
	adds_up "$before"
	finish toucher
}

@test "pages touched again after they were given back are their new stack's" {
	start toucher "$TARGETS/toucher"
	record "$pid"
	for _ in 1 2 3 4; do
		tell toucher "blue 4" did
		tell toucher unmap did
	done
	stopped
	holds touch_blue 0
	json_says '.capture.complete | not' <"$work/report.json" ||
		expect '[.sites[] | select(any(.stack[]; .function == "touch_blue")) | .allocated_bytes] | add >= 16777216'
	finish toucher
}

@test "huge pages, faults in read(2), and pages without a fault" {
	start toucher "$TARGETS/toucher"
	before=$(anonymous_of "$pid")
	record "$pid"
	tell toucher "huge 32" did
	tell toucher "read 10" did
	tell toucher "fill 14" did
	stopped
	if [[ -r /sys/kernel/mm/transparent_hugepage/enabled ]]; then
		holds touch_huge 32
	fi
	if ((EUID == 0)); then
		holds read_zeros 10
	fi
	expect '[.allocators[] | select(.name == "came without a fault that was seen")][0].live_bytes >= 14680064'
	expect '[.sites[] | select(.allocator == "came without a fault that was seen") | .stack_truncated or .stack != []] == [false]'
	"$LIMPET" report "$trace" -n 50 >unseen.say 2>&1 || fail "$(<unseen.say)"
	"$LIMPET" report "$trace" --view functions >>unseen.say 2>&1 || fail "$(<unseen.say)"
	(($(grep -c "(came without a fault)" unseen.say) >= 2)) || fail "$(<unseen.say)"
	[[ $(<unseen.say) != *"cut short"* ]]
	adds_up "$before"
	finish toucher
}

is_stopped() { [[ $(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status") == T ]]; }

# The kernel tells what it lost with the next record that fits, and after this burst there is none.
@test "faults that the kernel had no room for at the end of a burst are told" {
	local said
	start toucher "$TARGETS/toucher"
	record "$pid"
	kill -STOP "$limpet_job"
	wait_until 20 is_stopped "$limpet_job"
	tell toucher "red 200" did
	kill -CONT "$limpet_job"
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || true
	exit_status_of "$limpet_job" 60
	said=$(<"$work/pages.$captures.err")
	[[ $status == 4 ]] || fail "limpet pages ended with $status: $said"
	[[ $said == *"faster than limpet reads"* ]] || fail "$said"
	report
	expect '.capture.incomplete_reasons == ["lost-stacks"]'
	expect '[.allocators[] | select(.name == "came without a fault that was seen")][0].live_bytes >= 104857600'
	finish toucher
}

@test "without /sys" {
	unshare --mount true 2>/dev/null || skip "making namespaces is not allowed here"
	start toucher "$TARGETS/toucher"
	within 60 unshare --mount bash -c 'mount -t tmpfs none /sys && exec "$@"' - \
		"$LIMPET" pages "$pid" -d 1ms --no-seal -o plain.limpet
	finish toucher
}

@test "a Go program without cgo, which attach refuses and sends here" {
	start go "$TARGETS/plain-go"
	run -3 --separate-stderr "$LIMPET" attach "$pid" -o never.limpet
	[[ $stderr == *"\`limpet pages $pid\` tells which stacks touch new pages"* ]]
	before=$(anonymous_of "$pid")
	record "$pid"
	tell go "keep 20" kept
	stopped
	adds_up "$before"
	json_says '.capture.complete | not' <"$work/report.json" ||
		(($(site_sum main.keepBytes live_bytes) >= 18 * mib))
	expect '.verdict.sentences[-1] == "The heap profile of net/http/pprof names its functions."'
	finish go
}

# As most are installed. In the second the table has no section of its own, and all addresses are relative.
@test "Go programs without symbols and debug information: functions and lines from Go's own table" {
	for kind in plain-go-stripped plain-go-pie-linked-stripped; do
		run ! grep -qF ' .symtab' <(readelf -SW "$TARGETS/$kind")
		start "$kind" "$TARGETS/$kind"
		record "$pid"
		tell "$kind" "keep 20" kept
		stopped
		json_says '.capture.complete | not' <"$work/report.json" ||
			(($(site_sum main.keepBytes live_bytes) >= 18 * mib))
		expect 'any(.sites[].stack[]; .function == "main.keepBytes" and (.file | endswith("/plain.go")) and .line == 16)'
		expect 'any(.sites[].stack[]; .function == "main.main" and (.file | endswith("/plain.go")) and .line == 30)'
		expect "[.sites[].stack[] | select(.module // \"\" | endswith(\"/$kind\")) | select(.function == null)] == []"
		expect '.verdict.sentences[-1] == "The heap profile of net/http/pprof names its functions."'
		within 60 "$LIMPET" report "$trace" >report.text
		run ! grep -F "$kind+0x" report.text
		finish "$kind"
	done
}

@test "the trace of a program that ends, and of one that executes another" {
	start toucher "$TARGETS/toucher"
	record "$pid"
	tell toucher "red 4" did
	finish toucher
	exit_status_of "$limpet_job" 60
	report
	expect '.capture.end == "target-exit"'
	mkfifo go.in
	bash -c 'echo "ready $$"; read -r; exec sleep 600' <go.in >exec.say 2>/dev/null 3>&- &
	job_of[exec]=$!
	exec {in}>go.in
	wait_until 20 grep -q ready exec.say
	record "${job_of[exec]}"
	echo >&"$in"
	exit_status_of "$limpet_job" 60
	report
	expect '.capture.end == "target-exec"'
}

# Whose pages are unknown is said; how many there are is known by a look.
@test "of lost faults only the stacks are not known" {
	start toucher "$TARGETS/toucher"
	before=$(anonymous_of "$pid")
	record "$pid"
	# More than there is room for at once on all processors together.
	kill -STOP "$limpet_job"
	tell toucher "red 64" did
	kill -CONT "$limpet_job"
	# The kernel says that faults were lost with the next one for which there is room.
	wait_until 60 so_far '.totals.live_bytes > 63000000'
	tell toucher "blue 1" did
	stopped
	expect '.capture.losses | map(.reason) == ["lost-stacks"]'
	expect '.totals.live_bytes == .totals.live_bytes_min and .totals.live_bytes == .totals.live_bytes_max'
	adds_up "$before"
	within 60 "$LIMPET" report "$trace" >report.text
	grep -q '^resident  *[0-9.]* MiB in [0-9.k ]* pages$' report.text || fail "$(<report.text)"
	grep -q 'faults came faster than limpet reads' report.text ||
		fail "$(<report.text)"
	within 60 "$LIMPET" report "$trace" --include touch_red >report.text
	grep -q '^resident  *recorded .*; the true figure is not known' report.text || fail "$(<report.text)"
	finish toucher
}

@test "all that reads traces reads this one; a second capture is refused" {
	start toucher "$TARGETS/toucher"
	record "$pid"
	tell toucher "red 4" did
	run -3 --separate-stderr "$LIMPET" pages "$pid" -o second.limpet
	[[ ! -e second.limpet ]]
	stopped
	within 60 "$LIMPET" html "$trace" -o page.html
	"$root/test/html/figures" page.html | grep -q touch_red
	within 60 "$LIMPET" diff "$trace" "$trace" >diff.text
	grep -q '^stacks  *a page counts for the stack that touched it first' diff.text
	within 60 "$LIMPET" diff "$trace" "$trace" -o diff.html
	"$root/test/html/figures" diff.html | json_says '.of_pages'
	within 60 "$LIMPET" export "$trace" --format folded -o folded
	grep -q 'touch_red;touch [0-9]\|touch_red [0-9]' folded
	finish toucher
}

@test "no such process, and usage" {
	run -1 "$LIMPET" pages 2147483646
	run -2 "$LIMPET" pages
	run -2 "$LIMPET" pages 1 -d soon
}
