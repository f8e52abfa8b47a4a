#!/bin/sh
# Renews requirements/*.txt from pyproject.toml: versions with hashes, for every Python from 3.11 on. Versions that still fit stay as they
# are; with UPGRADE=1 everything moves to the newest that fits, with UPGRADE=name that package does.
set -eu
cd "$(dirname "$0")/.."
case ${UPGRADE:-} in
  '') upgrade= ;;
  1) upgrade=--upgrade ;;
  *) upgrade="--upgrade-package=$UPGRADE" ;;
esac
uv=.tools/bin/uv

lock() { # lock NAME SOURCE [OPTION...]
  name=$1 && shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' \
    $upgrade --output-file "requirements/$name.txt" "$@"
}

# The widest first; the others get the same versions.
lock dev pyproject.toml --extra dev
upgrade=
same="--constraint requirements/dev.txt"
for each in run:  bench:bench libvirt:libvirt docs:docs "image:operator --extra webhook --extra driver"; do
  extra=${each#*:}
  lock "${each%%:*}" pyproject.toml $same ${extra:+--extra $extra}
done
lock setup requirements/setup.in
lock tools requirements/tools.in --constraint requirements/setup.txt
