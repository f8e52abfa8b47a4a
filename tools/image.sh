#!/bin/sh
# Builds both images of the Containerfile as OCI archives, without a registry and without a daemon (devtools/containers), into a cache outside of
# the repository, and links them in out/image. With root and apt it installs what builds and runs them; otherwise it says in one line what is
# missing. Built once of a content, it does nothing. Arguments: those of python -m devtools.containers.
set -eu
cd "$(dirname "$0")/.."
programs="buildah mmdebstrap containerd runc"
missing=
for program in $programs; do command -v "$program" >/dev/null || missing="$missing $program"; done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "image: installing$missing"
  # Their service isn't needed, and a service manager that refuses to start it is no failure.
  log=$(mktemp)
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing; } >"$log" 2>&1 || tail -n 3 "$log" >&2
  rm -f "$log"
fi
for program in $programs; do
  command -v "$program" >/dev/null ||
    { echo "image: $program is missing, so no image is built and run here, and the tests of them are skipped: apt-get install$missing" >&2; exit 1; }
done
exec .venv/bin/python -m devtools.containers "$@"
