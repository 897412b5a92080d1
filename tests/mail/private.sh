#!/bin/sh
# private.sh PACKAGES SCRIPT SHARED: runs SCRIPT as root of a file system of its own. The files below PACKAGES, unpacked
# Debian packages, lie over the host's; what is written is forgotten at the end, except below SHARED/mailboxes and
# SHARED/spool, which are /var/mailboxes and /var/spool there. SHARED is also visible as /shared.
#
# Started by: unshare --mount --pid --fork --kill-child sh private.sh ...
# so that this shell is process 1 and dies with `unshare`, and everything else with it. It does not become the server:
# the kernel forgets to kill a process with its parent once that has changed its user.
set -eu
packages=$1 script=$2 shared=$3
mount --make-rprivate /
work=$shared/root
mkdir -p "$work"
mount -t tmpfs -o size=1g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
# A layer of an overlay must not be below another one.
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
