#!/usr/bin/env bats
# What limpet writes, and where: traces never through a link, sockets where nobody else can put one.

load helpers
setup() { begin; }
teardown() { end; }

# What may stand where a trace is wanted: a link to nothing, to a file, to a directory, a second name of a
# file, a pipe, a socket, a directory.
obstacles=(dangling link directory-link hard pipe socket directory)
put_obstacle() {
	case $1 in
	dangling) ln -s nowhere "$2" ;;
	link) ln -s precious "$2" ;;
	directory-link) ln -s . "$2" ;;
	hard) ln precious "$2" ;;
	pipe) mkfifo "$2" ;;
	socket) python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$2" ;;
	directory) mkdir "$2" ;;
	esac
}

# What no capture may have touched.
precious_is_kept() {
	[[ $(<precious) == precious && ! -e nowhere && $(stat -c %a:%u precious) == 644:$EUID ]]
}

@test "an output that is a link, a pipe, a socket or a directory: refused, and not followed" {
	local what option
	echo precious >precious
	chmod 644 precious
	start storm "$TARGETS/storm"
	look "$pid"
	for what in "${obstacles[@]}"; do
		for option in "" --background; do
			put_obstacle "$what" "out.limpet"
			refused 1 "out.limpet" "$LIMPET" attach "$pid" -o out.limpet -d 100ms "${patiently[@]}" ${option:+"$option"}
			precious_is_kept
			rm -rf out.limpet
		done
	done
	unchanged "$pid"
	finish storm
}

@test "the name that limpet gives: whatever stands there is left, the next number is taken" {
	local what taken=0 name
	echo precious >precious
	chmod 644 precious
	start storm "$TARGETS/storm"
	name=storm.$pid.limpet
	for what in "${obstacles[@]}"; do
		put_obstacle "$what" "$name$( ((taken == 0)) || echo ".$taken")"
		taken=$((taken + 1))
	done
	umask 0
	run --separate-stderr within 60 "$LIMPET" attach "$pid" -d 100ms "${patiently[@]}" -q
	same "the status" "$status" 0
	same "the path" "$output" "$name.$taken"
	same "mode and owner" "$(stat -c %a:%u:%h "$name.$taken")" "600:$EUID:1"
	precious_is_kept
	within 60 "$LIMPET" report "$name.$taken" >/dev/null
	finish storm
}

@test "under sudo the trace belongs to who called it" {
	((EUID == 0)) || skip "only root gives files away"
	start storm "$TARGETS/storm"
	SUDO_UID=65534 SUDO_GID=65534 "$LIMPET" attach "$pid" -d 100ms "${patiently[@]}" -q -o his.limpet
	same "mode and owner" "$(stat -c %a:%u:%g his.limpet)" 600:65534:65534
	finish storm
}

@test "a directory that others may write to: a trace that was exchanged is not written to" {
	start storm "$TARGETS/storm"
	attach "$pid" --no-seal
	tell storm "run 1000" ran
	stop "$pid"
	cp "$trace" precious.limpet
	local before
	before=$(sha256sum <precious.limpet)
	attach "$pid"
	tell storm "run 1000" ran
	mv "$trace" away.limpet
	ln -s precious.limpet "$trace"
	stop "$pid"
	grep -q 'cannot seal' "$work/attach.$captures.err"
	same "what the link led to" "$(sha256sum <precious.limpet)" "$before"
	within 60 "$LIMPET" report away.limpet >/dev/null
	finish storm
}

@test "a trace that is moved away during the capture: limpet says so, and it is whole" {
	start storm "$TARGETS/storm"
	attach "$pid"
	tell storm "run 1000" ran
	mv "$trace" away.limpet
	stop "$pid" 4
	grep -q "there is no '$trace' any more" "$work/attach.$captures.err" || fail "$(<"$work/attach.$captures.err")"
	grep -q 'hint: it was removed or renamed during the capture' "$work/attach.$captures.err"
	run ! grep -q 'limpet report' "$work/attach.$captures.err"
	[[ ! -s $work/attach.$captures.say ]]
	within 60 "$LIMPET" report away.limpet >away.text
	! grep -q 'not complete' away.text || fail "$(<away.text)"
	finish storm
	# A command goes on, whatever happened to its trace.
	start kept "$LIMPET" run -q -o "$work/gone.limpet" -- "$TARGETS/storm"
	rm gone.limpet
	status=0
	within 60 "$LIMPET" stop "$pid" >stop.say || status=$?
	same "status of limpet stop" "$status" 4
	tell kept "run 10" ran
	finish kept
}

