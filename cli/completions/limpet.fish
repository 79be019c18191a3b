# Completion of limpet for fish.

function __limpet_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l option (string match -r '^-[^=]*=' -- $words[-1])
	set -l path (string replace -r '^-[^=]*=' '' -- $words[-1])
	for line in ($words[1] complete $words[2..] 2>/dev/null)
		switch $line
			case ':files'
				string replace -r -- '^' "$option" (__fish_complete_path $path)
			case ':directories'
				string replace -r -- '^' "$option" (__fish_complete_directories $path)
			case ':command *'
				complete -C (string join ' ' -- (string escape -- $words[(math (string split ' ' $line)[2] + 2)..]))
			case '*'
				echo $line
		end
	end
end

complete -c limpet -f -a '(__limpet_complete)'
