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
mkdir -p "$roots"
[ "$(id -u)" = 0 ] || { echo "fresh: a root needs root; sudo make fresh-test" >&2; exit 1; }

settings() { # of apt on this machine that belong to no package, such as a proxy
  local file
  for file in /etc/apt/apt.conf.d/*; do dpkg-query -S "$file" >/dev/null 2>&1 || echo "$file"; done
}
base_make() { # SUITE
  [ ! -f "$roots/$1.tar" ] || return 0
  command -v debootstrap >/dev/null || { echo "fresh: debootstrap is missing; install it first" >&2; exit 1; }
  rm -rf "$roots/base"
  debootstrap --variant=minbase --include=make,ca-certificates,git "$1" "$roots/base" ${MIRROR:+"$MIRROR"} \
    >"$roots/debootstrap.log" || { tail -n 3 "$roots/debootstrap.log" >&2; exit 1; }
  tar -C "$roots/base" -cf "$roots/$1.tar.part" . && mv "$roots/$1.tar.part" "$roots/$1.tar" && rm -rf "$roots/base"
}
root=$roots/root
root_remove() {
  local at
  for at in /usr/local/cuda /dev/shm /dev /proc ''; do
    while mountpoint -q "$root$at"; do umount -l "$root$at"; done
  done
  rm -rf --one-file-system "$root"
}
trap root_remove EXIT
root_make() { # SUITE: a new root with a clone of HEAD
  root_remove
  mkdir -p "$root"
  mount --bind "$root" "$root" # unshare(1) wants / to be a mount point
  tar -C "$root" -xf "$roots/$1.tar"
  cp -L /etc/resolv.conf "$root/etc/"
  # shellcheck disable=SC2046
  cp $(settings) "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts" # debootstrap leaves this to the installer
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm" # JACK servers of this machine would be seen otherwise
  if [ -x /usr/local/cuda/bin/nvcc ]; then
    mkdir -p "$root/usr/local/cuda"
    mount --bind -o ro "$(realpath /usr/local/cuda)" "$root/usr/local/cuda"
  fi
  git clone -q --depth 1 "file://$PWD" "$root/root/haloconv"
}
inside() { chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  LANG=C.UTF-8 CI="${CI:-}" bash -c "cd /root/haloconv && $1"; }
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
  base_make "$suite"
  for round in $(seq "$rounds"); do
    echo "$suite, round $round: $(git rev-parse --short HEAD), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg)"
    root_make "$suite"
    for command in "${commands[@]}"; do
      case $command in
        demo) timed demo 'make demo' ;;
        test) timed test 'make test' ;;
        deb) root_make "$suite" && timed deb "$deb" ;;
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