# ------------------------------------------------------------------ control sockets

# A world where /run and /tmp are this test's own, and captures are found as users find them. Sets
# `world`, which runs a command there, and `inside`, the limpet that everybody there may run.
make_world() {
	((EUID == 0)) || skip "only root can be another user"
	unshare --mount true 2>/dev/null || skip "making namespaces is not allowed here"
	mkdir run.world tmp.world
	chmod 1777 tmp.world
	install -m 755 "$LIMPET" run.world/limpet-program
	inside=/run/limpet-program
	world=(unshare --mount bash -c 'cd "$0" && mount --bind "$0/run.world" /run &&
		mount --bind "$0/tmp.world" /tmp 2>/dev/null &&
		unset LIMPET_RUNTIME_DIR XDG_RUNTIME_DIR TMPDIR && exec "$@"' "$work")
}
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)

@test "the control socket: for its user and root, in a directory where nobody else can write" {
	local world inside
	make_world
	start storm "$TARGETS/storm"
	"${world[@]}" "$inside" attach "$pid" -o /run/out.limpet "${patiently[@]}" -q >world.say 2>world.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 30 test -S "run.world/limpet/$pid.sock"
	same "the directory" "$(stat -c %a:%u run.world/limpet)" "711:0"
	same "the socket" "$(stat -c %a:%u "run.world/limpet/$pid.sock")" "600:0"
	wait_until 30 capturing "$pid" "${world[@]}" "$inside"
	# another user: sees that it is captured, and can neither stop it nor talk to it
	refused 1 "another user" "${world[@]}" "${nobody[@]}" "$inside" stop "$pid"
	"${world[@]}" "${nobody[@]}" /usr/bin/python3 -c '
import socket, sys
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])
except PermissionError:
    sys.exit(0)
sys.exit(1)' "/run/limpet/$pid.sock"
	wait_until 60 is_captured "$pid" "${world[@]}" "$inside"
	tell storm "leak 5" leaked
	within 60 "${world[@]}" "$inside" stop "$pid"
	attached 0
	[[ ! -e run.world/limpet/$pid.sock ]]
	finish storm
}

@test "no /run to write to: a directory in /tmp that another made first is not used" {
	local world inside what
	make_world
	start storm "$TARGETS/storm"
	look "$pid"
	# something that is no directory, where limpet's would be
	: >run.world/limpet
	for what in his link writable; do
		case $what in
		his) mkdir tmp.world/limpet-0 && chown 65534 tmp.world/limpet-0 ;;
		link) mkdir tmp.world/trap && ln -s trap tmp.world/limpet-0 ;;
		writable) mkdir -m 1777 tmp.world/limpet-0 && chmod 1777 tmp.world/limpet-0 ;;
		esac
		refused 1 "runtime directory" "${world[@]}" "$inside" attach "$pid" -o /run/never.limpet -d 100ms
		[[ ! -e run.world/never.limpet && ! -e tmp.world/limpet-0/$pid.sock ]]
		rm -rf tmp.world/limpet-0 tmp.world/trap
	done
	unchanged "$pid"
	finish storm
}

# ------------------------------------------------------------------ several limpets

@test "four limpets at once: one captures, the others say so" {
	local i jobs=()
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	for i in 1 2 3 4; do
		env --default-signal=INT "$LIMPET" attach "$pid" "${patiently[@]}" -q --no-seal -o "$i.limpet" \
			>"$i.say" 2>"$i.err" </dev/null 3>&- &
		jobs+=($!)
		limpet_jobs+=($!)
	done
	only_one_captures
	unchanged "$pid"
	tell storm "run 1000" ran
	finish storm
}

