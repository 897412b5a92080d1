#!/bin/sh
# private.sh PACKAGES SCRIPT SHARED: runs SCRIPT as root in a private root file system. This is an overlay of PACKAGES,
# which contains unpacked Debian packages, on the host's files. Writes are discarded at the end, except those to
# /shared, /var/mailboxes and /var/spool, which are SHARED, SHARED/mailboxes and SHARED/spool.
#
# Start it with: unshare --mount --pid --fork --kill-child sh private.sh ...
# This shell is then process 1 of the namespace. The kernel kills it when `unshare` ends, and with it every process of
# the namespace. The shell does not exec the server, because the kernel clears a process's parent-death signal when the
# process changes its user.
set -eu
packages=$1 script=$2 shared=$3
mount --make-rprivate /
work=$shared/root
mkdir -p "$work"
mount -t tmpfs -o size=1g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
# A layer of an overlay must not be inside another layer.
cp -a "$packages" "$work/packages"
cp "$script" "$work/script"
mount -t overlay overlay -o "lowerdir=$work/packages:/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount --rbind /dev "$work/root/dev"
mount -t proc proc "$work/root/proc"
mount -t tmpfs tmpfs "$work/root/run"
mkdir -p "$shared/mailboxes" "$shared/spool" "$work/root/shared" "$work/root/var/mailboxes"
chmod 777 "$shared/mailboxes"
mount --bind "$shared" "$work/root/shared"
mount --bind "$shared/mailboxes" "$work/root/var/mailboxes"
mount --bind "$shared/spool" "$work/root/var/spool"
cp "$work/script" "$work/root/run/script"
chroot "$work/root" /bin/sh -eu /run/script &
wait "$!"
