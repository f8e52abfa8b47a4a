#!/bin/sh
# Gets what makes this machine a Kubernetes node for the tests: kubelet, containerd and its shim, built once from Go modules (node/containerd and
# control-plane/kubernetes) into a cache outside of the repository in 4 to 6 minutes on 2 cores, and Debian's runc, unpacked beside them, not
# installed. Without Go, root or apt it says in one line what will be skipped and how to get it. Done once, it does nothing.
# With --print: writes the folder, and ends with 1 where it isn't complete.
set -eu
cd "$(dirname "$0")"
kubernetes=1.37.1 containerd=2.4.2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/virt-dra/node/$kubernetes-$containerd
bin=$cache/bin
programs="kubelet containerd containerd-shim-runc-v2 ctr runc busybox"

missing() {
  for program in $programs; do
    [ -x "$bin/$program" ] || printf '%s ' "$program"
  done
}

build() { # PROGRAM
  x=k8s.io/component-base/version
  case $1 in
    kubelet)
      module=control-plane/kubernetes package=k8s.io/kubernetes/cmd/kubelet
      flags="-X $x.gitVersion=v$kubernetes -X $x.gitMajor=${kubernetes%%.*} -X $x.gitMinor=$(echo "$kubernetes" | cut -d. -f2)" ;;
    *)
      module=node/containerd package=github.com/containerd/containerd/v2/cmd/$1
      flags="-X github.com/containerd/containerd/v2/version.Version=$containerd" ;;
  esac
  (cd "$module" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
    nice -n 10 go build -p 2 -buildvcs=false -trimpath -ldflags "-s -w $flags" -o "$work/$1" "$package")
}

unpack() { # PROGRAM, of Debian's package
  case $1 in runc) package=runc inside=usr/sbin/runc ;; *) package=busybox-static inside=bin/busybox ;; esac
  (cd "$work" && apt-get -qq download "$package" && dpkg -x "$package"_*.deb unpacked) && mv "$work/unpacked/$inside" "$work/$1"
}

if [ -n "$(missing)" ]; then
  advice="the tests on a real node will be skipped; to run them:"
  if ! command -v go >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: no $(missing): $advice as root on Debian with Go >= 1.21: tools/node.sh" >&2
  elif ! mkdir -p "$bin" 2>/dev/null; then
    echo "setup: $bin can't be made: $advice set XDG_CACHE_HOME to a folder of yours" >&2
  else
    if command -v flock >/dev/null; then exec 9>"$cache/lock" && flock 9; fi
    work=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM HUP
    for program in $(missing); do
      echo "setup: getting $program for a node" >&2
      case $program in runc | busybox) get=unpack ;; *) get=build ;; esac
      if ! $get "$program" >"$work/log" 2>&1; then
        grep -v '^go: downloading' "$work/log" | tail -n 5 >&2
        echo "setup: no $program: $advice give Go a module proxy and apt its lists, then tools/node.sh" >&2
        break
      fi
      mv "$work/$program" "$bin/$program"
    done
  fi
fi
if [ "${1:-}" = --print ]; then
  echo "$bin"
  [ -z "$(missing)" ]
fi
