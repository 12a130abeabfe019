# What each command of ./dev begins with: packages, wheels, a configured build folder. Sourced by ./dev; start reading at
# `setup`. Everything here may be interrupted at any time, and the next run mends what was left half done.
# shellcheck shell=bash disable=SC2154  # hint, command and host_alone are ./dev's

# What is needed, by what it is for: this is said before anything is installed.
needs=(
  'the library: g++ pkg-config python3 python3-venv zlib1g-dev libhwy-dev libfmt-dev libre2-dev libutf8proc-dev'
  'matrices: libopenblas-dev'
  'files: nlohmann-json3-dev libprotobuf-dev protobuf-compiler libpng-dev libzip-dev libcsv-dev libleveldb-dev
          libflatbuffers-dev flatbuffers-compiler liblz4-dev libzstd-dev'
  'audio: libsndfile1-dev'
  'many processes: libopenmpi-dev openmpi-bin'
  'pictures: libturbojpeg0-dev libgif-dev libwebp-dev'
  'the command rill, the demo: libcli11-dev'
  'tests and benchmarks: catch2 libmpfr-dev cmake libbenchmark-dev'
)
packages=()         # all of them
demo_packages=()    # those that the demo needs: a first run installs no more, and the next command the rest
for need in "${needs[@]}"; do
  read -ra these <<<"$(tr '\n' ' ' <<<"${need#*: }")"
  packages+=("${these[@]}")
  case $need in
    'the library:'* | 'files:'* | 'the command rill, the demo:'*) demo_packages+=("${these[@]}") ;;
  esac
done
unset need these

meson_wheels=(meson==1.12.1 ninja==1.13.2)
onednn_wheels=(onednn-devel-cpu-gomp==2023.2.0 onednn-cpu-gomp==2023.2.0)  # oneDNN 3.2 on GNU OpenMP, x86-64
clang_wheels=(clang-format==19.1.7 clang-tidy==19.1.0)                     # pinned: every machine formats alike
# What wheels are for, and how much is fetched, by the name of their stamp.
declare -A wheels_for=(
  [meson]='the build system, 2 MB' [onednn]='matrix products and convolutions, 39 MB'
  [clang]='formatting and linting, 40 MB' [formats]='programs that tests compare files with, 450 MB'
  [oracle]='libraries that tests compare results with, 3 GB' [cuda]="the CUDA Toolkit's compiler, 90 MB"
  [cudnn]='cuDNN and cuBLAS, 1 GB'
)
extra=()    # packages that one command needs, beside those of every build
root=()     # what runs a command as root: nothing, or sudo with what it must not forget
broken=     # what apt-get update complained of

# Those of the PACKAGEs that are not installed.
not_installed() {  # not_installed PACKAGE...
  comm -13 <(dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null | sed -n 's/ install ok installed$//p' | sort -u) \
    <(printf '%s\n' "$@" | sort -u)
}

# The LLVM that is installed, else the newest that the system offers, of 16 to 21; nothing where there is none.
llvm_package() {
  local installed offered
  installed=$(dpkg-query -W -f '${Package} ${Status}\n' 'llvm-*-dev' 2>/dev/null | grep 'ok installed' | usable_llvm || true)
  [ -n "$installed" ] || offered=$(apt-cache search --names-only '^llvm-[0-9]+-dev$' | usable_llvm || true)
  echo "${installed:-${offered:-}}"
}
usable_llvm() { sed -n 's/^\(llvm-\(1[6-9]\|2[01]\)-dev\) .*/\1/p' | sort -V | tail -1; }

