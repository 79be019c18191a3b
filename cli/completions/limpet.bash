# Completion of limpet for bash. Works with and without the bash-completion package.
# shellcheck shell=bash

_limpet()
{
	local program=${COMP_WORDS[0]} line=${COMP_LINE} gap word i words=() first=() typed

	# The shell takes --name=value and a::b apart; what stands without a blank between is one word.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		gap=${line%%[![:space:]]*}
		line=${line#"$gap"}
		line=${line#"${COMP_WORDS[i]}"}
		if ((i > 1)) && [[ ! $gap ]]; then
			words[-1]+=${COMP_WORDS[i]}
		elif ((i)); then
			words+=("${COMP_WORDS[i]}") first+=("$i")
		fi
	done
	# Of the last word, what the shell keeps.
	word=${COMP_WORDS[COMP_CWORD]}
	[[ ${word//[=:]/} ]] || word=
	typed=${words[-1]%"$word"}

	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		case $word in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${words[-1]#"$typed"}")
			;;
		:directories)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -d -- "${words[-1]#"$typed"}")
			;;
		:command*)
			i=${first[${word#:command }]}
			if declare -F _command_offset >/dev/null; then
				_command_offset "$i"
			elif ((i == COMP_CWORD)); then
				mapfile -t COMPREPLY < <(compgen -c -- "${words[-1]}")
			else
				compopt -o default 2>/dev/null
			fi
			return
			;;
		*)
			# Names in a trace may have what the shell would expand.
			printf -v word %q "${word#"$typed"}"
			COMPREPLY+=("$word")
			;;
		esac
	done < <("$program" complete "${words[@]}" 2>/dev/null)
}

complete -F _limpet limpet
