#!/bin/sh
# Runs the tests (but those that need a control plane or libvirt) with each Python from 3.11 to 3.14, each in an environment of its own with
# the locked versions. An interpreter is PYTHON_3_14=/path (3_11, …), python3.14 on the PATH, one of pyenv, or one that uv has or gets.
# A missing one is a line, and an error with STRICT=1. Words after the name are for pytest.
set -eu
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/virt-dra/matrix
failed='' missing=''

interpreter() { # interpreter 3.14: its path
  named=$(eval "echo \"\${PYTHON_$(echo "$1" | tr . _):-}\"")
  for candidate in "$named" "python$1" "$(pyenv root 2>/dev/null || true)/versions/$1".*/bin/python3; do
    if [ -n "$candidate" ] && "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      command -v "$candidate"; return
    fi
  done
  uv=$(command -v uv || echo .tools/bin/uv)
  [ -x "$uv" ] || return 0
  "$uv" python find --no-project "$1" 2>/dev/null || { "$uv" python install --quiet "$1" 2>/dev/null && "$uv" python find --no-project "$1" 2>/dev/null; } || true
}

for version in 3.11 3.12 3.13 3.14; do
  python=$(interpreter "$version")
  if [ -z "$python" ]; then
    echo "matrix: no Python $version: install one (uv python install $version, pyenv, a package) or say PYTHON_$(echo "$version" | tr . _)=/path" >&2
    missing="$missing $version"
    continue
  fi
  echo "matrix: $("$python" --version), $python"
  VENV=$cache/$version PYTHON=$python tools/venv.sh dev || { failed="$failed $version"; continue; }
  "$cache/$version/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist worksteal \
    -m "not control_plane and not libvirt and not go and not root" "$@" || failed="$failed $version"
done
[ -z "$missing" ] || echo "matrix: not tested:$missing" >&2
[ -z "$failed" ] || { echo "matrix: failed:$failed" >&2; exit 1; }
[ -z "$missing" ] || [ "${STRICT:-}" != 1 ]
