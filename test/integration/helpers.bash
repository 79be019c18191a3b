# What the integration tests share. A test file says:
#
#	load helpers
#	setup() { begin; }
#	teardown() { end; }
#
# Nothing here waits for a time to pass: it waits for a condition. A deadline only ends what hangs:
# run-tests says by how much this machine may be slower than one of its own (LIMPET_TEST_PATIENCE).
# Everything that a test starts is ended by `end`, also when the test has failed; limpet first, so that it can let go.
# shellcheck shell=bash
# Variables of one test are read by another function or by the test itself.
# shellcheck disable=SC2034,SC2154,SC2119,SC2120

bats_require_minimum_version 1.5.0

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
# For files of these functions, which no test looks at. A fork of this shell takes as long as a short program does:
# what is called often reads what a program says from there, and not by $().
aside=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}
: "${LIMPET:=$root/build/limpet}"
: "${TARGETS:=$root/build/targets}"
: "${LIMPET_TEST_PATIENCE:=4}"

begin() {
	# Of a test that fails its own line is told, and what a function of these files said: bats would note the whole
	# stack before each command of theirs, which takes longer than most of them.
	bats_add_debug_exclude_path "$root/test/"
	work=$(mktemp -d "${BATS_TEST_TMPDIR}/work.XXXXXX")
	cd "$work" || return 1
	# Captures are found through this directory: tests see only their own.
	export LIMPET_RUNTIME_DIR=$work/run XDG_RUNTIME_DIR=$work/run TMPDIR=$work LC_ALL=C.UTF-8 NO_COLOR=1 LIMPET_PAGER=cat
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	# Whoever runs the tests may have these otherwise.
	unset DEBUGINFOD_URLS SUDO_UID SUDO_GID
	export no_proxy='*' NO_PROXY='*' SHELL=/bin/bash
	umask 022
	declare -gA job_of=() pid_of=() in_of=() out_of=()
	# Moments and sizes that are drawn are drawn again by LIMPET_TEST_SEED=N.
	: "${LIMPET_TEST_SEED:=$RANDOM}"
	RANDOM=$LIMPET_TEST_SEED
	limpet_jobs=()
	limpet_command=("$LIMPET")
	captures=0
}

end() {
	local name job log
	for job in "${limpet_jobs[@]}"; do
		end_process "$job" 20
	done
	for name in "${!job_of[@]}"; do
		end_process "${job_of[$name]}" 2
	done
	if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
		echo "LIMPET_TEST_SEED=$LIMPET_TEST_SEED"
		for log in "$work"/*.err "$work"/*.say; do
			[[ -s $log ]] || continue
			echo "--- ${log##*/}"
			tail -n 40 "$log"
		done
		for log in "$work"/core*; do
			[[ -s $log ]] || continue
			echo "--- ${log##*/}"
			gdb -q -batch -ex bt "$LIMPET" "$log" 2>/dev/null | tail -n 40
		done
	fi
	cd "$root" || return 1
	rm -rf "$work" "${theirs:-$work}"
	# The processor time of this shell and of what it started, for run-tests.
	[[ ${BATS_TEST_NUMBER:-} ]] || return 0
	times >"$aside/times"
	mapfile -t used <"$aside/times"
	echo "# used: ${used[*]}" >&3
}

# Starts in a seventh of the time, and sorts keys by itself.
jq() {
	gojq "$@"
}

# ------------------------------------------------------------------ failing, waiting

fail() {
	printf '%s\n' "$*" >&2
	return 1
}

# Ended: gone, or a zombie of this shell; not one whose main thread alone has ended.
ended() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	read -ra stat <<<"${stat##*) }"
	[[ ${stat[0]} == [ZX] ]] && ((stat[17] <= 1))
}

# Sets `now`: seconds since the machine's start, which nobody sets.
read_uptime() {
	read -r now _ </proc/uptime
	now=${now%.*}
}

# pause SECONDS: without a process of its own: nobody sends to this socket. bash has no sleep.
pause() {
	local idle nothing
	# Where there is no network, not even this machine's own.
	{ exec {idle}<>/dev/udp/127.0.0.1/9; } 2>/dev/null || { sleep "$1" && return; }
	read -r -t "$1" -u "$idle" nothing || true
	exec {idle}>&-
}

