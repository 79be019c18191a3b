#compdef limpet
# Completion of limpet for zsh.

_limpet()
{
	local line what
	local -a candidates shown

	for line in "${(@f)$("$words[1]" complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		case $line in
		'') ;;
		:files | :directories)
			[[ $words[CURRENT] == -*=* ]] && compset -P '*='
			if [[ $line == :files ]]; then _files; else _files -/; fi
			;;
		:command*)
			shift $((${line#:command } + 1)) words
			CURRENT=$((CURRENT - ${line#:command } - 1))
			_normal
			return
			;;
		*)
			candidates+=("${line%%$'\t'*}")
			what=${line#*$'\t'}
			shown+=("$candidates[-1]${what:+  -- $what}")
			;;
		esac
	done
	(($#candidates)) && compadd -l -d shown -a candidates
}

_limpet "$@"
