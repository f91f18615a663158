# Sourced by the scripts of this folder, which set `name` first: messages, steps, missing tools, the cache and its locks.
# Results go to stdout, everything said to stderr. Exit status 1: failed; 3: a tool is missing that `packages install` may not bring.
# shellcheck shell=bash

set -Eeuo pipefail

support=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KEYFERRY_CACHE:-$HOME/.cache/keyferry}
step=start
missing=()

say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() { trap - ERR; say "$*"; exit 1; }
begin() { step=$1; say "$1"; }
trap 'die "failed while: $step"' ERR

# The libraries that a built result is bound to.
system_id() { (. /etc/os-release && printf '%s-%s-%s' "${ID:-unknown}" "${VERSION_ID:-${VERSION_CODENAME:-unknown}}" "$(uname -m)"); }

# need TOOL FIX: notes TOOL as missing unless it can be called; check_needs then ends the script, naming all of them at once.
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$1 (fix: $2)"); }
check_needs() {
  [ ${#missing[@]} -gt 0 ] || return 0
  trap - ERR
  local each
  for each in "${missing[@]}"; do say "missing: $each"; done
  exit 3
}

# lock FOLDER: makes the folder; one process at a time goes on, until the script ends. Children that outlive it must not inherit descriptor 9.
lock() {
  mkdir -p "$1"
  exec 9> "$1/.lock"
  flock 9
}

# choose_python LOW HIGH: an interpreter of these versions that can make a venv goes to $python (3.LOW to 3.HIGH; PYTHON overrides the search).
choose_python() {
  local candidate
  python=
  for candidate in ${PYTHON:-/usr/bin/python3 python3}; do
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit(not (3, $1) <= sys.version_info[:2] <= (3, $2))" 2>/dev/null; then
      python=$candidate
      return 0
    fi
  done
  missing+=("Python 3.$1 to 3.$2 with venv (fix: tests/support/packages install, or set PYTHON)")
}
