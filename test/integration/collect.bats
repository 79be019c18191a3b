#!/usr/bin/env bats
# limpet collect: streams of several senders, good and bad, into bounded files.
# time-limit: 300

load helpers
setup() { begin; }
teardown() {
	! mountpoint -q "$work/in" || umount -l "$work/in"
	end
}

# collecting [KEEP]: a limpet collect beside the test, from $work/sock into $work/in.
collecting() {
	mkdir -p in
	"$LIMPET" collect sock in --keep "${1:-1G}" >collect.say 2>collect.err </dev/null 3>&- &
	collector=$!
	limpet_jobs+=("$collector")
	wait_until 20 grep -q "listening at sock" collect.err
}

# collected STATUS: it ends, by SIGTERM.
collected() {
	kill -TERM "$collector"
	exit_status_of "$collector" 30 || return 1
	same "status of collect" "$status" 0
	[[ ! -e sock ]]
}

# send FILE...: each as a stream of its own, at once (or, with `in_turn`, one after the other); a sender that is ended
# early is content.
send() {
	python3 - ${in_turn:+"$in_turn"} "$@" <<'END'
import socket, sys, threading
def send(name):
    with socket.socket(socket.AF_UNIX) as s, open(name, "rb") as file:
        s.connect("sock")
        try:
            s.sendall(file.read())
        except OSError:
            pass
if sys.argv[1] == "in-turn":
    [send(name) for name in sys.argv[2:]]
else:
    threads = [threading.Thread(target=send, args=(name,)) for name in sys.argv[1:]]
    [t.start() for t in threads]
    [t.join() for t in threads]
END
}

said() {
	grep -qE "$1" collect.err || fail "collect did not say: $1: $(<collect.err)"
}

# sample NAME: a small whole trace.
sample() {
	"$LIMPET" run -q -o "$1" -- /bin/echo hello >/dev/null 2>&1
}

@test "three senders at once: each report is that of its program, seen while it grows" {
	local name pids=() jobs=() traces
	collecting
	for name in one two three; do
		start "$name" "$TARGETS/storm"
		tell "$name" "run 5000" ran
		pids+=("$pid")
		env --default-signal=INT,HUP,QUIT "$LIMPET" attach "$pid" -o unix:sock "${patiently[@]}" >"$name.say" 2>"$name.log" </dev/null 3>&- &
		jobs+=("$!")
		limpet_jobs+=("$!")
		wait_until 60 is_captured "$pid"
		tell "$name" mark marked
		tell "$name" zero zeroed
		tell "$name" "run 10000" ran
		tell "$name" count '{'
		printf '%s\n' "$answer" >"$name.counts"
	done
	"$LIMPET" status "$pid" >status.say
	grep -qx ' *unix:sock' status.say || fail "$(<status.say)"
	"$LIMPET" status --json >status.json
	says_in status.json '[.captures[] | select(.state == "receiving") | .streams[].trace] | length == 3'
	traces=(in/storm."${pids[0]}".*.limpet)
	wait_until 30 grows "${traces[0]}"
	refused 1 "goes to unix:sock: it is not here" "$LIMPET" top "$pid"
	for name in 0 1 2; do
		"$LIMPET" stop "${pids[name]}" 2>/dev/null
		exit_status_of "${jobs[name]}" 60
		same "status" "$status" 0
	done
	wait_until 20 eval '(($(grep -c "is whole" collect.err) == 3))'
	for name in one two three; do
		trace=$(echo "$work"/in/storm."${pid_of[$name]}".*.limpet)
		[[ $(stat -c %a "$trace") == 600 ]]
		answer=$(<"$name.counts")
		counts_equal
		expect '[.sites[].stack[] | select(.file // "" | endswith("storm.c"))] | length > 0'
		finish "$name"
	done
	"$LIMPET" stop "$collector" 2>/dev/null
	exit_status_of "$collector" 30
	same "status of collect" "$status" 0
}
grows() {
	"$LIMPET" report "$1" --json 2>/dev/null | json_says '.capture.end == "running" and .totals.allocations > 1000'
}