# wait_until SECONDS COMMAND...: until the command answers 0. The limit is one for an idle machine. After ten questions
# the interval is 120 ms, as each slows down what is waited for.
wait_until() {
	local now deadline asked=0
	read_uptime
	deadline=$((now + $1 * LIMPET_TEST_PATIENCE))
	shift
	# What it says each time is told once.
	until "$@" >"$aside/waited" 2>&1; do
		read_uptime
		if ((now > deadline)); then
			fail "waited in vain for: $*"
			tail -n 2 "$aside/waited" >&2
			return 1
		fi
		asked=$((asked + 1))
		if ((asked > 10)); then pause 0.12; else pause 0.02; fi
	done
}

# within SECONDS COMMAND...: as timeout(1), with a limit for an idle machine.
within() {
	timeout $(($1 * LIMPET_TEST_PATIENCE)) "${@:2}"
}

# The shell buries its jobs as they end, and then their numbers may be other processes'.
is_our_child() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	read -ra stat <<<"${stat##*) }"
	((stat[1] == $$ || stat[1] == BASHPID))
}

# end_process JOB SECONDS: by SIGTERM, and after so long by SIGKILL.
end_process() {
	local signal
	for signal in TERM KILL; do
		is_our_child "$1" || break
		! ended "$1" || break
		kill -"$signal" "$1" 2>/dev/null || true
		kill -CONT "$1" 2>/dev/null || true
		wait_until "$2" ended "$1" 2>/dev/null && break
	done
	wait "$1" 2>/dev/null || true
}

# trace_by_another PID: a process of its own holds it by ptrace. Sets `answer`, its pid.
trace_by_another() {
	python3 -c "
import ctypes, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(0x4206, $1, 0, 0):
    sys.exit('seize failed')
print('traced', flush=True)
signal.pause()
" >tracer.say 2>tracer.err </dev/null 3>&- &
	answer=$!
	job_of[answer]=$answer
	wait_until 20 grep -q traced tracer.say
}

# exit_status_of JOB SECONDS: sets `status`.
exit_status_of() {
	wait_until "$2" ended "$1" || return 1
	status=0
	wait "$1" || status=$?
}

