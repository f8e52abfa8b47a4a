#!/bin/sh
# Gets what the hardware lab needs (docs/spec/hardware-lab.md): QEMU; and in a cache outside of the repository, unpacked: a QEMU that has the network
# card igb, of Debian's backports where the installed one hasn't, and Debian's kernel with its modules, two more (mtty of the kernel's samples, and
# hardware-lab/modules) and an initramfs. With root and apt it installs and downloads; otherwise it says in one line what will be skipped and how to get it. Done once,
# it does nothing. With --print: writes the folder, and ends with 1 where it isn't complete.
set -eu
cd "$(dirname "$0")/hardware-lab"
PATH=$PATH:/usr/sbin:/sbin
packages="qemu-system-x86 kmod cpio busybox-static e2fsprogs nvme-cli gcc make xz-utils"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/virt-dra/hardware-lab
initramfs_modules="virtio_pci 9pnet_virtio 9p overlay virtio_console"

programs_present() {
  for program in qemu-system-x86_64 modprobe depmod cpio busybox mkfs.ext4 nvme gcc make xz; do command -v "$program" >/dev/null || return 1; done
}

inputs() { cat ../hardware-lab.sh init modules/*; }

complete() { [ -e "$cache/kernel/complete" ] && inputs | cmp -s - "$cache/kernel/complete"; }

# The ELF image in a bzImage, whose header says where it is (Documentation/x86/boot.rst of the kernel), compressed and followed by its size: to unpack
# it inside would take a fifth of each boot's time.
unpack_kernel() { # unpack_kernel BZIMAGE ELF
  number() { od -An -v -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }
  start=$((($(number "$1" 0x1f1 1) + 1) * 512 + $(number "$1" 0x248 4)))
  tail -c "+$((start + 1))" "$1" | head -c "$(($(number "$1" 0x24c 4) - 4))" | xz -dc >"$2"
}

# The headers are installed, since they name each other by absolute paths; the source is read for one file.
build_modules() { # build_modules FOLDER RELEASE
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "linux-headers-$2" || return 1
  (cd "$1" && apt-get -qq download "$(apt-cache depends linux-source | awk '/Depends: linux-source/ { print $2; exit }')") || return 1
  mkdir "$1/modules" && cp modules/* "$1/modules/" || return 1
  dpkg --fsys-tarfile "$1"/linux-source*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc |
    tar -x -C "$1/modules" --wildcards --strip-components=3 '*/samples/vfio-mdev/mtty.c' || return 1
  make -s -C "/lib/modules/$2/build" M="$1/modules" modules || return 1
  mkdir "$1/kernel/lib/modules/$2/extra" && cp "$1"/modules/*.ko "$1/kernel/lib/modules/$2/extra/"
}

# With lists of its own, so that nothing else is installed from there. Its files find each other by arguments: devtools/hardware_lab/machine.py.
unpack_qemu() { # unpack_qemu FOLDER
  mkdir -p "$1/qemu" "$1/lists/partial" "$1/archives/partial" || return 1
  if qemu-system-x86_64 -device igb,help 2>/dev/null | grep -q .; then return; fi
  . /etc/os-release
  # shellcheck disable=SC2016
  archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | awk -v suite="$VERSION_CODENAME" '$1 == suite { print $2; exit }')
  [ -n "$archive" ] || { echo "apt knows no archive with $VERSION_CODENAME"; return 1; }
  printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\nSigned-By: %s\n' \
    "$archive" "$VERSION_CODENAME" /usr/share/keyrings/debian-archive-keyring.gpg >"$1/backports.sources" || return 1
  backports="-qq -o Dir::Etc::SourceList=$1/backports.sources -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$1/lists -o Dir::Cache=$1"
  # shellcheck disable=SC2086
  apt-get $backports update && (cd "$1" && apt-get $backports download qemu-system-x86 qemu-system-common qemu-system-data seabios) || return 1
  for package in "$1"/qemu-system-*.deb "$1"/seabios_*.deb; do dpkg -x "$package" "$1/qemu" || return 1; done
}

build() {
  work=$(mktemp -d "$cache/building.XXXXXX") || return 1
  trap 'rm -rf "$work"' EXIT
  image=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  [ -n "$image" ] || { echo "no package linux-image-amd64 is known"; return 1; }
  (cd "$work" && apt-get -qq download "$image") || return 1
  dpkg -x "$work"/linux-image*.deb "$work/kernel" || return 1
  release=${image#linux-image-}
  build_modules "$work" "$release" || return 1
  depmod -b "$work/kernel" "$release" || return 1
  mkdir -p "$work/initramfs/bin" "$work/initramfs/modules" || return 1
  cp "$(command -v busybox)" "$work/initramfs/bin/busybox" && ln -s busybox "$work/initramfs/bin/sh" && cp init "$work/initramfs/init" || return 1
  for module in $initramfs_modules; do modprobe -d "$work/kernel" -S "$release" --show-depends "$module" || return 1; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
      cp "$file" "$work/initramfs/modules/" && basename "$file" >>"$work/initramfs/modules/order" || return 1
    done
  (cd "$work/initramfs" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/kernel/initramfs" || return 1
  unpack_kernel "$work/kernel/boot/vmlinuz-$release" "$work/kernel/vmlinux" && rm -rf "$work/kernel/boot" "$work/kernel/usr" || return 1
  unpack_qemu "$work" || return 1
  inputs >"$work/kernel/complete"
  rm -rf "$cache/kernel" "$cache/qemu" && mv "$work/qemu" "$cache/qemu" && mv "$work/kernel" "$cache/kernel"
}

advice="the hardware tests will be skipped; to run them, as root on Debian: apt-get install $packages, then tools/hardware-lab.sh"
if ! programs_present || ! complete; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: no hardware lab: $advice" >&2
  else
    mkdir -p "$cache"
    if command -v flock >/dev/null; then exec 9>"$cache/lock" && flock 9; fi
    log=$(mktemp)
    if ! programs_present; then
      echo "setup: installing QEMU and what makes an initramfs for the hardware lab" >&2
      { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages; } >"$log" 2>&1 || tail -n 3 "$log" >&2
    fi
    if ! complete; then
      echo "setup: getting a kernel for the hardware lab" >&2
      { apt-get -qq update && build; } >"$log" 2>&1 || { tail -n 3 "$log" >&2; echo "setup: no kernel: $advice" >&2; }
    fi
    rm -f "$log"
  fi
fi
if [ "${1:-}" = --print ]; then
  echo "$cache/kernel"
  programs_present && complete
fi
