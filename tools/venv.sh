#!/bin/sh
# Makes the virtual environment .venv with a Python >= 3.11 and installs this project in it, with the locked versions (by hash) of
# requirements/NAME.txt for each given name (dev, bench; none: run). Does nothing when these files have not changed since the last time.
# VENV= names another folder; tools (make lock, audit, release) have one of their own, .tools, without the project.
set -eu
names=${1:-run}
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
[ "$names" != tools ] || venv=.tools
stamp=$venv/.ready-$names
newest=$(ls -t pyproject.toml tools/venv.sh requirements/*.txt | head -n 1)
[ "$stamp" -nt "$newest" ] && exit 0

if [ ! -x "$venv/bin/python" ]; then
  python=
  for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
  done
  [ -n "$python" ] || { echo "setup: no Python >= 3.11 found; install one or say PYTHON=/path/to/python3" >&2; exit 1; }
  echo "setup: creating $venv with $("$python" --version)"
  if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Debian splits venv off the interpreter. No version is named, since only one fits: python3.X-venv depends on the version of python3.X
    # that it was built with, and an archive keeps its newest only. What apt installs is signed by the archive whose interpreter runs here.
    rm -rf "$venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      { apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv; } >/dev/null 2>&1
    fi
    "$python" -m venv "$venv" || { echo "setup: 'python -m venv' does not work; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
  fi
fi
echo "setup: installing ${names} into $venv"
# By its real path, which pip writes into the scripts that it installs: the folder may be a link to that of another folder.
pip() { PYTHONWARNINGS=ignore "$(cd "$venv/bin" && pwd -P)/python" -m pip --quiet --disable-pip-version-check install "$@"; }
# First and alone: what follows is read by the pip that it brings. The pip that does this is the interpreter's: ensurepip unpacks the wheel that
# comes with it, and takes nothing from anywhere. So it has no hash but the interpreter's own; it sees only requirements with hashes.
pip --require-hashes --requirement requirements/setup.txt
pip --require-hashes $(echo "$names" | sed 's/[^,]*/--requirement requirements\/&.txt/g; s/,/ /g')
# The project itself: with the setuptools of setup.txt, and nothing from anywhere.
if [ "$names" != tools ]; then
  pip --no-index --no-deps --no-build-isolation --editable .
  # As pip does for packages: where PYTHONDONTWRITEBYTECODE is set, each command would compile all again, which takes it 0.3 s.
  "$venv/bin/python" -m compileall -q virt_dra webhooks launcher node_driver
fi
touch "$stamp"
