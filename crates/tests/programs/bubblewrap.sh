#!/bin/bash
# relive: needs-tool=bwrap,python3
# Programs in bwrap's sandbox: its own root, /proc, /dev, no network, the first process of its namespace.
set -euo pipefail
unshare -Ur true 2>/dev/null || { echo none here; echo ok; exit; }
sandbox() { bwrap --ro-bind /usr /usr --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 --ro-bind-try /bin /bin --tmpfs /tmp "$@"; }
sandbox --unshare-all --proc /proc --dev /dev --hostname box --die-with-parent sh -c 'echo $$; id -u; hostname; ls /; cat /proc/1/comm; ls /dev | head -n 3'
sandbox --unshare-pid --dev /dev --new-session sh -c 'echo text > /tmp/file; cat /tmp/file; (exit 5) || echo $?; kill -KILL $$ & wait' || echo "status $?"
sandbox --unshare-user --uid 1000 --gid 1000 id -u
sandbox --unshare-all python3 -c 'import os, threading
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
child = os.fork()
if child == 0: os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.exists("/proc"))'
echo ok
