#!/bin/sh
# Gets programs of other projects with which the tests judge what virt-dra gives to them. Each folder of go-tools/ is a Go module whose go.mod
# names programs (tool) and their version. They are built once from Go modules, into a cache outside of the repository: Prometheus and promtool
# in 4 to 5 minutes on 2 cores, each of two releases of Helm and krew in as many, kubeconform in one. Without Go it says in one line what will be skipped.
set -eu
cd "$(dirname "$0")/go-tools"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/virt-dra/go-tools
for module in */; do
  name=${module%/}
  # Prometheus needs none of its service discoveries here, which are most of what it would be built of.
  case $name in prometheus) tags=remove_all_sd ;; *) tags= ;; esac
  folder=$cache/$name-$(cat "$name/go.mod" "$name/go.sum" | sha256sum | cut -c 1-16)
  advice="the tests with $name will be skipped; to run them"
  if [ -d "$folder" ]; then continue; fi
  if ! command -v go >/dev/null; then
    echo "setup: no $name and no Go to build it: $advice install Go >= 1.24 (https://go.dev/dl)" >&2
    continue
  fi
  if ! mkdir -p "$cache" 2>/dev/null; then
    echo "setup: $cache can't be made: $advice set XDG_CACHE_HOME to a folder of yours" >&2
    continue
  fi
  # The folder appears when all is in it: a build that is ended leaves none.
  work=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM HUP
  echo "setup: building $name" >&2
  mkdir "$work/bin"
  if (cd "$name" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
    nice -n 10 go build -p 2 -buildvcs=false -trimpath -tags "$tags" -ldflags "-s -w" -o "$work/bin/" tool) >"$work/log" 2>&1; then
    [ -d "$folder" ] || mv "$work/bin" "$folder"
  else
    grep -v '^go: downloading' "$work/log" | tail -n 5 >&2 || true
    echo "setup: building $name failed: $advice give Go a module proxy (GOPROXY), then tools/go-tools.sh" >&2
  fi
  rm -rf "$work"
done
