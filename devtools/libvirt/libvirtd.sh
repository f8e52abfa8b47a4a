#!/bin/sh
# Runs libvirtd with nothing of the host's but its programs: started in a mount namespace of its own, FOLDER has its configuration,
# sockets and pid file. There /dev has no kvm. Where QEMU may not use a /dev/kvm that exists, libvirt probes QEMU again at every define
# (20 to 80 s each), and where there is one, its answers differ from those where there is none.
#   unshare --mount --propagation private devtools/libvirt/libvirtd.sh FOLDER IDLE_SECONDS
set -eu
folder=$1 idle=$2

dev=$folder/dev
mkdir "$dev"
mount -t tmpfs -o mode=755 tmpfs "$dev"
for node in null zero full random urandom tty; do
  : >"$dev/$node"
  mount --bind "/dev/$node" "$dev/$node"
done
mkdir "$dev/pts" "$dev/shm"
mount --rbind /dev/pts "$dev/pts"
mount -t tmpfs tmpfs "$dev/shm"
ln -s pts/ptmx "$dev/ptmx"
ln -s /proc/self/fd "$dev/fd"
mount --rbind "$dev" /dev

for state in /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
  mkdir -p "$state"
  mount -t tmpfs -o mode=755 tmpfs "$state"
done
# Whatever users, labels and cgroups the host has: nothing is ever started, only defined.
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
END
exec "${LIBVIRTD:-libvirtd}" --config "$folder/libvirtd.conf" --pid-file "$folder/libvirtd.pid" --timeout "$idle"