@test "the same bytes as were sent, and two senders of one name have two files" {
	local traces
	sample one.limpet
	collecting
	send one.limpet one.limpet
	wait_until 20 eval '(($(grep -c "is whole" collect.err) == 2))'
	traces=(in/*)
	same "files" "${#traces[@]}" 2
	cmp one.limpet "${traces[0]}"
	cmp one.limpet "${traces[1]}"
	[[ ${traces[0]} == in/echo.*.limpet && ${traces[1]} == "${traces[0]}.1" ]] || fail "${traces[*]}"
	collected
}

# Of what is not a trace nothing is kept; of one that is damaged what was whole before.
@test "senders of anything: what is written has whole blocks only" {
	local trace
	sample one.limpet
	head -c 100000 /dev/urandom >random
	head -c 10 one.limpet >short
	head -c $(($(stat -c %s one.limpet) - 7)) one.limpet >cut.part
	python3 - <<'END'
import random
data = open("one.limpet", "rb").read()
random.seed(5)
for n in range(8):
    at = random.randrange(len(data))
    open(f"flipped.{n}", "wb").write(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1:])
open("tail", "wb").write(data[60:])
END
	: >nothing
	collecting
	send random short nothing tail
	wait_until 20 grep -q "sent: it is not a trace" collect.err
	[[ -z $(ls in) ]] || fail "$(ls in)"
	send cut.part flipped.*
	wait_until 20 idle
	said "a block is damaged|out of order|impossible size"
	for trace in in/*; do
		# All of it is blocks of the trace that was sent.
		"$LIMPET" report "$trace" --json >report.json 2>report.err || continue
		expect '.damaged_blocks // .capture.damaged_blocks // 0 | . == 0' || fail "$trace"
		cmp -n "$(stat -c %s "$trace")" "$trace" one.limpet || fail "$trace is another"
	done
	kill -0 "$collector"
	collected
}
# Nobody sends any more.
idle() {
	"$LIMPET" status "$collector" --json | json_says '.captures[0].streams == []'
}

@test "--keep: the oldest finished traces go, others' files stay, and what is received stays" {
	local size n many=()
	printf '%s\n' "run 20000" quit |
		"$LIMPET" run -q --addresses "${patiently[@]}" -o one.limpet -- "$TARGETS/storm" >storm.say 2>&1
	size=$(stat -c %s one.limpet)
	((size > 50000)) || fail "$size bytes"
	for ((n = 0; n < 1048576 / size + 3; n++)); do many+=(one.limpet); done
	mkdir in
	cp one.limpet in/mine.limpet
	cp one.limpet in/other
	collecting 1M
	in_turn=in-turn send "${many[@]}"
	wait_until 20 idle
	said "was removed, to keep to --keep"
	(($(cat in/storm.* | wc -c) <= 1048576)) || fail "$(ls -l in)"
	# All at once: finished ones go first, and then there is no room for all.
	send "${many[@]}"
	wait_until 20 idle
	(($(cat in/storm.* | wc -c) <= 1048576)) || fail "$(ls -l in)"
	cmp one.limpet in/mine.limpet
	cmp one.limpet in/other
	collected
	# A new one knows those of the one before.
	collecting 1M
	send one.limpet one.limpet
	wait_until 20 idle
	(($(cat in/storm.* | wc -c) <= 1048576)) || fail "$(ls -l in)"
	collected
}

@test "a full disk ends that stream alone: what was whole before stays" {
	local n
	sample one.limpet
	mkdir in
	mount -t tmpfs -o size=64k,mode=700 none in || skip "no tmpfs can be mounted here"
	for ((n = 0; n < 40; n++)); do cp one.limpet "sent.$n"; done
	collecting
	send sent.*
	wait_until 20 idle
	said "the disk is full"
	for n in in/*.limpet in/*.limpet.?; do
		cmp -n "$(stat -c %s "$n")" "$n" one.limpet || fail "$n is another"
	done
	collected
}

@test "a sender that dies, and a collector that ends: what arrived is readable, and the next one listens" {
	local trace
	start storm "$TARGETS/storm"
	collecting
	attach_to_sock
	kill -KILL "$limpet_job"
	wait "$limpet_job" 2>/dev/null || true
	wait_until 20 grep -q "its sender went away" collect.err
	trace=$(echo "$work"/in/storm.*.limpet)
	report
	expect '.capture.end == "collector-lost" and (.capture.complete | not)'
	cleaned_up "$pid" 05
	attach_to_sock
	kill -KILL "$collector"
	attached 4
	grep -q "the reader of the stream has gone" sender.err
	nothing_of_ours "$pid"
	trace=$trace.1
	report
	expect '.capture.end == "collector-lost"'
	[[ -S sock ]]
	collecting
	refused 1 "somebody listens at 'sock' already" "$LIMPET" collect sock . --keep 1G
	refused 1 "another limpet collect receives into 'in'" "$LIMPET" collect sock2 in --keep 1G
	collected
	finish storm
}
attach_to_sock() {
	env --default-signal=INT,HUP,QUIT "$LIMPET" attach "$pid" -o unix:sock "${patiently[@]}" >sender.say 2>sender.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 is_captured "$pid"
	tell storm "run 1000" ran
	"$LIMPET" mark "$pid" here >/dev/null 2>&1
}

@test "places that are no socket, and other users" {
	: >a-file
	mkdir in
	refused 1 "'a-file' exists and is not a socket" "$LIMPET" collect a-file in --keep 1G
	refused 1 "cannot use the directory 'none'" "$LIMPET" collect sock none --keep 1G
	refused 2 "missing --keep SIZE" "$LIMPET" collect sock in
	refused 2 "not a size of 1MiB or more" "$LIMPET" collect sock in --keep 5
	[[ ! -s a-file && ! -e sock ]]
	sample one.limpet
	collecting
	[[ $(stat -c %a sock) == 600 ]]
	chmod 666 sock
	chmod 711 "$work" "$BATS_TEST_TMPDIR"
	setpriv --reuid 12345 --regid 12345 --clear-groups perl -MIO::Socket::UNIX -e \
		'IO::Socket::UNIX->new(Peer => "sock") or die "$!"'
	wait_until 20 grep -q "of user 12345 was turned away" collect.err
	[[ -z $(ls in) ]]
	# And the other way: a socket of another user gets nothing.
	mkdir -m 777 theirs
	setpriv --reuid 12345 --regid 12345 --clear-groups perl -MIO::Socket::UNIX -e '
		my $s = IO::Socket::UNIX->new(Local => "theirs/sock", Listen => 1) or die "$!";
		$| = 1;
		print "listens\n";
		$s->accept()' >theirs.say 2>&1 3>&- &
	job_of[theirs]=$!
	wait_until 20 grep -q listens theirs.say
	run --separate-stderr "$LIMPET" run -q -o unix:theirs/sock -- /bin/true
	[[ $status == 125 && $stderr == *"is user 12345's: a trace goes to root or to you"* ]] || fail "$status: $stderr"
	collected
}
