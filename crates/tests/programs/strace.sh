#!/bin/bash
# relive: modes=record,replay,verify needs-tool=strace,sed,sort,tr timeout=60
# strace of programs that fork, vfork, execute, signal themselves and fail: the calls of each process.
set -euo pipefail
# The ids, addresses and times of a run.
same() {
    sed -E -e 's/0x[0-9a-f]+/ADDR/g' -e 's/\b[0-9]{3,}\b/N/g' -e 's/si_[us]time=[^,}]*/TIME/g' \
        -e 's/[0-9]+ vars/V vars/' "$@"
}
strace -e trace=execve,write,exit_group -o log /bin/echo hi
same log
# One log for each process that the command makes.
each() {
    rm -f each.*
    strace -ff -e trace=execve,write,exit_group "${@:2}" -o each sh -c "$1" 2> /dev/null || echo "status $?"
    for log in each.*; do
        same "$log" | tr '\n' ';'
        echo
    done | sort
}
each '/bin/true; /bin/false; kill -HUP $$; echo never'
# Children that end together raise one SIGCHLD, or one each: signal(7), a standard signal is not queued.
each '/bin/echo two | cat; kill -HUP $$; echo never' -e 'signal=!SIGCHLD'
strace -c -o counts /bin/true
grep -c execve counts
strace -f -e inject=getppid:retval=77 -e trace=getppid -o log bash -c 'echo $PPID'
strace -o log sh -c 'exit 3' || echo "status $?"
sleep 100 &
sleeper=$!
strace -p $sleeper -e trace=none -o log 2> said &
tracer=$!
until grep -q attached said; do sleep 0.05; done
kill $tracer
wait $tracer || true
kill $sleeper
wait $sleeper || echo "status $?"
echo ok