# --- What went wrong, and what to do --------------------------------------------------------------------------------
# The end of a log, what is wrong as far as its words tell, and die.
failed() {  # failed LOG WHAT
  grep -v Retrying "$1" | tail -5 >&2
  if grep -qiE 'No space left on device|enough free space|Disk quota exceeded' "$1"; then
    hint="The disk is full ($(df -Ph . | awk 'END {print $4 " left on " $6}')); rill's set-up and build take 3 GB."
  elif grep -qiE 'Could not resolve|name resolution|failure resolving|Failed to establish|Connection (timed out|refused|reset)|unreachable|ProxyError|Cannot connect' "$1"; then
    hint="The network cannot be reached. A proxy is taken from http_proxy and https_proxy (now: ${https_proxy:-${http_proxy:-none}}), a mirror of
PyPI from PIP_INDEX_URL. What was fetched before is kept: run ./dev again when the network is back."
  fi
  die "$2 All that was said: $1"
}

# --- Debian's packages ----------------------------------------------------------------------------------------------
# apt-get as root. How far it is, is shown; all else that it says goes to .deps/apt.log.
apt_get() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -y -q -o APT::Status-Fd=1 -o DPkg::Lock::Timeout=120 "$@" \
    2>&1 </dev/null | show_apt
}

# The lines of APT::Status-Fd as one line that is redrawn in a terminal; in a log, a line now and then.
show_apt() {
  local line percent text width kind='' began=0 left said=$SECONDS live=''
  [ ! -t 2 ] || [ "${TERM:-dumb}" = dumb ] || live=1
  width=$(stty size 2>/dev/null <&2 | cut -d ' ' -f 2) || true
  [ "${width:-0}" -gt 0 ] || width=80
  while IFS= read -r line; do
    case $line in
      dlstatus:* | pmstatus:*)
        text=${line#*:*:} percent=${text%%[.:]*} text=${text#*:}
        [ "$kind" = "${line%%:*}" ] || { kind=${line%%:*}; began=$SECONDS; }
        left=
        if [ "$percent" -ge 5 ]; then
          left=$(((SECONDS - began) * (100 - percent) / percent))
          printf -v left '  %d:%02d left' $((left / 60)) $((left % 60))
        fi
        text="[$percent %] ${text/Retrieving/Fetching}$left"
        if [ -n "$live" ]; then printf '\r%s\033[K' "${text:0:width-1}" >&2
        elif [ $((SECONDS - said)) -ge 30 ]; then printf '%s\n' "$text" >&2; said=$SECONDS; fi ;;
      *) printf '%s\n' "$line" >>"$deps/apt.log" ;;
    esac
  done
  [ -z "$live" ] || printf '\r\033[K' >&2
}

# Sets `root`, or returns 1 where root is not to be had. sudo forgets proxies.
become_root() {
  local name
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; } || return 1
  root=(sudo env)
  for name in http_proxy https_proxy ftp_proxy no_proxy all_proxy; do
    [ -z "${!name:-}" ] || root+=("$name=${!name}")
  done
}

# Whether ./dev would install packages, without asking for a password.
may_install() {
  [ "${RILL_PACKAGES:-}" != keep ] && command -v dpkg-query >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
}

say_packages() {  # say_packages PACKAGE...: which are about to be installed, what for, how large
  local need p these size
  size=$("${root[@]}" env LC_ALL=C apt-get install --no-install-recommends --assume-no "$@" 2>/dev/null </dev/null |
         sed -nE 's/^Need to get (.*) of archives\./\1 to fetch/p; s/^After this operation, (.*) of additional.*/\1 on disk/p' | paste -sd, | sed 's/,/, /') || true
  say "Installing Debian packages${size:+: $size, with what they depend on}"
  for need in "${needs[@]}"; do
    these=
    for p in ${need#*: }; do [[ " $* " != *" $p "* ]] || these+=" $p"; done
    [ -z "$these" ] || printf '  %-27s%s\n' "${need%%:*}" "$these" >&2
  done
  for p in "$@"; do
    case $p in
      llvm-*) printf '  %-27s %s\n' 'compiling traced functions' "$p" >&2 ;;
      *) [[ " ${packages[*]} " == *" $p "* ]] || printf '  %-27s %s\n' "for ./dev ${command:-}" "$p" >&2 ;;
    esac
  done
}

# apt-get update. One list of many that cannot be had, of somebody else's archive, is no reason to give up.
update_lists() {
  apt_get update || broken=$(grep -E '^[EW]:' "$deps/apt.log" | sort -u | head -3 || true; echo '(all of it: .deps/apt.log)')
}

