#!/usr/bin/env bats
# Real containers, by a dockerd of its own; and the commands of docs/containers.md, taken out of that page.
# time-limit: 300

load helpers

guide=$BATS_TEST_DIRNAME/../../docs/containers.md
: "${LIMPET_STATIC:=$root/build/static/limpet}"

# ------------------------------------------------------------------ dockerd

setup_file() {
	((EUID == 0)) || return 0
	docker=$(mktemp -d /tmp/limpet-docker.XXXXXX)
	# Not in our mount namespace: whatever it mounts goes with it. Its network needs nobody.
	PATH=$PATH:/usr/sbin unshare --mount --propagation private \
		dockerd --data-root "$docker/data" --exec-root "$docker/exec" --pidfile "$docker/pid" \
		-H "unix://$docker/socket" --bridge=none --iptables=false --storage-driver=vfs \
		>"$docker/log" 2>&1 </dev/null 3>&- &
	echo $! >"$docker/job"
	export docker DOCKER_HOST=unix://$docker/socket DOCKER_CONFIG=$docker
	if ! wait_until 30 docker_answers_or_ended || ended "$(<"$docker/job")"; then
		tail -n 5 "$docker/log" | sed 's/^/# /' >&3
		end_dockerd
		unset docker
		return 0
	fi
	make_images
}

docker_answers_or_ended() {
	ended "$(<"$docker/job")" || /usr/bin/docker info >/dev/null 2>&1
}

teardown_file() {
	[[ -z ${docker:-} ]] || end_dockerd
}

end_dockerd() {
	local job directory
	job=$(<"$docker/job")
	end_process "$job" 20
	for directory in /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker; do
		rmdir "$directory" 2>/dev/null || true
	done
	rm -rf "$docker"
}

# `app`: storm and the libraries that it needs; `busybox`: as it is found in registries.
make_images() {
	local library applet
	mkdir -p "$docker/app/"{bin,tmp} "$docker/busybox/"{bin,tmp}
	cp "$TARGETS/storm" "$docker/app/bin/app"
	while read -r library; do
		mkdir -p "$docker/app${library%/*}"
		cp -L "$library" "$docker/app$library"
	done < <(ldd "$TARGETS/storm" | grep -oE '/[^ ]+')
	tar -C "$docker/app" -c . | /usr/bin/docker import -c 'CMD ["/bin/app", "--threads", "2"]' - app >/dev/null
	cp "$(command -v busybox)" "$docker/busybox/bin"
	for applet in cat sh sleep tar; do
		ln -s busybox "$docker/busybox/bin/$applet"
	done
	tar -C "$docker/busybox" -c . | /usr/bin/docker import - busybox >/dev/null
}

