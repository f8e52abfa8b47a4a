#!/bin/sh
# Gets what the libvirt tests need: daemon, tools, schemas, qemu, and the Python binding; and libfaketime. With root and apt it installs them,
# otherwise it says in one line what will be skipped and how to get it. Installed once, it does nothing.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin # where daemons live, and not every user looks
packages="libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-system libvirt-clients libvirt-dev pkg-config gcc libxml2-utils qemu-system-x86"
clocks=faketime # for the tests of clocks that jump; they skip without it

tools_present() {
  command -v virsh >/dev/null && command -v virt-xml-validate >/dev/null && command -v xmllint >/dev/null && command -v libvirtd >/dev/null &&
    command -v qemu-system-x86_64 >/dev/null && pkg-config --exists libvirt 2>/dev/null
}

# The tests of clocks need this alone, so they have it where libvirt is installed already.
clocks_present() { ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; }

if ! tools_present || ! clocks_present; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing libvirt, its headers, qemu and libfaketime for the tests"
    # A service manager that refuses to start daemons in a container is no failure: the tests start libvirtd themselves.
    log=$(mktemp)
    if ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages $clocks python3-dev; } >"$log" 2>&1; then
      tail -n 3 "$log" >&2
    fi
    rm -f "$log"
  fi
  if ! tools_present; then
    echo "setup: libvirt tests will be skipped; to run them: apt-get install $packages, then make test" >&2
    exit 0
  fi
fi
if ! .venv/bin/python -c 'import libvirt' 2>/dev/null; then
  echo "setup: building libvirt-python"
  PYTHONWARNINGS=ignore .venv/bin/python -m pip --quiet --disable-pip-version-check install --no-build-isolation --require-hashes \
    --requirement requirements/libvirt.txt ||
    echo "setup: libvirt-python did not build; the tests that need it will be skipped (a C compiler and the Python headers are required)" >&2
fi