# stand_still LIMPET PID: by SIGSTOP, of which each thread has to hear; from here on none of them runs. At a moment
# when it holds no thread of PID: then it would be woken.
stand_still() {
	wait_until 20 stands_alone "$1" "$2" && stands_still "$1"
}
stands_alone() {
	kill -STOP "$1" || return 0
	stands_still "$1" || return 1
	holds_one "$1" "$2" || return 0
	kill -CONT "$1"
	return 1
}
holds_one() {
	grep -qxF $'TracerPid:\t'"$1" <(grep -h '^TracerPid:' "/proc/$2/task/"*/status)
}
stands_still() {
	local task stat
	for task in "/proc/$1/task/"*/stat; do
		{ read -r stat <"$task"; } 2>/dev/null || return 1
		[[ ${stat##*) } == T* ]] || return 1
	done
}

# ------------------------------------------------------------------ targets

# start NAME COMMAND...: a program that speaks as test/targets/target.h says. Sets `pid` to the process
# to attach to, and `ready` to the words after it.
start() {
	local name=$1 in out line
	shift
	mkfifo "$work/$name.in" "$work/$name.out"
	"$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" 3>&- &
	job_of[$name]=$!
	exec {in}>"$work/$name.in" {out}<"$work/$name.out"
	in_of[$name]=$in
	out_of[$name]=$out
	heard "$name" ready || return 1
	pid_of[$name]=$pid
}

# threads_of PID...: where each thread stands, for who reads of a failure: its number, state, tracer, system call
# and its arguments.
threads_of() {
	local process task
	for process in "$@"; do
		for task in "/proc/$process/task/"*; do
			printf '%s: %s\n' "${task#/proc/}" "$({ sed -n 's/^State:\t\|^TracerPid:\t//p' "$task/status"
				cat "$task/wchan" <(echo) "$task/syscall"; } 2>/dev/null | tr '\n' ' ')" >&2
		done
	done
}

# Reads one line of the target's into `answer`; its first word has to be WORD.
heard() {
	local name=$1 word=$2
	if ! IFS= read -r -t $((60 * LIMPET_TEST_PATIENCE)) answer <&"${out_of[$name]}"; then
		fail "$name did not answer '$word'"
		threads_of "${pid_of[$name]:-}" "${limpet_jobs[@]}"
		return 1
	fi
	if [[ $word == ready || $word == second ]]; then
		read -r _ pid ready <<<"$answer"
	fi
	[[ $answer == "$word"* ]] || fail "$name said '$answer' instead of '$word'"
}

# tell NAME LINE ANSWER
tell() {
	# Writing to a program that is gone would end this shell too.
	if ended "${job_of[$1]}"; then
		fail "$1 is gone, instead of answering '$2'"
		return 1
	fi
	printf '%s\n' "$2" >&"${in_of[$1]}"
	heard "$1" "$3"
}

# finish NAME [STATUS]: "quit", and the target's own result has to be right.
finish() {
	ended "${job_of[$1]}" || printf 'quit\n' >&"${in_of[$1]}"
	result "$1" "${2:-0}"
}

# result NAME STATUS: it ends by itself, and this is its exit status.
result() {
	exit_status_of "${job_of[$1]}" 30 || return 1
	[[ $status == "$2" ]] || fail "$1 ended with status $status instead of $2"
}

# json_says FILTER [OPTION...] < JSON: jq's answer is true. Not jq -e, which is content with no input.
json_says() {
	local said
	jq "$@" >"$aside/jq" || true
	read -r -d '' said <"$aside/jq" || true
	[[ $said == true ]]
}

# ------------------------------------------------------------------ captures

# is_captured PID [LIMPET...]: it is, says limpet, which is called this way beside it.
is_captured() {
	local pid=$1 said
	shift
	(($#)) || set -- "$LIMPET"
	ask_status "$pid" "$@"
	[[ $said =~ ^'{"captures": [{"pid": '[0-9]+', "state": "capturing",' ]]
}

# ask_status PID LIMPET...: sets `said`, the one line of `limpet status --json`. Asked often, and without jq, which
# takes thirty times as long; that it is JSON: schema.bats.
ask_status() {
	"${@:2}" status "$1" --json >"$aside/status" 2>/dev/null || true
	read -r said <"$aside/status" || true
}

# capturing PID [LIMPET...]: what limpet_job does; to be waited for.
capturing() {
	if ended "$limpet_job"; then
		fail "limpet attach ended early"
		return 0
	fi
	is_captured "$@"
}

# What makes a capture independent of how fast the machine is: time enough to get in, and an overload waits. On a
# machine of two cores a program at full speed outruns any collector.
patiently=(--attach-timeout 10m --on-overload wait)

# attach PID [OPTION...]: beside the test; returns when it captures. Sets `trace`. The signals of a
# terminal are not ignored, as they would be for a background job of this shell.
attach() {
	local target=$1
	shift
	captures=$((captures + 1))
	trace=$work/trace.$captures.limpet
	LIMPET_LOAD=${load-${LIMPET_LOAD-}} env --default-signal=INT,HUP,QUIT bash -c 'ulimit -c unlimited; exec "$@"' attach "$LIMPET" attach "$target" -o "$trace" \
		"${patiently[@]}" ${overload:+--on-overload "$overload"} "$@" \
		>"$work/attach.$captures.say" 2>"$work/attach.$captures.err" </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 says_that_it_captures "$target" || return 1
	! ended "$limpet_job"
}
# Where it says so (without -q) nobody is asked.
says_that_it_captures() {
	local said=
	read -r -d '' said <"$work/attach.$captures.err" || true
	[[ $said == *"limpet: capturing "* ]] || capturing "$1"
}

# rss_of PID: its resident memory in bytes, exactly.
rss_of() {
	local key kib
	while read -r key kib _; do
		[[ $key != Rss: ]] || echo $((kib * 1024))
	done <"/proc/$1/smaps_rollup"
}

# attached STATUS: limpet attach ends by itself within a minute, with this status.
attached() {
	exit_status_of "$limpet_job" 60 || return 1
	[[ $status == "${1:-0}" ]] || fail "limpet attach ended with status $status instead of ${1:-0}"
}

# stop PID [STATUS]: by `limpet stop`, whose status is the capture's, as is attach's.
stop() {
	local stopped=0
	within 60 "$LIMPET" stop "$1" >"$work/stop.say" 2>"$work/stop.err" || stopped=$?
	attached "${2:-0}" || return 1
	[[ $stopped == "${2:-0}" ]] || fail "limpet stop ended with status $stopped instead of ${2:-0}"
}

# report [OPTION...]: of the last trace, as JSON in $work/report.json.
report() {
	within 60 "$LIMPET" report "$trace" --json "$@" >"$work/report.json" 2>"$work/report.err" ||
		fail "limpet report failed"
}

# so_far FILTER [OPTION...]: the report about the capture as it is now says so.
so_far() {
	within 60 "$LIMPET" report "$trace" --json 2>so-far.err | json_says "$@"
}

# says_in FILE FILTER [OPTION...]: jq's answer about it is true.
says_in() {
	local file=$1 what=$2
	shift 2
	json_says "$@" "$what" <"$file" ||
		fail "${file##*/} does not say: $what"$'\n'"it has: $(values_of "$what" <"$file")"
}

# expect FILTER [OPTION...]: jq's answer about the report is true.
expect() { says_in "$work/report.json" "$@"; }

# values_of FILTER < JSON: what stands where the filter looks, in a few short lines.
values_of() {
	local json path
	json=$(cat)
	grep -oE '(^|[^]a-z_0-9)])\.[a-z_]+(\.[a-z_]+)*' <<<"$1" | grep -oE '\..*' | awk '!seen[$0]++' | head -n 6 |
		while read -r path; do
			printf '%s ' "$path"
			jq -c "$path" <<<"$json" 2>/dev/null | head -n 1 | cut -c -120
		done
}

# Totals of the sites whose innermost frame outside of libraries is FUNCTION; same names as sites.
# The allocator's wrappers of a language stand between: the first frame that matches counts.
site_sum() {
	jq --arg function "$1" --arg what "$2" \
		'[.sites[] | select(any(.stack[]; .function == $function)) | .[$what]] | add // 0' \
		"$work/report.json"
}

# same NAME A B
same() {
	[[ $2 == "$3" ]] || fail "$1: $2 instead of $3"
}

good_capture() {
	local line=
	report || return 1
	# It stands in a line of its own, for which jq need not be started; a report may be large.
	until [[ $line == '"capture":{'* ]]; do
		read -r line || break
	done <"$work/report.json"
	[[ $line == *',"complete":true,'*',"dropped_events":0,'*',"agent_unloaded":true,'* ]] ||
		expect '.capture.complete and .capture.dropped_events == 0 and .capture.agent_unloaded'
}

# counts_equal: totals and sums by function (unless it is `stripped`) of the last report, and the
# target's own counts, which know nothing of what the dynamic linker allocates for threads.
counts_equal() {
	local wrong
	good_capture || return 1
	# Sites as site_sum has them, in one go: a report may be large.
	wrong=$(jq -r --argjson program "$answer" --arg stripped "${stripped:-}" '
		. as $report |
		[.sites[] | select(.stack[0].module // "" | test("/ld-linux")) |
			. + {freed_bytes: (.allocated_bytes - .live_bytes)}] as $linker |
		(("allocations", "frees", "allocated_bytes", "freed_bytes", "live_allocations", "live_bytes",
			"foreign_frees", "foreign_freed_bytes") |
			. as $key | [$key, $report.totals[$key] - ([$linker[] | .[$key] // 0] | add // 0), $program[$key]]),
		(if $stripped != "" then empty else
			([.sites[] | .allocations as $n | [.stack[].function] | unique[] | values | {f: ., $n}] |
				reduce .[] as $site ({}; .[$site.f] += $site.n)) as $sums |
			($program.by_function | keys[]) |
			["allocations in " + ., $sums[.] // 0, $program.by_function[.]]
		end) | select(.[1] != .[2]) | "\(.[0]): \(.[1]) instead of \(.[2])"' report.json) ||
		fail "the counts cannot be compared: $answer" || return 1
	[[ -z $wrong ]] || fail "$wrong"
}

# counted_phase NAME OPERATIONS: of a storm, a phase that begins after the attach and ends before the
# detach; so many operations of each thread.
counted_phase() {
	local name=$1 operations=$2 pid=${pid_of[$1]}
	tell "$name" "run 5000" ran || return 1
	attach "$pid" || return 1
	tell "$name" mark marked || return 1
	tell "$name" zero zeroed || return 1
	tell "$name" "run $operations" ran || return 1
	tell "$name" "leak 100" leaked || return 1
	tell "$name" count '{' || return 1
	stop "$pid" || return 1
	counts_equal
}

# counted_run NAME PROGRAM [OPTION...]: a storm from its entry point on, in $work/NAME.limpet. Beside what it counts
# (of each function, unless it is `stripped`) there is what starts a program.
counted_run() {
	local name=$1 function seen counted
	shift
	printf '%s\n' "run 5000" "leak 100" count quit |
		within 60 "$LIMPET" run -q "${patiently[@]}" -o "$name.limpet" -- "$@" >"$name.say" 2>"$name.err" ||
		fail "$name: $(<"$name.err")" || return 1
	trace=$work/$name.limpet
	good_capture || fail "$name" || return 1
	expect '.capture.mode == "run" and .capture.end == "target-exit" and .totals.foreign_frees == 0' ||
		fail "$name" || return 1
	answer=$(grep '^{' "$name.say")
	if [[ -n ${stripped:-} ]]; then
		seen=$(jq .totals.allocations report.json) counted=$(jq .allocations <<<"$answer")
		((seen >= counted && seen <= counted + 100)) || fail "$name: $seen allocations instead of $counted"
		return
	fi
	for function in storm_malloc storm_calloc storm_realloc storm_memalign storm_posix storm_leak; do
		same "$name: $function" "$(site_sum "$function" allocations)" "$(jq ".by_function.$function" <<<"$answer")" ||
			return 1
	done
}

# ------------------------------------------------------------------ residue

# What a process at rest looks like from outside. The heap may grow; what the kernel counts may rise.
portrait() {
	echo "maps"
	grep -v '\[heap\]' "/proc/$1/maps" || true
	echo "descriptors"
	find "/proc/$1/fd/" -mindepth 1 -printf '%f %l\n' | sort -n
	echo "threads"
	grep -E '^(Pid|TracerPid|Sig(Blk|Ign|Cgt)|Seccomp|NoNewPrivs):' "/proc/$1/task/"*/status
}

# look PID; ...; unchanged PID: for targets at rest, to the last mapping, descriptor and signal mask.
look() {
	portrait "$1" >"$work/portrait.before"
}
unchanged() {
	portrait "$1" >"$work/portrait.after"
	diff -u "$work/portrait.before" "$work/portrait.after" || fail "process $1 is not as it was"
}

# For busy ones, whose own memory changes: the modules, with the protection of every page.
modules() {
	grep ' /' "/proc/$1/maps"
}

# For busy targets: nothing of ours is left. What was there before cannot be ours.
nothing_of_ours() {
	local pid=$1 text=
	{ read -r -d '' text <"/proc/$pid/maps"; } 2>/dev/null || true
	[[ $text != *memfd:* ]] || fail "still mapped: $(grep -F memfd: <<<"$text")" || return 1
	find "/proc/$pid/fd" -lname '*memfd:*' -printf '%f -> %l\n' >"$aside/left" 2>/dev/null || true
	[[ ! -s $aside/left ]] || fail "still open: $(<"$aside/left")" || return 1
	text=
	{ read -r -d '' text <"/proc/$pid/status"; } 2>/dev/null || true
	[[ $text == *$'\nTracerPid:\t0\n'* ]] || fail "process $pid is gone, or still traced" || return 1
	if "$LIMPET" status "$pid" >/dev/null 2>&1; then
		fail "limpet status still knows process $pid"
	fi
}

# cleaned_up PID [STATUSES]: nothing is left of a limpet that was killed: `limpet stop` removes it. Where it finds no
# thread that it could hijack for that, it gives up in the end, and is asked again. STATUSES, if others than 0 will do.
cleaned_up() {
	wait_until 60 stop_is_through "$1" || return 1
	[[ $stopped == [${2:-0}] ]] || fail "limpet stop ended with status $stopped: $(<"$work/stop.err")" || return 1
	nothing_of_ours "$1"
}
stop_is_through() {
	stopped=0
	within 60 "$LIMPET" stop "$1" >"$work/stop.say" 2>"$work/stop.err" || stopped=$?
	((stopped != 5))
}

# text_of PID FILE-NAME: what stands in the code of a mapped file now.
text_of() {
	local range
	range=$(awk -v name="/$2" '$2 ~ /x/ && substr($NF, length($NF) - length(name) + 1) == name { print $1; exit }' "/proc/$1/maps")
	[[ -n $range ]] || fail "no code of $2 in process $1" >&2 || return 1
	dd if="/proc/$1/mem" iflag=skip_bytes,count_bytes bs=64K status=none \
		skip=$((16#${range%-*})) count=$((16#${range#*-} - 16#${range%-*}))
}

# unchanged_text PID FILE-NAME: since `text_of PID FILE-NAME >text.before`.
unchanged_text() {
	text_of "$1" "$2" >text.after || return 1
	cmp text.before text.after || fail "the code of $2 is not as it was"
}

# ------------------------------------------------------------------ refusals

# refused STATUS REGEX COMMAND...: one line that matches, then one hint; nothing on stdout.
refused() {
	local want=$1 regex=$2
	shift 2
	run --separate-stderr within 30 "$@"
	if [[ $status != "$want" ]]; then
		fail "status $status instead of $want: $* said: $stderr"
		return 1
	fi
	[[ -z $output ]] || fail "stdout was used: $output" || return 1
	if ! [[ ${stderr_lines[0]} =~ ^limpet:\ .*$regex ]]; then
		fail "'${stderr_lines[0]}' does not match '$regex'"
		return 1
	fi
	[[ ${#stderr_lines[@]} == 2 && ${stderr_lines[1]} =~ ^hint:\ .+ ]] ||
		fail "no single hint follows: $stderr"
}

# failed_bare REGEX COMMAND...: status 1 and one line that matches; nothing that a command would mend.
failed_bare() {
	local regex=$1
	shift
	run --separate-stderr within 30 "$@"
	[[ $status == 1 && ${#stderr_lines[@]} == 1 && ${stderr_lines[0]} =~ ^limpet:\ .*$regex ]] ||
		fail "status $status, '$stderr' instead of '$regex' alone: $*"
}

# refused_by_both PID ID REGEX [OPTION...]: by `limpet attach` and by `limpet doctor`, for the same reason
# and with the same words; the process stays as it was. Run as limpet_command says.
refused_by_both() {
	local target=$1 id=$2 regex=$3 said
	shift 3
	look "$target" || return 1
	refused 3 "$regex" "${limpet_command[@]}" attach -o never.limpet "$@" "$target" || return 1
	said=${stderr_lines[0]}
	[[ ! -e never.limpet ]] || fail "a trace was begun" || return 1
	run --separate-stderr within 30 "${limpet_command[@]}" doctor --json "$@" "$target"
	[[ $status == 3 ]] || fail "doctor ended with status $status: $stderr" || return 1
	# A `said` that ends with the first refusal's text, and that refusal is the one. How much memory
	# or room is left is measured anew by each, and the program's own pages come and go.
	json_says --arg id "$id" --arg said "$said" 'def measured: gsub("[0-9.]+ (?<unit>[KMGT]?i?B)"; "\(.unit)");
		.verdict == "refused" and
		([.findings[] | select(.severity == "refuse")][0] | (.text | measured) as $text |
		.id == $id and .hint != null and ($said | measured | endswith($text)))' <<<"$output" ||
		fail "attach said '$said', doctor: $output" || return 1
	run --separate-stderr within 30 "${limpet_command[@]}" doctor "$@" "$target"
	[[ $status == 3 && $output == *"cannot attach"*refuse*hint:* ]] ||
		fail "doctor ended with status $status, and said: $output" || return 1
	unchanged "$target"
}

# limpet as another user, from a directory of his: ours is closed to him.
make_theirs() {
	theirs=$(mktemp -d /tmp/limpet-theirs.XXXXXX)
	install -m 755 "$LIMPET" "$theirs/limpet"
	mkdir "$theirs/run"
	chmod 700 "$theirs/run"
	chown 65534 "$theirs" "$theirs/run"
	as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups
		env LIMPET_RUNTIME_DIR= XDG_RUNTIME_DIR="$theirs/run" "$theirs/limpet")
}

# ------------------------------------------------------------------ rounds

# rounds PID N: attach, a moment, stop; N times. Losses on a busy machine are not what this is about.
rounds() {
	local i
	for ((i = 1; i <= $2; i++)); do
		attach "$1" --no-seal || return 1
		within 60 "$LIMPET" stop "$1" >stop.say 2>stop.err || true
		exit_status_of "$limpet_job" 60 || return 1
		((status == 0 || status == 4)) || fail "round $i ended with status $status" || return 1
		rm -f "$trace"
		nothing_of_ours "$1" || fail "after round $i" || return 1
	done
}

# recorded PID EVENTS: the capture has so many by now.
recorded() {
	if ended "$limpet_job"; then
		fail "limpet attach ended early"
		return 0
	fi
	local said
	ask_status "$1" "$LIMPET"
	[[ $said =~ '"events": '([0-9]+) ]] && ((BASH_REMATCH[1] >= $2))
}

# Sets `alone`, by which a command sees no process of another test, in which an agent may be dormant. Captures are
# found all the same.
see_no_others() {
	alone=(unshare --pid --fork --mount-proc)
	"${alone[@]}" true 2>/dev/null || alone=()
}

# ------------------------------------------------------------------ priorities

may_raise_a_priority() {
	nice -n -1 true 2>nice.err && [[ ! -s nice.err ]]
}

# priorities STAT...: "nice policy" of the threads of these files of /proc, each once
priorities() {
	# A name may hold spaces; the fields count from behind it.
	sed 's/^.*) //' "$@" | awk '{ print $17, $39 }' | sort -u
}

# piled_up LIMPET PID TARGET COMMAND ANSWER CONDITION...: whether, after TARGET (PID) has done that while LIMPET stood
# still, and so much is to be read, CONDITION holds. That it does may last for a second only: where this shell gets no
# processor for that long, try again.
piled_up() {
	stand_still "$1" "$2" || return 1
	tell "$3" "$4" "$5"
	kill -CONT "$1"
	for _ in {1..40}; do
		"${@:6}" && return
		sleep 0.025
	done
	return 1
}

# ------------------------------------------------------------------ memory cgroups

groups=()

# make_limited CONTROLLER LIMIT FILE [FILE1]: a cgroup below the one that this test runs in, with that limit in FILE
# (version 1: FILE1); sets `group`. Who makes one removes it by `remove_groups`, behind `end`.
make_limited() {
	local controller=$1 limit=$2 limit_file=$3 line path
	line=$(grep -E "^[0-9]+:([a-z_,]+,)?$controller(,[a-z_,]+)?:" /proc/self/cgroup) || line=$(grep '^0::' /proc/self/cgroup)
	path=${line#*:*:}
	if [[ $line == 0::* ]]; then
		group=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)${path%/}/limpet-test.$$
	else
		group=$(findmnt -n -o TARGET -t cgroup -O "$controller" | head -n 1)${path%/}/limpet-test.$$
		limit_file=${4:-$3}
	fi
	mkdir "$group" 2>/dev/null || skip "no cgroup can be made here"
	groups+=("$group")
	{ echo "$limit" >"$group/$limit_file"; } 2>/dev/null || skip "no cgroup can be limited by $controller here"
}
# make_group MIB: with so much memory.
make_group() {
	make_limited memory $(($1 << 20)) memory.max memory.limit_in_bytes
}
remove_groups() {
	for group in "${groups[@]}"; do
		wait_until 10 rmdir "$group"
	done
}

# hostile_program NAME FILE: a program that allocates in a function of that name, and keeps a third of its blocks.
hostile_program() {
	cat >evil.c <<-'END'
		#include <stdlib.h>
		__attribute__((noinline)) void *evil_name(size_t bytes)
		{
			void *block = malloc(bytes);
			__asm__ volatile("" : : "r"(block) : "memory");
			return block;
		}
		int main(void)
		{
			for (int i = 0; i < 1000; i++)
				if (i % 3)
					free(evil_name(100));
				else
					evil_name(5000);
			return 0;
		}
	END
	gcc -O1 -c evil.c
	objcopy --redefine-sym "evil_name=$1" evil.o
	gcc -o "$2" evil.o
}

# A test file that gives one of these names to a function of its own would change what the others here do.
# shellcheck disable=SC2046
readonly -f $(sed -n 's/^\([a-z_]*\)() {$/\1/p' "${BASH_SOURCE[0]}")
