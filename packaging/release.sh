#!/usr/bin/env bash
# The files of a release of HEAD, in build/release: `make release` and `make release-test`, as root with debootstrap.
#
#   packaging/release.sh build            the files, SHA256SUMS, the bill of materials and the notes
#   packaging/release.sh test [KIND...]   installs each in an empty root, and makes a sound: deb wheel plugins source
#   packaging/release.sh pack KIND FOLDER what runs in a root: makes deb, or native (wheels and plugins), into FOLDER
#
# A root of Debian 12 compiles wheels and plugins, so that older C libraries run them; another one cross-compiles for
# 64-bit ARM. Each file is made twice, in folders of unlike names and depths; a byte that differs is a failure. (nvcc names
# symbols after the folder: what it compiles is made twice in one.) Packages of Debian are made for each of SUITES
# (bookworm trixie; the first compiles the rest), and each file is tried in roots of both. WITHOUT="arm64 cuda": a release
# without these. JOBS: processes of make. CUDA_ARCHS (all): kinds of GPU. ROOTS, MIRROR: as in tests/tools/fresh.sh.
# Exit: 0 only if nothing is missing, and everything plays.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define HC_VERSION "\(.*\)"/\1/p' dsp/haloconv.h)
name=haloconv-$version
jobs=${JOBS:-$(nproc)}
BUILD=${BUILD:-build}

# ---- in a root -------------------------------------------------------------------------------------------------------
pack() { # KIND FOLDER; TARGET: amd64 or arm64
  local suffix cross=() flags=(-b)
  suffix=deb$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release)u1
  mkdir -p "$2"
  case $1 in
    deb)
      [ "${TARGET:?}" = amd64 ] || flags=(-B -aarm64)
      cp -r packaging/debian debian
      sed -i "1s/)/~$suffix)/" debian/changelog
      DEB_BUILD_OPTIONS="nocheck parallel=$jobs" DEB_BUILD_PROFILES="nocheck $([ "$TARGET" = amd64 ] || echo cross)" \
        dpkg-buildpackage -us -uc "${flags[@]}"
      rm -f ../*-dbgsym_*
      cp ../*.deb "$2/"
      ;;
    native) # without -g and symbols: they name the folder or nvcc's process, and decide the build-id
      [ "$TARGET" = amd64 ] || cross=(CC=aarch64-linux-gnu-gcc)
      if [ -z "${GPUS:-}" ]; then cross+=(WITH_CUDA=0); else cross+=(WITH_CUDA=1 "CUDA_ARCHS=$GPUS"); fi
      # shellcheck disable=SC2016 # make and the loader expand it
      make -j"$jobs" QUIET=1 OPT=-O3 "${cross[@]}" LDFLAGS="'-Wl,-s,--disable-new-dtags,-rpath,\$\$ORIGIN/libs'" \
        LV2_FOLDER=/lv2 CLAP_FOLDER=/clap VST3_FOLDER=/vst3 DESTDIR="$PWD/installed" WHEEL_FOLDER="$2" all wheel install
      CC=$([ "$TARGET" = amd64 ] && echo gcc || echo aarch64-linux-gnu-gcc) \
        python3 packaging/release.py plugins installed "$2"
      ;;
  esac
}
if [ "${1:-}" = pack ]; then pack "$2" "$3"; exit; fi

# ---- build -----------------------------------------------------------------------------------------------------------
read -ra suites <<<"${SUITES:-bookworm trixie}"
roots=${ROOTS:-/var/tmp/haloconv-fresh}
root=$roots/release
out=$PWD/build/release
logs=$PWD/build/release-logs
epoch=$(git log -1 --format=%ct HEAD)
failed=0
# shellcheck source=tests/tools/roots.sh
. tests/tools/roots.sh
trap root_remove EXIT
mkdir -p "$logs"
say() { printf '%s release: %s\n' "$(date +%T)" "$*"; }
left_out() { [[ " ${WITHOUT:-} " == *" $1 "* ]]; }
missing() { # PART REASON
  say "$1 is missing: $2; or leave it out: WITHOUT=$1"
  failed=1
}
archive() { git archive --format=tar --prefix="$name/" HEAD | gzip -9n; }
run() { # FOLDER COMMAND; the output is in $log
  in_root "$1" "export DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH=$epoch JOBS=$jobs $2" >>"$log" 2>&1 </dev/null
}
root_for() { # SUITE ARCHITECTURE: a root with the packages that the build of Debian's packages names
  root_make "$1"
  mkdir -p "$root/root/source"
  tar -C "$root/root/source" --strip-components=1 -xf "$out/$name.tar.gz"
  cp -r "$root/root/source/packaging/debian" "$root/root/source/debian"
  local install="apt-get install -y -q --no-install-recommends"
  local needs="apt-get build-dep -y -q --no-install-recommends"
  if [ "$2" = amd64 ]; then
    run /root/source "; apt-get update -q && $install build-essential && $needs -P nocheck ./"
  else
    run /root/source "; dpkg --add-architecture arm64 && apt-get update -q && $install build-essential \
      crossbuild-essential-arm64 && $needs -a arm64 -P nocheck,cross ./"
  fi
}
twice() { # KIND VARIABLES: in two folders of the root; in one, one after the other, where nvcc names symbols after the path
  local folder files
  for files in /root/one /root/two; do
    folder=/root/a
    [[ $files = /root/one || $1$gpus = native?* ]] || folder=/root/another/folder/of/builds
    rm -rf "${root:?}$folder"
    mkdir -p "$root$folder"
    tar -C "$root$folder" -xf "$out/$name.tar.gz"
    run "$folder/$name" "$2; packaging/release.sh pack $1 $files" || { tail -n 20 "$log"; return 1; }
  done
}
collect() { # the files of the root; those of both folders must be the same
  local file
  for file in "$root"/root/one/*; do
    [ -f "$file" ] || continue
    cmp "$file" "$root/root/two/${file##*/}" || { say "${file##*/}: two builds differ"; failed=1; }
    cp "$file" "$out/"
    say "${file##*/}: $(stat -c %s "$file") bytes"
  done
}
build() {
  local suite target log gpus
  rm -rf "$out"
  mkdir -p "$out"
  archive >"$out/$name.tar.gz"
  archive | cmp - "$out/$name.tar.gz"
  for target in amd64 arm64; do
    left_out $target && continue
    for suite in "${suites[@]}"; do
      log=$logs/$suite-$target.log
      : >"$log"
      say "Debian's $suite for $target"
      root_for "$suite" $target ||
        { missing $target "apt must have the $target packages of $suite; $log has what it said"; continue; }
      if [ "$suite" = "${suites[0]}" ]; then
        gpus=""
        if [ $target = amd64 ] && ! left_out cuda; then
          if [ -x "$root/usr/local/cuda/bin/nvcc" ]; then gpus=${CUDA_ARCHS:-all}
          else missing cuda "the wheel of the GPU module needs NVIDIA's CUDA Toolkit in /usr/local/cuda"; fi
        fi
        twice native "TARGET=$target GPUS='$gpus'" || missing $target "$log says why"
      fi
      twice deb "TARGET=$target" || missing $target "$log says why"
      collect
    done
  done
  /usr/bin/python3 packaging/release.py finish "$out" "$epoch"
  ls -l "$out"
}

