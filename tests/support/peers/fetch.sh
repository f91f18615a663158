# Sourced after common.sh by the scripts of this folder: downloads from the Python package index, each checked against its recorded SHA-256.
# shellcheck shell=bash

glide_version=2.6.0
downloads=$cache/downloads
sums='
393c4718cc3818a7859096422f96c3f91645cb10a0e3309111ed7133f607b0d2 valkey_glide_sync-2.6.0.tar.gz
067f6d3145a5dd44182712fbfaf42c66a17df46a8228479c9f5c5a003392535a valkey_glide_sync-2.6.0-cp39-cp39-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
16fbd461f9e71861cf4316c268b4bf56dd2c115d4a8f84f91faffdffa9a78e0e valkey_glide_sync-2.6.0-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
854fcb8241364ce21943f250db43ccec6d1b25a0f04bf739044bfcc9e9bf366c valkey_glide_sync-2.6.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
72a6378a8e8aaedc987a2da193f352948b148036745962346a6bff823a4d7654 valkey_glide_sync-2.6.0-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
61fee2cbb773317b9d2b552d0deb861de5dc8feae8a0d640128d7fbb4d365444 valkey_glide_sync-2.6.0-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
437df7514c6ba1bcd67f869c44f50f09d18928ea1f8546c642c62de83c8091c3 valkey_glide_sync-2.6.0-cp314-cp314-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4 mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl
774cf3f9fc0edd82cfbee15e1610c36f94f2b8d1410115d7bab7ca5cd7764003 libfabric.so.1
'

need_fetch() {
  [ "$(uname -sm)" = 'Linux x86_64' ] || missing+=("a Linux x86_64 machine (fix: none, the wheels are made for that only; this is $(uname -sm))")
  choose_python 9 14
}

check_sum() {  # FILE: true if it is there with the recorded SHA-256
  local sum
  sum=$(awk -v file="${1##*/}" '$2 == file { print $1 }' <<< "$sums")
  [ -n "$sum" ] || die "no SHA-256 is recorded for ${1##*/}. Fix: add it to $support/peers/fetch.sh"
  [ -f "$1" ] && sha256sum --check --status <<< "$sum  $1"
}

fetch() {  # PATTERN PIP_ARGUMENT...: downloads unless a matching file is there; its path goes to $fetched
  local pattern=$1 pip=$cache/downloads/venv/bin/python
  shift
  exec 8> "$downloads/.lock"  # two peers may be made at once
  flock 8
  fetched=$(compgen -G "$downloads/$pattern" | head -n 1 || true)
  if [ -z "$fetched" ] || ! check_sum "$fetched"; then
    begin "fetching ${!#}"
    [ -z "$fetched" ] || rm -f "$fetched"
    # setuptools and wheel: pip asks a source package for its metadata before it keeps it.
    "$pip" -c 'import setuptools, wheel' 2>/dev/null || {
      "$python" -m venv --clear "$downloads/venv"
      "$pip" -m pip install --quiet --disable-pip-version-check setuptools==84.2.1 wheel==0.48.0 >&2
    }
    "$pip" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$downloads" "$@" >&2
    fetched=$(compgen -G "$downloads/$pattern" | head -n 1 || true)
    [ -n "$fetched" ] || die "the package index gave no file that matches $pattern"
    check_sum "$fetched" || die "SHA-256 of ${fetched##*/} is not the recorded one; the file is left at $fetched"
  fi
  exec 8>&-
}
fetch_sdist() { mkdir -p "$downloads"; fetch 'valkey_glide_sync-*.tar.gz' --no-build-isolation --no-binary valkey-glide-sync "$1"; }
fetch_wheel() { mkdir -p "$downloads"; fetch "$1" --only-binary :all: "$2"; }
