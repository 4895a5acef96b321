#!/usr/bin/env bash
# What a new user types, in fresh roots of Debian: `make fresh-test` as root, with debootstrap.
#
#   SUITES="bookworm trixie" ROUNDS=1 tests/tools/fresh.sh [COMMAND...]     default: demo test deb
#
#   demo, test    make demo, make test
#   deb           make deb (nocheck), the packages installed, and their own tests (packaging/debian/tests), in another new root
#   change, ci    make after a change of one C file, .ci/run
#
# A root holds only Debian's base system, make and a clone of HEAD. The CUDA toolkit of this machine, if it has one, is
# mounted there read-only. ROOTS (/var/tmp/haloconv-fresh) keeps the base systems for the next call and each command's
# output; MIRROR is Debian's. The last table has a row for each suite and command, and the tests that only one suite skips
# stand below it. Exit: 0 only if every command has passed.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra suites <<<"${SUITES:-bookworm trixie}"
rounds=${ROUNDS:-1}
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=(demo test deb)
roots=${ROOTS:-/var/tmp/haloconv-fresh}
root=$roots/root
# shellcheck source=tests/tools/roots.sh
. tests/tools/roots.sh
trap root_remove EXIT
clone_make() { # SUITE: a new root with a clone of HEAD
  root_make "$1"
  git clone -q --depth 1 "file://$PWD" "$root/root/haloconv"
}
inside() { in_root /root/haloconv "$1"; }
version() { local found; found=$(inside "$1" 2>/dev/null </dev/null) || true; echo "${found:--}"; }
failed=0
rows=""
timed() { # NAME COMMAND: a row of the table
  local log=$roots/$suite.$round.$1.log start=$EPOCHREALTIME status=0 counts row
  inside "$2" >"$log" 2>&1 </dev/null || { status=$?; failed=1; }
  counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 | \2 | \3/p' "$log" | tail -n 1)
  row="| $suite | $(version 'gcc --version | sed "1s/.* //;q"') | $(version 'python3 -V | sed "s/.* //"') |"
  row+=" $(version '/usr/bin/python3 -c "import numpy; print(numpy.__version__)"') |"
  row+=" $(version 'pipewire --version | sed -n "s/^Linked with libpipewire //p"') | $1 |"
  row+=" $(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }') | ${counts:-- | - | -} |"
  rows+="$row"$'\n'
  echo "$row"
  [ $status -eq 0 ] || { echo "fresh: $suite: $1 ended with status $status; $log ends with:"; tail -n 5 "$log"; }
}
# shellcheck disable=SC2016 # the shell in the root expands it
deb='DEB_BUILD_OPTIONS=nocheck make deb && apt-get install -y -q --no-install-recommends man-db jackd2 ./build/deb/*.deb &&
     cd /tmp && for t in file python plugin library jack; do echo "== $t"; sh /root/haloconv/packaging/debian/tests/$t || exit 1; done'
for suite in "${suites[@]}"; do
  for round in $(seq "$rounds"); do
    echo "$suite, round $round: $(git rev-parse --short HEAD), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg)"
    clone_make "$suite"
    for command in "${commands[@]}"; do
      case $command in
        demo) timed demo 'make demo' ;;
        test) timed test 'make test' ;;
        deb) clone_make "$suite" && timed deb "$deb" ;;
        change) timed change 'echo "/* changed */" >>dsp/device/plan.c && make && make QUIET=1 build/tests/plan_test &&
                              tests/run build/tests/plan_test' ;;
        ci) timed ci '.ci/run' ;;
        *) echo "fresh: no command $command" >&2; exit 2 ;;
      esac
    done
  done
done
printf '\n| suite | gcc | Python | NumPy | PipeWire | command | seconds | passed | failed | skipped |\n|%s\n%s' \
  '---|---|---|---|---|---|---|---|---|---|' "$rows"
skips() { grep -h '^skip ' "$roots/$1.1.test.log" 2>/dev/null | sort -u; } # SUITE
for suite in "${suites[@]}"; do
  for other in "${suites[@]}"; do
    only=$(comm -23 <(skips "$suite") <(skips "$other"))
    [ -z "$only" ] || printf '\nskipped on %s, not on %s:\n%s\n' "$suite" "$other" "$only"
  done
done
exit $failed