# ---- test ------------------------------------------------------------------------------------------------------------
# Each line below is one step that a person types. The root has Debian's base system, the files of the release in /root,
# and voice.wav, the person's own sound; wet.wav is the first sound. `install` stands for its line of apt-get.
rows=""
trial() { # KIND SUITE ARCHITECTURE: the steps come on the standard input
  local log=$logs/test-$2-$1-$3.log steps status=0 start seconds
  root_make "$2"
  cp "$out"/* "$root/root/"
  cp "$BUILD/impulses/drums.wav" "$root/root/voice.wav"
  [ -z "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$root/root/pip.pem" # of a proxy, as the settings of apt
  steps=$(cat)
  : >"$log"
  [ "$3" = amd64 ] || run /root "; dpkg --add-architecture arm64; apt-get update -q; apt-get install -y -q \
    --no-install-recommends qemu-user zlib1g:arm64" || status=$?
  start=$EPOCHREALTIME
  run /root "${PIP_CERT:+PIP_CERT=/root/pip.pem}; install() { apt-get install -y -q --no-install-recommends \"\$@\"; }
    set -ex; $steps" || status=$?
  seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }')
  [ $status != 0 ] || /usr/bin/python3 packaging/release.py heard "$root/root/wet.wav" "$logs/wanted.wav" || status=1
  [ $status = 0 ] || { failed=1; say "$1 on $2 ($3) ended with status $status; the end of $log:"; tail -n 8 "$log"; }
  rows+="| $1 | $2 | $3 | $(wc -l <<<"$steps") | $seconds | $([ $status = 0 ] && echo plays || echo FAILS) |"$'\n'
}
try_all() { # KIND SUITE
  local number platform
  platform=$(basename "$out"/haloconv-"$version"-*_aarch64.whl .whl | sed 's/.*-//')
  number=$(tar -xOf "$roots/$2.tar" ./usr/lib/os-release | sed -n 's/^VERSION_ID="\(.*\)"/\1/p')
  case $1 in
    deb)
      trial deb "$2" amd64 <<END
apt-get update -q
install ./libhaloconv1_*~deb${number}u1_amd64.deb ./haloconv_*~deb${number}u1_amd64.deb
haloconv convolve voice.wav hall -o wet.wav
END
      left_out arm64 || trial deb "$2" arm64 <<END
apt-get update -q
install ./libhaloconv1_*~deb${number}u1_arm64.deb ./haloconv_*~deb${number}u1_arm64.deb
qemu-aarch64 /usr/bin/haloconv convolve voice.wav hall -o wet.wav
END
      ;;
    wheel)
      trial wheel "$2" amd64 <<END
apt-get update -q
install python3-venv
python3 -m venv env
env/bin/pip install haloconv-$version-*_x86_64.whl haloconv_adapters-*.whl
env/bin/python -m haloconv.ray --help
env/bin/haloconv convolve voice.wav hall -o wet.wav
END
      left_out arm64 || trial wheel "$2" arm64 <<END
apt-get update -q
install python3-pip
pip install --no-deps --only-binary :all: --target env --platform $platform haloconv-$version-*_aarch64.whl
qemu-aarch64 env/haloconv/haloconv convolve voice.wav hall -o wet.wav
END
      left_out cuda || trial cuda "$2" amd64 <<END
apt-get update -q
install python3-venv
python3 -m venv env
env/bin/pip install haloconv-$version-*_x86_64.whl haloconv_cuda-$version-*.whl
env/bin/haloconv devices | grep -i 'nvidia\|cuda'
env/bin/haloconv convolve voice.wav hall -o wet.wav
END
      ;;
    plugins)
      trial plugins "$2" amd64 <<END
apt-get update -q
install lilv-utils xz-utils libcairo2 libx11-6 python3
tar -xf haloconv-plugins-$version-x86_64.tar.xz
cd haloconv-plugins-$version-x86_64
mkdir -p ~/.lv2 ~/.clap ~/.vst3
cp -r lv2/* ~/.lv2; cp -r clap/* ~/.clap; cp -r vst3/* ~/.vst3
lv2apply -i ~/voice.wav -o ~/wet.wav -c wet 0 -c backend 1 urn:haloconv:lv2:stereo
python3 -c 'import ctypes, sys; [ctypes.CDLL(path, 2) for path in sys.argv[1:]]' \
~/.clap/haloconv/haloconv.clap ~/.vst3/haloconv.vst3/Contents/*/haloconv.so
END
      ;;
    source)
      trial source "$2" amd64 <<END