# Of `jobs`, whose errors are in 1.err...: three say why not, and the fourth goes on until it is told to end.
only_one_captures() {
	local i one=
	wait_until 60 three_have_ended || return 1
	for i in 1 2 3 4; do
		if ended "${jobs[i - 1]}"; then
			exit_status_of "${jobs[i - 1]}" 10 || return 1
			[[ $status == 3 ]] && grep -Eq "captured|traced by 'limpet'" "$i.err" ||
				fail "status $status: $(<"$i.err")" || return 1
		else
			one=${jobs[i - 1]}
		fi
	done
	[[ -n $one ]] || fail "none of them captures" || return 1
	kill -INT "$one"
	exit_status_of "$one" 60 || return 1
	same "the status" "$status" 0
}
three_have_ended() {
	local job count=0
	for job in "${jobs[@]}"; do
		ended "$job" && count=$((count + 1))
	done
	((count >= 3))
}

# blind N ARGUMENTS...: a limpet that knows of no other. Sets `job`.
blind() {
	local name=$1
	shift
	mkdir -m 700 "run.$name"
	LIMPET_RUNTIME_DIR=$work/run.$name env --default-signal=INT "$LIMPET" attach "$pid" "${patiently[@]}" -q --no-seal -o "$name.limpet" "$@" \
		>"$name.say" 2>"$name.err" </dev/null 3>&- &
	job=$!
	limpet_jobs+=("$job")
}

# four_blind ROUND LEAST MOST: four at once, for so many milliseconds each. Every one captures, which is added
# to `captured`, or says why not.
four_blind() {
	local round=$1 least=$2 most=$3 i job jobs=()
	for i in 1 2 3 4; do
		blind "$i.$round" -d "$((RANDOM % (most - least + 1) + least))ms"
		jobs+=("$job")
	done
	for i in 1 2 3 4; do
		exit_status_of "${jobs[i - 1]}" 60 || return 1
		case $status in
		0 | 4) captured=$((captured + 1)) ;;
		3) grep -Eq "captured|traced by 'limpet'" "$i.$round.err" || return 1 ;;
		*) fail "status $status: $(<"$i.$round.err")" || return 1 ;;
		esac
	done
}

# bats test_tags=release
@test "four limpets that cannot see each other: one captures, the others say so" {
	local round i job jobs
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 1000" ran
	for round in 1 2 3; do
		jobs=()
		for i in 1 2 3 4; do
			rm -rf "run.$i" "$i.limpet"
			blind "$i"
			jobs+=("$job")
		done
		only_one_captures
		tell storm "run 1000" ran
		nothing_of_ours "$pid"
	done
	finish storm
}

# bats test_tags=release
@test "limpets that cannot see each other come and go: each captures or says why not" {
	local round captured=0
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 1000" ran
	for round in {1..10}; do
		four_blind "$round" 1 100
		tell storm "run 1000" ran
		nothing_of_ours "$pid"
	done
	((captured >= 10)) || fail "$captured captures in 10 rounds"
	finish storm
}

@test "flock(2) of the pidfd of a program, which may be its own: limpet does not take part" {
	local word
	start storm "$TARGETS/storm" --threads 2
	mkfifo held
	python3 -c '
import fcntl, os, signal, sys
fd = os.pidfd_open(int(sys.argv[1]))
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
signal.pause()' "$pid" >held 3>&- &
	limpet_jobs+=($!)
	read -r -t $((30 * LIMPET_TEST_PATIENCE)) word <held
	[[ $word == held ]]
	attach "$pid"
	stop "$pid"
	good_capture
	finish storm
}

@test "one that keeps its turn: who captures leaves all the same, others do nothing and say so" {
	local holder word
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 1000" ran
	attach "$pid"
	mkfifo held
	python3 -c '
import fcntl, os, signal, struct, sys
fd = os.pidfd_open(int(sys.argv[1]))
byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0x6c696d706574, 1, 0)
fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, byte)
print("held", flush=True)
signal.pause()' "$pid" >held 3>&- &
	holder=$!
	limpet_jobs+=("$holder")
	read -r -t $((30 * LIMPET_TEST_PATIENCE)) word <held
	[[ $word == held ]]
	stop "$pid"
	good_capture
	refused 3 "another limpet is changing process $pid" \
		"$LIMPET" attach "$pid" -o never.limpet --attach-timeout 300ms
	[[ ! -e never.limpet ]]
	tell storm "run 1000" ran
	nothing_of_ours "$pid"
	kill "$holder"
	wait_until 30 ended "$holder"
	"$LIMPET" attach "$pid" -o after.limpet -d 100ms "${patiently[@]}" -q
	finish storm
}
