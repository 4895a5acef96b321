#!/bin/sh
# Writes a man page, or the completion for bash, from its template on standard input: host/man/expand.sh VERSION PROGRAM
#
#   @VERSION@                the version
#   @haloconv COMMAND@       a line of its own: the options of that command, as its --help has them
#   @haloconv ... --_...@    the output of that hidden option, such as the synopsis of a page
set -eu
version=$1 program=$2
while IFS= read -r line; do
  case $line in
    @haloconv*@)
      words=${line#@haloconv}
      words=${words%@}
      case $words in *--_*) ;; *) words="$words --_man" ;; esac
      # shellcheck disable=SC2086 # several words
      "$program" $words
      ;;
    *@VERSION@*) printf '%s\n' "${line%%@VERSION@*}$version${line#*@VERSION@}" ;;
    *) printf '%s\n' "$line" ;;
  esac
done