apt-get update -q
tar -xf haloconv-$version.tar.gz
make -C haloconv-$version demo
cp haloconv-$version/demo.wav wet.wav
END
      ;;
    *) echo "release: no kind $1; deb, wheel, plugins or source" >&2; exit 2 ;;
  esac
}
tests() { # KIND...
  local suite kind
  [ -f "$out/SHA256SUMS" ] || { echo "release: $out has no release; make release" >&2; exit 1; }
  (cd "$out" && sha256sum --quiet -c SHA256SUMS)
  "$BUILD/haloconv" convolve -q "$BUILD/impulses/drums.wav" "$BUILD/impulses/hall.wav" -o "$logs/wanted.wav"
  for suite in "${suites[@]}"; do
    base_make "$suite"
    for kind in "$@"; do try_all "$kind" "$suite"; done
  done
  printf '\n| file | root | architecture | steps | seconds | |\n|%s\n%s' '---|---|---|---|---|---|' "$rows"
}
case ${1:-} in
  build) build ;;
  test) shift; [ $# -gt 0 ] || set -- deb wheel plugins source; tests "$@" ;;
  *) echo "release: build or test" >&2; exit 2 ;;
esac
[ $failed = 0 ] || { echo "release: not all is well; the lines above say why" >&2; exit 1; }