debian_packages() {
  local missing llvm look='' wanted=("${packages[@]}")
  [ "$command" != demo ] || wanted=("${demo_packages[@]}")
  if ! command -v dpkg-query >/dev/null; then other_system; return; fi
  llvm=$(llvm_package)
  mapfile -t missing < <(not_installed "${wanted[@]}" "${extra[@]}" ${llvm:+"$llvm"})
  # Where no LLVM is known, lists that are missing or old may be why: they are fetched, once a day.
  [ -n "$llvm" ] || [ -n "$(find "$deps/no-llvm.stamp" -mtime -1 2>/dev/null)" ] || look=1
  [ ${#missing[@]} -gt 0 ] || [ -n "$look" ] || return 0
  if [ "${RILL_PACKAGES:-}" = keep ] || ! become_root; then
    [ ${#missing[@]} -gt 0 ] || return 0  # what that turns off, the table of features says
    hint="These Debian packages are missing, and $(
      [ "${RILL_PACKAGES:-}" = keep ] && echo 'RILL_PACKAGES=keep installs none' || echo 'there is neither root nor sudo to install them'). Ask for:
  apt-get install ${missing[*]}"
    [ "${RILL_PACKAGES:-}" = keep ] || say "$hint
Going on without them."
    return
  fi
  : >"$deps/apt.log"
  say "Fetching the lists of Debian packages"
  update_lists
  if [ -n "$look" ]; then
    llvm=$(llvm_package)
    if [ -n "$llvm" ]; then missing+=("$llvm")
    elif [ -z "$broken" ]; then touch "$deps/no-llvm.stamp"; fi
  fi
  [ ${#missing[@]} -gt 0 ] || return 0
  say_packages "${missing[@]}"
  install_packages "${missing[@]}"
}

install_packages() {
  apt_get install --no-install-recommends "$@" && return
  if grep -q 'dpkg --configure -a' "$deps/apt.log"; then  # an install was interrupted
    "${root[@]}" dpkg --configure -a >>"$deps/apt.log" 2>&1 </dev/null || true
    apt_get install --no-install-recommends "$@" && return
  fi
  [ -z "$broken" ] || say "apt-get update had complained:
$broken"
  failed "$deps/apt.log" "apt-get could not install $*."
}

# Systems with other packages: docs/platforms.md has the command for two of them.
other_system() {
  local tool line
  for tool in dnf pacman; do
    line=$(sed -n "/^$tool /,/[^\\\\]\$/p" docs/platforms.md)
    if command -v $tool >/dev/null && [ -n "$line" ]; then
      hint="rill needs these packages, which ./dev installs on Debian and Ubuntu only. Run as root:
$line"
      return
    fi
  done
  hint="This is not Debian or Ubuntu. rill needs what these Debian packages hold: ${packages[*]}"
}

# --- The compiler ---------------------------------------------------------------------------------------------------
# CXX may be several words ("ccache g++"). Unset, it is the one that the build folder was configured with.
choose_compiler() {
  local kept name
  [ -n "${CXX:-}" ] || ! kept=$(kept CXX) || ! command -v "${kept%% *}" >/dev/null || export CXX=$kept
  if [ -z "${CXX:-}" ] && compiler_is_old; then  # Ubuntu 22.04's g++ is, and it has a newer one beside
    for name in g++-1{5,4,3,2} clang++-{21,20,19,18,17,16}; do
      ! command -v "$name" >/dev/null || { export CXX=$name; return; }
    done
    [ "${RILL_PACKAGES:-}" = keep ] || ! command -v apt-get >/dev/null || ! become_root ||
      apt_get install --no-install-recommends g++-12 || true
    ! command -v g++-12 >/dev/null || export CXX=g++-12
  fi
  read -ra cxx <<<"${CXX:-c++}"
  for name in "${cxx[@]::2}"; do
    [[ $name == -* ]] || command -v "$name" >/dev/null ||
      die "a C++20 compiler is missing: there is no $name (g++ >= 12 or clang >= 16: apt-get install g++, or set CXX)"
  done
  ! compiler_is_old ||
    die "$("${cxx[@]}" --version | head -1) is too old: rill needs g++ 12 or clang 16. Install one (apt-get install g++-12) and set CXX=g++-12"
}
compiler_is_old() {
  local words
  read -ra words <<<"${CXX:-c++}"
  "${words[@]}" -E -dM -x c++ - </dev/null 2>/dev/null | awk '
    $2 == "__GNUC__" {gcc = $3} $2 == "__clang_major__" {clang = $3}
    END {exit !(clang ? clang < 16 : gcc && gcc < 12)}'
}

# --- Wheels ---------------------------------------------------------------------------------------------------------
# Puts wheels into the virtual environment, unless the file STAMP says that these very ones are there. Returns 1 where there
# was nothing to do.
wheels() {  # wheels STAMP [--prefix DIR] WHEEL...
  local name=${1%.stamp} stamp=$deps/$1 log=$deps/pip-${1%.stamp}.log place=$venv what python; shift
  [ "$1" != --prefix ] || place=$2
  what=$(grep -o '[^ ]*==[^ ]*' <<<"$*" | paste -sd ' ')
  # Where the system has replaced Python by a newer one, that does not see what was installed for the older.
  python=$("$venv/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
  [ ! -e "$venv" ] || [ -d "$venv/lib/$python" ] || forget "$venv" "$stamp"
  ! { [ "$(cat "$stamp" 2>/dev/null)" = "$what" ] && [ -d "$place" ]; } || return 1
  # Half of an install, and another version below a prefix, are removed rather than completed.
  { [ ! -e "$stamp.begun" ] && [ "$place" = "$venv" ]; } || forget "$place" "$stamp"
  touch "$stamp.begun"
  : >"$log"
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || {
    rm -rf "$venv"
    python3 -m venv "$venv" >"$log" 2>&1
  } || failed "$log" "python3 cannot make a virtual environment (apt-get install python3-venv gives it that)."
  say "Fetching from PyPI into .deps: $what${wheels_for[$name]:+ (${wheels_for[$name]})}"
  python3 packaging/dev/progress.py pip "$log" "$venv/bin/python" "$@" || {
    rm -f "$stamp.begun"  # pip has undone what it began; what else is in the environment stays
    failed "$log" "pip could not fetch $what."
  }
  echo "$what" >"$stamp"
  rm -f "$stamp.begun"
}
forget() {  # forget FOLDER STAMP
  rm -rf "$1" "$2"
  [ "$1" != "$deps/venv" ] || rm -f "$deps"/{meson,clang}.stamp
}

# An environment of wheels, .deps/NAME: whether it is there. It is fetched where it is not, and what needs it is skipped
# where it cannot be.
environment() (  # environment NAME WHEEL...
  venv=$deps/$1
  alone "$1"
  wheels "$1.stamp" "${@:2}" || [ -e "$deps/$1.stamp" ]
)

system_has_onednn() {
  local v
  v=$(echo '#include <dnnl_version.h>' | "${cxx[@]}" -E -dM -x c++ - 2>/dev/null |
      awk '/DNNL_VERSION_MAJOR/ {a = $3} /DNNL_VERSION_MINOR/ {b = $3} END {print a "." b}')
  at_least 3.2 "$v"
}

meson_and_ninja() {
  if ! { at_least 1.3 "$(meson --version 2>/dev/null)" && command -v ninja >/dev/null; }; then
    wheels meson.stamp "${meson_wheels[@]}" || true
    export PATH=$venv/bin:$PATH
  fi
}

# --- One at a time --------------------------------------------------------------------------------------------------
# Waits until no other ./dev of this checkout holds WHAT (the set-up, or a build folder), and holds it until this one ends
# or asks for something else.
alone() {  # alone WHAT
  local file=$deps/${1//\//_}.lock
  mkdir -p "$deps"
  let_others
  exec {holds}>>"$file"
  flock -n "$holds" || {
    say "Waiting for $(cat "$file"), which is at work here"
    flock "$holds"
  }
  echo "./dev ${command:-} (process $$, since $(date +%H:%M))" >"$file"
}
let_others() { [ -z "${holds:-}" ] || { exec {holds}>&-; holds=; }; }

# --- Configuring ----------------------------------------------------------------------------------------------------
setup() {
  may_write
  alone setup
  mend_moved
  debian_packages
  command -v python3 >/dev/null || die "python3 is missing"
  keep_settings
  choose_compiler
  meson_and_ninja
  if [ "$(uname -m)" = x86_64 ] && ! [[ " ${RILL_MESON_ARGS:-} " == *" -Donednn"* ]] && ! system_has_onednn; then
    if wheels onednn.stamp --prefix "$deps/onednn" --no-deps --ignore-installed "${onednn_wheels[@]}"; then
      ln -sf libdnnl.so.3.2 "$deps/onednn/lib/libdnnl.so.3"  # the wheel holds the same 54 MB three times
      ln -sf libdnnl.so.3 "$deps/onednn/lib/libdnnl.so"
    fi
  fi
  alone "$build"
  configure
  if [ "$command" = demo ] && may_install && [ -n "$(not_installed "${packages[@]}")" ]; then
    say "What is off is not needed here; ./dev build, test and bench install it."
  else
    off_features | sed 's/^/off: /' >&2
  fi
}

may_write() {
  local folder
  mkdir -p "$deps" 2>/dev/null || true
  for folder in "$deps" "$build"; do
    if [ -e "$folder" ] || [ "$folder" = "$deps" ]; then
      [ -w "$folder" ] || die "$folder cannot be written to: ./dev keeps there what it fetches and builds. Work in a copy:
  cp -r '$PWD' ~/rill"
    fi
  done
}

# A checkout that was moved: the scripts that pip made hold its old path. The new one may have a space in it, which the
# first line of a script cannot; so the shell looks there for Python.
mend_moved() {
  local before file text
  before=$(cat "$deps/path.stamp" 2>/dev/null || true)
  if [ -n "$before" ] && [ "$before" != "$PWD" ]; then
    say "This checkout was at $before: mending the paths in .deps/"
    grep -lIF "$before/.deps" "$deps"/*/bin/* 2>/dev/null | while IFS= read -r file; do
      text=$(<"$file")
      if [[ $text == "#!$before/.deps/"* ]]; then
        text="#!/bin/sh
'''exec' \"${file%/*}/python\" \"\$0\" \"\$@\"
' '''
${text#*$'\n'}"
      fi
      printf '%s\n' "${text//"$before/.deps"/"$deps"}" >"$file"
    done || true
  fi
  [ "$before" = "$PWD" ] || echo "$PWD" >"$deps/path.stamp"
}

# What configuring would find: where this changes, it has to look again.
found() {
  "${cxx[@]}" --version | head -1
  cat "$deps/onednn.stamp" 2>/dev/null || true
  [ ! -x "$(command -v dpkg-query)" ] || dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' \
    "${packages[@]}" 'llvm-*-dev' 'libdnnl-dev' 2>/dev/null | grep ' installed$' || true
  compgen -c llvm-config | sort -u
}

# What Meson reads of the environment when a build folder is new, and what it is told at each time.
read_once=(CXX CXXFLAGS CPPFLAGS LDFLAGS PKG_CONFIG_PATH)
asked() {
  local name
  for name in "$@"; do
    [ -z "${!name:-}" ] || echo "$name=${!name}"
  done
}

# What the build folder was configured with.
kept() {
  sed -n "s/^$1=//p" "$build/args.stamp" 2>/dev/null | grep .
}

# Who sets one of them once need not do so each time: only what is set anew, or to nothing, changes a build folder.
keep_settings() {
  local name value
  for name in RILL_MESON_ARGS "${read_once[@]:1}"; do
    [ -n "${!name+set}" ] || ! value=$(kept "$name") || export "$name=$value"
  done
}

# Whether the build folder has to be made anew. Options (-Dname=value) may change without.
is_another_build() {
  local rest
  [ "$(grep -v '^RILL_MESON_ARGS=' "$build/args.stamp" 2>/dev/null)" = "$(asked "${read_once[@]}")" ] || return 0
  [ "$(cat "$build/path.stamp" 2>/dev/null || echo "$PWD")" = "$PWD" ] || return 0
  rest=$(printf '%s\n' ${RILL_MESON_ARGS:-} | grep -v '^-D')
  [ -n "$rest" ] && [ "$(kept RILL_MESON_ARGS)" != "${RILL_MESON_ARGS:-}" ]
}

configure() {
  local how=() found asked vectors=all
  found=$(found) asked=$(asked RILL_MESON_ARGS "${read_once[@]}")
  # A first build, for the demo or the fast tests, has vector code for this machine alone; other commands compile the rest.
  [ -z "$host_alone" ] || vectors=$(cat "$build/vectors.stamp" 2>/dev/null || echo host)
  if [ -e "$build/build.ninja" ]; then
    if is_another_build; then how=(--wipe)
    elif [ "$(cat "$build/args.stamp" 2>/dev/null)" != "$asked" ]; then how=(--reconfigure)
    elif [ "$(cat "$build/found.stamp" 2>/dev/null)" != "$found" ]; then how=(--reconfigure --clearcache)
    elif [ "$(cat "$build/vectors.stamp" 2>/dev/null)" != "$vectors" ]; then how=(--reconfigure)
    else regenerate; return; fi
  elif [ -e "$build/meson-private/coredata.dat" ]; then how=(--wipe)
  fi
  meson --version >/dev/null 2>&1 || { forget "$venv" "$deps/meson.stamp"; meson_and_ninja; }
  say "Configuring $build/ with ${CXX:-c++}"
  # shellcheck disable=SC2086
  meson setup "${how[@]}" -Dvectors=$vectors "$build" ${RILL_MESON_ARGS:-} >"$deps/configure.log" 2>&1 || {
    [ -n "$hint" ] || hint=$(configure_hint)
    failed "$deps/configure.log" "configuring failed; the lines above say why."
  }
  features_of_log | tee "$build/features.txt" >&2
  echo "$asked" >"$build/args.stamp"
  echo "$found" >"$build/found.stamp"
  echo "$vectors" >"$build/vectors.stamp"
  echo "$PWD" >"$build/path.stamp"
}

# Where a meson.build changed, as by `git pull`: the lists of targets and of tests are read next.
regenerate() {
  ninja -C "$build" build.ninja >"$deps/configure.log" 2>&1 ||
    failed "$deps/configure.log" "configuring failed; the lines above say why."
  ! grep -q '^rill [0-9]' "$deps/configure.log" || features_of_log >"$build/features.txt"
}

features_of_log() { sed -n '/^rill [0-9]/,/^Found ninja/{/^Found ninja/d;p}' "$deps/configure.log"; }

# What to do about what Meson said, where that is not plain.
configure_hint() {
  if grep -q 'libhwy.*\(Invalid version\|not found\)' "$deps/configure.log"; then
    echo "Highway 1.0 or newer is needed, which this system does not have. Build it from its sources into a folder of yours
(cmake -DHWY_ENABLE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=DIR), and set PKG_CONFIG_PATH=DIR/lib/pkgconfig"
  elif grep -q 'Dependency "openmp" not found' "$deps/configure.log"; then
    echo "clang's OpenMP is a package of its own, of clang's version: apt-get install libomp-19-dev
Without it rill has threads of its own: RILL_MESON_ARGS=-Dthreads=std"
  fi
}

# The features that are off without anybody having asked for that, each with the command that turns it on.
off_features() { sed -n 's/^ *\([^:]*[^ :]\) *: off  /\1: /p' "$build/features.txt" | grep -vE 'ask(ed|s) for|turned off' || true; }
