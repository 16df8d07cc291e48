#!/bin/sh
# Boots systemd in a root of its own: an overlay, and namespaces for all but users. `lab.py` calls
# it. The kernel ends all of it with the process that called it.
#
# Usage: boot.sh CGROUP LOWER DIRECTORY NAME [DISK...]
#
#   CGROUP     directory of the group of version 2 that is to hold the host; exists
#   LOWER      layers of the overlay, with colons between them
#   DIRECTORY  has upper/, work/ and root/ of the overlay
#   NAME       of the host
#   DISK       a directory, a colon, and the place where the host is to have it mounted
#
# Standard input: a line, which comes when the network of the namespace is complete.
set -eu

if [ "${LAB_BOOT:-}" != inside ]; then
    echo $$ >"$1/cgroup.procs"
    LAB_BOOT=inside exec unshare --mount --propagation private --pid --fork --kill-child=KILL \
        --uts --ipc --cgroup --net -- "$0" "$@"
fi

lower=$2 directory=$3 name=$4
shift 4
read -r _

hostname "$name"
root=$directory/root
mount -t overlay -o "lowerdir=$lower,upperdir=$directory/upper,workdir=$directory/work" \
    overlay "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
# Parameters of the kernel are those of the machine, but for the network's.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind /proc/sys/net proc/sys/net
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=755,nosuid tmpfs dev
# Nodes of the host's own: systemd changes modes and owners of some, which are those of an inode.
for node in null:3 console:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
# Directories of the machine that the host has as disks of its own.
for disk; do
    mkdir -p ".${disk#*:}"
    mount --bind "${disk%%:*}" ".${disk#*:}"
done

mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
# Modules and the clock are those of the machine, too.
exec /usr/bin/setpriv --bounding-set=-sys_module,-sys_time \
    /usr/bin/env -i container=penstock-lab LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd systemd.unit=multi-user.target </dev/null
