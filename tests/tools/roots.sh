# shellcheck shell=bash disable=SC2154
# Fresh roots of Debian, for fresh.sh and packaging/release.sh. Both set `roots`, the folder that keeps base systems,
# and `root`, the folder of the one root that is in use, and call root_remove at their end.
[ "$(id -u)" = 0 ] || { echo "${0##*/}: a root of Debian needs the rights of root; use sudo" >&2; exit 1; }
mkdir -p "$roots"

settings() { # of apt on this machine that belong to no package, such as a proxy
  local file
  for file in /etc/apt/apt.conf.d/*; do dpkg-query -S "$file" >/dev/null 2>&1 || echo "$file"; done
}
base_make() { # SUITE
  [ ! -f "$roots/$1.tar" ] || return 0
  command -v debootstrap >/dev/null || { echo "${0##*/}: debootstrap is missing; install it first" >&2; exit 1; }
  rm -rf "$roots/base"
  debootstrap --variant=minbase --include=make,ca-certificates,git "$1" "$roots/base" ${MIRROR:+"$MIRROR"} \
    >"$roots/debootstrap.log" || { tail -n 3 "$roots/debootstrap.log" >&2; exit 1; }
  tar -C "$roots/base" -cf "$roots/$1.tar.part" . && mv "$roots/$1.tar.part" "$roots/$1.tar" && rm -rf "$roots/base"
}
root_remove() {
  local at
  for at in /usr/local/cuda /dev/shm /dev /proc ''; do
    while mountpoint -q "$root$at"; do umount -l "$root$at"; done
  done
  rm -rf --one-file-system "$root"
}
root_make() { # SUITE: a new root, with the CUDA toolkit of this machine read-only
  root_remove
  base_make "$1"
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
}
in_root() { # FOLDER COMMAND
  chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 CI="${CI:-}" bash -c "cd $1 && $2"
}
