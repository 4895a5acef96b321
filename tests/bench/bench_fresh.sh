#!/usr/bin/env bash
# Times the first commands of a new user in fresh Debian roots: `make demo`, `make test`, one changed file, `.ci/run`.
#
#   sudo tests/bench/bench_fresh.sh [ROUNDS [COMMAND...]]     default: 2 demo test change ci
#
# Each round unpacks a new root, which holds only Debian's base system, make and a clone of HEAD. The CUDA toolkit of this
# machine, if it has one, is mounted there read-only. It needs root and debootstrap; ROOTS (/var/tmp/haloconv-fresh) keeps
# the base system for the next call and each command's output.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-2}
[[ $rounds =~ ^[0-9]+$ ]] || { echo "bench_fresh: $rounds is not a number of rounds" >&2; exit 2; }
commands=("${@:2}")
[ ${#commands[@]} -gt 0 ] || commands=(demo test change ci)
roots=${ROOTS:-/var/tmp/haloconv-fresh}
base=$roots/base.tar root=$roots/root
mkdir -p "$roots"
if [ ! -f "$base" ]; then
  command -v debootstrap >/dev/null || { echo "bench_fresh: install debootstrap first" >&2; exit 1; }
  rm -rf "$roots/base"
  debootstrap --variant=minbase --include=make,ca-certificates,git bookworm "$roots/base" >"$roots/debootstrap.log"
  tar -C "$roots/base" -cf "$base.part" . && mv "$base.part" "$base" && rm -rf "$roots/base"
fi

root_remove() {
  local at
  for at in usr/local/cuda dev/shm dev proc; do
    while mountpoint -q "$root/$at"; do umount -l "$root/$at"; done
  done
  rm -rf --one-file-system "$root"
}
trap root_remove EXIT
root_make() { # a new root with a clone of HEAD
  root_remove
  mkdir -p "$root"
  tar -C "$root" -xf "$base"
  cp -L /etc/resolv.conf "$root/etc/"
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
timed() { # NAME COMMAND: seconds, and the last line of its output
  local log=$roots/round$round.$1.log start=$EPOCHREALTIME status=0
  inside "$2" >"$log" 2>&1 </dev/null || status=$?
  awk -v a="$start" -v b="$EPOCHREALTIME" -v name="$1" -v status=$status -v last="$(tail -n 1 "$log" | cut -c1-70)" \
    'BEGIN { printf "%-8s %6.1f s   exit %d   %s\n", name, b - a, status, last }'
}
for round in $(seq "$rounds"); do
  echo "round $round: $(git rev-parse --short HEAD), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg)"
  root_make
  for command in "${commands[@]}"; do
    case $command in
      demo) timed demo 'make demo' ;;
      test) timed test 'make test' ;;
      change) timed change 'echo "/* changed */" >>dsp/device/plan.c && make && make QUIET=1 build/tests/plan_test &&
                            tests/run build/tests/plan_test' ;;
      ci) timed ci '.ci/run' ;;
      *) echo "bench_fresh: no command $command" >&2; exit 2 ;;
    esac
  done
done
