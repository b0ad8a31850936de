# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
#
# Bash completion of all programs but weftctl, which has one of its own that asks the switch: commands and options, as
# their --help has them, and files.

# The help of a program, or of one of its commands.
_weft_help() {
  "$@" --help 2>/dev/null
}

# The commands in a help text: CLI11's list behind "Subcommands:", argparse's {run,up}.
_weft_commands() {
  awk '/^Subcommands:/ { listed = 1; next }
       listed && /^  [a-z]/ { print $1 }
       listed && !/^  / && NF { listed = 0 }
       match($0, /^ +\{[a-z_,]+\}/) { words = substr($0, RSTART, RLENGTH); gsub(/[ {}]/, "", words)
                                      gsub(/,/, "\n", words); print words }'
}

_weft() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}
  local command="" commands words i
  COMPREPLY=()
  commands=$(_weft_help "$program" | _weft_commands | sort -u)
  for ((i = 1; i < COMP_CWORD; i++)); do
    if grep -qx -- "${COMP_WORDS[i]}" <<<"$commands"; then
      command=${COMP_WORDS[i]}
      break
    fi
  done
  if [[ $word == -* ]]; then
    words=$(_weft_help "$program" $command | grep -oE '^ +(-[A-Za-z],? ?)?--[A-Za-z_-]+' | grep -oE -- '--[A-Za-z_-]+')
    [[ -n $command || -z $commands ]] || words+=" --version"
    mapfile -t COMPREPLY < <(compgen -W "$words --help" -- "$word" | sort -u)
  elif [[ -n $commands && -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}

complete -o filenames -F _weft weft-switch weft-sim weft-flow weft-rnic weft-lab weft-inc-manager weft-inc weft-incd \
  weft-qp-agent
