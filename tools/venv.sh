#!/bin/sh
# Makes the virtual environment .venv with a Python >= 3.11 and installs this project with the given extras (e.g. "dev").
# Does nothing when pyproject.toml has not changed since the last time.
set -eu
extras=${1:-}
cd "$(dirname "$0")/.."
stamp=.venv/.ready-${extras:-run}
[ "$stamp" -nt pyproject.toml ] && exit 0

if [ ! -x .venv/bin/python ]; then
  python=
  for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
  done
  [ -n "$python" ] || { echo "setup: no Python >= 3.11 found; install one or say PYTHON=/path/to/python3" >&2; exit 1; }
  echo "setup: creating .venv with $("$python" --version)"
  if ! "$python" -m venv .venv >/dev/null 2>&1; then
    # Debian splits venv off the interpreter.
    rm -rf .venv
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      { apt-get -qq update && apt-get -qq install -y python3-venv; } >/dev/null 2>&1
    fi
    "$python" -m venv .venv || { echo "setup: 'python -m venv' does not work; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
  fi
  .venv/bin/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=24'
fi
echo "setup: installing virt-dra${extras:+ with [$extras]}"
# By its real path, which pip writes into the scripts that it installs: .venv may be a link to that of another folder.
PYTHONWARNINGS=ignore "$(cd .venv/bin && pwd -P)/python" -m pip --quiet --disable-pip-version-check install --editable ".${extras:+[$extras]}"
touch "$stamp"
