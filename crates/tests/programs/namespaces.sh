#!/bin/bash
# relive: needs-tool=unshare,mount,nsenter
# Namespaces as programs make them: processes, mounts, networks, names, time. A machine that allows no
# namespaces of users shows that natively too.
set -euo pipefail
unshare -Ur true 2>/dev/null || { echo none here; echo ok; exit; }
unshare -Urpf sh -c 'echo "process $$ of user $(id -u)"; (exit 3) || echo "status $?"; sleep 0.01 & wait; kill -TERM $$; echo alive'
unshare -Urpf --mount-proc bash -c 'cat /proc/self/comm /proc/1/comm; (ls -d /proc/[0-9]* | sort | head -1); readlink /proc/self/exe | wc -l'
unshare -Urm sh -c 'mount -t tmpfs tmpfs /mnt && echo text > /mnt/file && cat /mnt/file && umount /mnt && ls /mnt | wc -l'
unshare -Urn sh -c 'grep -c : /proc/net/dev'
unshare -Uru sh -c 'hostname inner; hostname; unshare -u sh -c "hostname innermost; hostname"; hostname'
unshare -Uri sh -c 'wc -l < /proc/sysvipc/shm'
unshare -UrT --monotonic 100000 sh -c 'read up rest < /proc/uptime; [ "${up%.*}" -gt 100 ]; echo later'
mkdir root
unshare -Urm sh -c 'mount -t tmpfs tmpfs root; mkdir root/usr root/bin root/lib root/lib64
  for d in usr bin lib lib64; do mount --rbind /$d root/$d; done
  chroot root sh -c "pwd; ls /; (true | cat); echo inside"'
rmdir root
echo ok
