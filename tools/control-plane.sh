#!/bin/sh
# Gets a control plane for the tests: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, and kubectl to talk to it. Those in
# KUBEBUILDER_ASSETS are used; what it lacks is built once from Go modules (control-plane/*/go.mod say which), into a cache outside of the
# repository, in 7 to 10 minutes on 2 cores. Without Go it says in one line what will be skipped and how to get it. Built once, it does nothing.
# With 1.30.14 or 1.31.14: those of that release for classic DRA, and a driver, to run beside the etcd of the others; never from
# KUBEBUILDER_ASSETS. make conformance asks for them, make test doesn't.
# With --print: writes the paths of the programs, one a line, and ends with 1 where one is missing.
set -eu
cd "$(dirname "$0")/control-plane"
kubernetes=1.37.1 etcd=3.6.16 print=
for argument; do
  case $argument in
    --print) print=yes ;;
    1.30.14 | 1.31.14) kubernetes=$argument etcd= ;;
    *) echo "usage: tools/control-plane.sh [--print] [1.30.14 | 1.31.14]" >&2; exit 2 ;;
  esac
done
all=${XDG_CACHE_HOME:-$HOME/.cache}/virt-dra/control-plane
if [ -n "$etcd" ]; then
  programs="etcd kube-apiserver kube-scheduler kube-controller-manager kubectl" source=kubernetes
  cache=$all/$kubernetes-$etcd assets=${KUBEBUILDER_ASSETS:-}
else
  programs="kube-apiserver kube-scheduler kube-controller-manager classic-driver" source=kubernetes-$kubernetes
  cache=$all/$kubernetes assets=
fi
bin=$cache/bin

path_of() {
  for folder in "${assets:-$bin}" "$bin"; do
    if [ -x "$folder/$1" ]; then echo "$folder/$1"; return; fi
  done
}

missing() {
  for program in $programs; do
    [ -n "$(path_of "$program")" ] || printf '%s ' "$program"
  done
}

# A program appears under its name only when it is complete: whoever looks meanwhile finds none, and a build that is ended leaves none.
build() {
  work=$(mktemp -d "$cache/building.XXXXXX") || return 1
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM HUP
  x=k8s.io/component-base/version
  flags="-s -w -X $x.gitVersion=v$kubernetes -X $x.gitMajor=${kubernetes%%.*} -X $x.gitMinor=$(echo "$kubernetes" | cut -d. -f2)"
  for program in $1; do
    case $program in
      etcd) module=etcd package=. ;;
      classic-driver) module=$source package=./driver ;;
      *) module=$source package=k8s.io/kubernetes/cmd/$program ;;
    esac
    echo "setup: building $program" >&2
    (cd "$module" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
      nice -n 10 go build -p 2 -buildvcs=false -trimpath -ldflags "$flags" -o "$work/$program" "$package") >"$work/log" 2>&1 ||
      { grep -v '^go: downloading' "$work/log" | tail -n 5 >&2; return 1; }
    mv "$work/$program" "$bin/$program" || return 1
  done
}

if [ -n "$(missing)" ]; then
  advice="the tests on a real control plane $kubernetes will be skipped; to run them:"
  if ! command -v go >/dev/null; then
    echo "setup: no $(missing)and no Go to build them: $advice install Go >= 1.21 (https://go.dev/dl), or name their folder in KUBEBUILDER_ASSETS" >&2
  elif ! mkdir -p "$bin" 2>/dev/null; then
    echo "setup: $bin can't be made: $advice set XDG_CACHE_HOME to a folder of yours" >&2
  else
    # One builder at a time: a second one would only take the first one's cores. It finds the programs there when its turn comes.
    if command -v flock >/dev/null; then exec 9>"$cache/lock" && flock 9; fi
    if ! build "$(missing)"; then
      echo "setup: building failed: $advice give Go a module proxy (GOPROXY), then tools/control-plane.sh${*:+ $*}" >&2
    fi
  fi
fi
if [ -n "$print" ]; then
  for program in $programs; do path_of "$program"; done
  [ -z "$(missing)" ]
fi