setup() {
	begin
	[[ -n ${docker:-} || $BATS_TEST_DESCRIPTION == systemd* ]] || skip "dockerd does not run here"
	# What the commands of the guide find: a sudo that is none, and Debian's programs.
	mkdir -p bin build/static
	cp "$LIMPET_STATIC" build/static
	ln -s "$root/packaging" packaging
	printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$LIMPET" >bin/limpet
	cat >bin/docker <<-'END'
		#!/bin/sh
		[ "$1" = compose ] || exec /usr/bin/docker "$@"
		shift
		exec /usr/bin/docker-compose -p limpet-test -f compose.yaml -f app.yaml "$@"
	END
	chmod +x bin/*
	export PATH=$work/bin:$PATH
}

teardown() {
	local left
	see_no_others
	"${alone[@]}" "$LIMPET" stop --all >/dev/null 2>&1 || true
	if [[ -n ${docker:-} ]]; then
		left=$(/usr/bin/docker ps -aq)
		# shellcheck disable=SC2086
		[[ -z $left ]] || /usr/bin/docker rm -f $left >/dev/null
	fi
	end
}

# ------------------------------------------------------------------ the guide

# from_guide KIND NAME: the block that follows "<!-- KIND: NAME -->".
from_guide() {
	awk -v mark="<!-- $1: $2 -->" '
		$0 == mark { wanted = 1; next }
		wanted && /^```/ { if (inside) exit; inside = 1; next }
		wanted && inside' "$guide" | grep . || fail "the guide has no $1 '$2'"
}

guide_file() {
	local name=$1
	from_guide file "$name" >"./$name"
}

# do_guide NAME: runs a block as it stands there.
do_guide() {
	from_guide run "$1" >"$1.sh" || return 1
	within 120 bash -euo pipefail "$1.sh"
}

# app OPTION...: the program, in a container with these options.
app() {
	start app docker run -i --rm --name app "$@" app || return 1
	same "pid inside" "$pid" 1 || return 1
	outside=$(docker inspect --format '{{.State.Pid}}' app)
}

leak_21() {
	tell app "leak 21" leaked
}

# captured_by BLOCK NUMBER LIMPET...: the block captures; LIMPET is how limpet is called beside it, and
# NUMBER the program's there.
captured_by() {
	local block=$1 number=$2
	shift 2
	do_guide "$block" >"$block.say" 2>"$block.err" </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$number" "$@" || return 1
	! ended "$limpet_job" || return 1
	"${leak:-leak_21}" || return 1
	if [[ -z ${stopped_by:-} ]]; then
		within 60 "$@" stop "$number" || return 1
	else
		do_guide "$stopped_by" || return 1
	fi
	"${ended_by:-attached}" || return 1
}

# Of the last capture: what was kept, its name and line, and nothing is left.
kept_21() {
	good_capture || return 1
	same "leaks" "$(site_sum storm_leak allocations)" 21 || return 1
	expect '.sites[0].stack[0] | .function == "storm_leak" and .line > 0' || return 1
	nothing_of_ours "$outside"
}

# track: container | Docker, from the host | attach | nothing is installed inside; the filter is read
@test "docker: from the host, as the guide says" {
	app
	captured_by host "$outside" "$LIMPET"
	trace=$work/app.limpet
	kept_21
	grep -q storm_leak host.say
	finish app
}

# track: container | Docker, from a sidecar with the PID namespace and CAP_SYS_PTRACE alone | attach | read-only, no network; `--assume-seccomp-ok`, or CAP_SYS_ADMIN and no filter of its own
@test "docker: from a sidecar that shares the PID namespace and has one capability, as the guide says" {
	app
	do_guide image >image.say
	look "$outside"
	# It may not know the program's filter: said, with what to do.
	run --separate-stderr docker run --rm --pid container:app --cap-drop ALL --cap-add SYS_PTRACE limpet attach 1
	[[ $status == 3 && $stderr == *"limpet has one itself"*--assume-seccomp-ok*seccomp=unconfined* ]] ||
		fail "status $status: $stderr"
	unchanged "$outside"
	stopped_by=sidecar-stop captured_by sidecar 1 docker exec limpet limpet
	trace=$work/out/app.limpet
	kept_21
	stopped_by=sidecar-stop captured_by sidecar-reads 1 docker exec limpet limpet
	[[ $(<sidecar-reads.err) != *warning* ]]
	trace=$work/out/app.2.limpet
	kept_21
	unchanged "$outside"
	finish app
}

# Docker may lose sight of a command that ends with its container, as the guide says: its status is not looked at.
# bats test_tags=release
@test "docker: a sidecar that limpet stop ends leaves the program and a whole trace" {
	app
	do_guide image >image.say
	do_guide sidecar >sidecar.say 2>sidecar.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing 1 docker exec limpet limpet
	tell app "leak 21" leaked
	within 20 docker exec limpet limpet stop 1 >stop.say || echo "docker exec: status $?"
	attached 0
	trace=$work/out/app.limpet
	kept_21
	finish app
}

# track: container | Docker, in the container itself | attach | one static file, CAP_SYS_PTRACE
# bats test_tags=release
@test "docker: in the container itself, as the guide says" {
	app --cap-add SYS_PTRACE
	captured_by inside 1 docker exec app /tmp/limpet
	trace=$work/app.inside.limpet
	kept_21
	finish app
}

# A limit that just holds limpet, and one of the program's own that leaves little room.
# track: container | Docker, program and sidecar with a memory limit each | attach | the agent's memory counts for the program: `--memory`
# bats test_tags=release
@test "docker: memory limits of the program and of the sidecar" {
	app --memory 100m
	do_guide image >image.say
	refused_by_both "$outside" memory "cgroup"
	docker run -d --rm --name limpet --pid container:app --memory 64m --memory-swap 64m --cap-drop ALL --cap-add SYS_PTRACE \
		-v "$work:/out" limpet attach 1 --memory 16M --assume-seccomp-ok "${patiently[@]}" -o /out/tight.limpet >id
	limpet_job=$outside
	wait_until 60 capturing 1 docker exec limpet limpet
	tell app "run 20000" ran
	tell app "leak 21" leaked
	docker stop -t 60 limpet
	trace=$work/tight.limpet
	report
	expect '.capture.agent_unloaded and .totals.allocations > 20000'
	nothing_of_ours "$outside"
	finish app
}

# Its input and output are those that Compose made.
leak_by_compose() {
	printf 'leak 21\n' >"/proc/$outside/fd/0"
	wait_until 30 compose_says leaked
}
compose_says() {
	docker compose logs app 2>/dev/null | grep -q "$1"
}

# It may not hear of the end of the container that it runs: docker says it, and the trace what it was.
no_limpet_runs() {
	wait_until 60 eval '[[ -z $(docker ps -q --filter ancestor=limpet) ]]' || return 1
	end_process "$limpet_job" 5
}

# track: container | Docker Compose, `pid: "service:app"` | attach | a service with a profile, one capability
# bats test_tags=release
@test "docker compose: as the guide says" {
	do_guide image >image.say
	guide_file compose.yaml
	printf '%s\n' 'services:' '  app: {image: app, network_mode: none, stdin_open: true}' >app.yaml
	docker compose up -d app 2>up.err
	wait_until 30 compose_says ready
	outside=$(docker inspect --format '{{.State.Pid}}' "$(docker compose ps -q app)")
	# shellcheck disable=SC2016
	printf '#!/bin/sh\nexec docker exec "$(docker ps -q --filter ancestor=limpet)" limpet "$@"\n' >bin/beside
	chmod +x bin/beside
	leak=leak_by_compose stopped_by=compose-stop ended_by=no_limpet_runs captured_by compose 1 beside
	trace=$work/out/app.compose.limpet
	kept_21
	docker compose down -t 5 2>down.err
}

# ------------------------------------------------------------------ Kubernetes

# flags_of FILE: what docker run takes for the same container, from a securityContext or a DaemonSet. No
# profile is no filter: Kubernetes' default.
flags_of() {
	/usr/bin/python3 - "$1" <<-'END'
		import sys, yaml

		MIB = {"Mi": 1, "Gi": 1024}
		top = yaml.safe_load(open(sys.argv[1], encoding="utf-8"))
		pod = top["spec"]["template"]["spec"] if "spec" in top else {}
		container = pod["containers"][0] if pod else top
		context = container["securityContext"]
		known = {"runAsUser", "runAsNonRoot", "allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem",
		         "seccompProfile", "appArmorProfile"}
		assert set(context) <= known, set(context) - known
		assert context.get("seccompProfile", {"type": "Unconfined"}) == {"type": "Unconfined"}
		assert not context.get("runAsNonRoot", False)
		flags = ["--security-opt", "seccomp=unconfined", "--user", str(context["runAsUser"])]
		flags += [f"--cap-drop={c}" for c in context["capabilities"]["drop"]]
		flags += [f"--cap-add={c}" for c in context["capabilities"]["add"]]
		if not context.get("allowPrivilegeEscalation", True):
		    flags += ["--security-opt", "no-new-privileges"]
		if context.get("readOnlyRootFilesystem"):
		    flags.append("--read-only")
		if pod:
		    assert top["kind"] == "DaemonSet" and pod["hostPID"] is True
		    assert top["spec"]["selector"]["matchLabels"] == top["spec"]["template"]["metadata"]["labels"]
		    assert container["command"] == ["sleep", "infinity"] and container["image"] == "limpet:busybox"
		    flags += ["--pid", "host"]
		    limit = container["resources"]["limits"]["memory"]
		    flags += ["--memory", f"{int(limit[:-2]) * MIB[limit[-2:]]}m"]
		    volumes = {volume["name"]: volume for volume in pod["volumes"]}
		    for mount in container["volumeMounts"]:
		        assert volumes[mount["name"]]["emptyDir"] == {}
		        flags += ["--tmpfs", mount["mountPath"]]
		print("\n".join(flags))
	END
}

# pod OPTION...: a container `limpet` that waits, as the guide's do.
pod() {
	docker run -d --rm --name limpet --network none --entrypoint sleep "$@" limpet:busybox infinity >pod.id
}

# in_pod REGEX: the guide's line `kubectl exec ... -- limpet REGEX`, run in `limpet`. Its PID is ours.
in_pod() {
	local line
	line=$(grep -hoE '^kubectl exec .* -- limpet .*' "$guide" | sed 's/.* -- //' | grep -E "^limpet $1" | head -n 1)
	[[ -n $line ]] || fail "the guide does not say limpet $1 in a pod" || return 1
	# shellcheck disable=SC2086
	docker exec limpet ${line/ PID/ $outside}
}

# captured_in_pod NUMBER REGEX
captured_in_pod() {
	local number=$1
	in_pod "$2" >pod.say 2>pod.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$number" docker exec limpet limpet || return 1
	! ended "$limpet_job" || return 1
	tell app "leak 21" leaked || return 1
	within 60 docker exec limpet limpet stop "$number" || return 1
	attached 0 || return 1
	# As kubectl cp does it.
	docker exec limpet tar -C /tmp -c app.limpet | tar -x || return 1
	mv app.limpet "app.$number.limpet"
	trace=$work/app.$number.limpet
	kept_21
}

# track: container | Kubernetes, ephemeral container: its securityContext, by Docker | attach | no cluster was available; docs/containers.md says what was run instead
# bats test_tags=release
@test "kubernetes: the ephemeral container's security context, and a profile's" {
	local flags
	do_guide image-busybox >image.say
	app --security-opt seccomp=unconfined
	guide_file limpet-debug.yaml
	mapfile -t flags < <(flags_of limpet-debug.yaml)
	((${#flags[@]} > 4))
	pod --pid container:app "${flags[@]}"
	in_pod 'doctor 1$'
	captured_in_pod 1 'attach 1 '
	docker rm -f limpet >/dev/null
	# kubectl's profile "general": the default capabilities and this one.
	pod --pid container:app --security-opt seccomp=unconfined --cap-add SYS_PTRACE
	captured_in_pod 1 'attach 1 '
	finish app
}

# by_one_command NUMBER OPTION...: the guide's NUMBERth command that begins an ephemeral container, as that container,
# with the rights of kubectl's profile "general". It is given as long as it takes, not half a minute.
by_one_command() {
	local line image
	line=$(sed -n 's/^kubectl debug mypod -it //p' "$guide" | sed -n "$1p" | sed 's/ -d 30s/ -d 10m/')
	[[ $line == --image=*" --target=app --profile=general -- "* ]] || fail "no such command: $line" || return 1
	image=${line#--image=}
	image=${image%% *}
	eval "within 120 docker run --rm --network none --pid container:app --security-opt seccomp=unconfined --cap-add SYS_PTRACE \
		${*:2} --entrypoint '' $image ${line#* -- }"
}

# track: container | Kubernetes, one command: its rights, by Docker | attach | `limpet explain`, and a capture with its report, by `kubectl debug`
# bats test_tags=release
@test "kubernetes: the guide's commands that begin, look and report at once" {
	do_guide image >image.say
	do_guide image-busybox >>image.say
	app --security-opt seccomp=unconfined
	by_one_command 1 >explain.text
	grep -q "resident" explain.text
	by_one_command 2 --name limpet >report.text 2>attach.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing 1 docker exec limpet limpet
	tell app "leak 21" leaked
	within 60 docker exec limpet limpet stop 1
	attached 0
	grep -q storm_leak report.text
	nothing_of_ours "$outside"
	finish app
}

# track: container | Kubernetes, DaemonSet: its securityContext, by Docker | attach | the same
# bats test_tags=release
@test "kubernetes: the DaemonSet's security context, with the node's processes" {
	local flags
	do_guide image-busybox >image.say
	# The filter of Docker's default profile, as RuntimeDefault is: it can be read.
	app
	guide_file limpet-daemonset.yaml
	mapfile -t flags < <(flags_of limpet-daemonset.yaml)
	((${#flags[@]} > 8))
	pod "${flags[@]}"
	in_pod 'doctor$' >list
	grep -qw "$outside" list
	captured_in_pod "$outside" 'attach PID '
	[[ $(<pod.err) != *warning* ]]
	in_pod report >text
	grep -q storm_leak text
	finish app
}

# ------------------------------------------------------------------ systemd

# A systemctl that knows one service.
one_service() {
	# shellcheck disable=SC2016
	printf '#!/bin/sh\n[ "$*" = "show --property MainPID --value app.service" ] && echo %s\n' "$1" >bin/systemctl
	chmod +x bin/systemctl
}

@test "systemd: by hand, as the guide says" {
	start app "$TARGETS/storm"
	outside=$pid
	one_service "$pid"
	captured_by systemd "$pid" "$LIMPET"
	trace=$work/app.service.limpet
	kept_21
	finish app
}

# track: container | a systemd unit that captures a service | attach | its command line with its capabilities; systemd itself was not run
@test "systemd: the guide's unit is one, and its command works with its capabilities" {
	local command set
	guide_file limpet@.service
	printf '%s\n' '[Service]' 'ExecStart=/bin/true' >app.service
	SYSTEMD_UNIT_PATH=$work: systemd-analyze verify --man=no "$work/limpet@app.service" 2>verify.err || fail "$(<verify.err)"
	[[ $(<verify.err) != *limpet@* ]]
	start app "$TARGETS/storm"
	outside=$pid
	one_service "$pid"
	command=$(sed -n 's/^ExecStart=//p' limpet@.service)
	command=${command//%%/$'\1'}
	command=${command//%i/app}
	command=${command//$'\1'/%}
	command=${command//\/usr\/local\/bin\/limpet/$LIMPET}
	command=${command//\/var\/lib\/limpet/$work}
	set=$(sed -n 's/^CapabilityBoundingSet=//p' limpet@.service | tr "[:upper:]" "[:lower:]" | sed 's/cap_/,+/g; s/ //g')
	setpriv --inh-caps=-all --bounding-set="-all$set" bash -c "exec $command" >unit.say 2>unit.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid"
	tell app "leak 21" leaked
	kill -TERM "$limpet_job"
	attached 0
	trace=$(echo "$work"/app.2*.limpet)
	within 60 "$LIMPET" seal -q "$trace"
	kept_21
	finish app
}
