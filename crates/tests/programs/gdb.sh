#!/bin/bash
# relive: modes=record,replay,verify needs-tool=gdb,gcc,grep,sed timeout=120
# gdb on a program: breakpoints, steps, values, changes, a call of a function, a crash.
set -euo pipefail
export TMPDIR=. DEBUGINFOD_URLS=
cat > add.c <<'C'
#include <stdio.h>
#include <string.h>
static int add(int a, int b) {
    int sum = a + b;
    return sum;
}
int main(int argc, char **argv) {
    double part = 0.5;
    int x = 1;
    x = add(x, 2);
    printf("x=%d part=%g\n", x, part);
    fflush(stdout);
    if (argc > 1)
        *(volatile int *)strlen(argv[0] + strlen(argv[0])) = x;
    return 0;
}
C
gcc -g -O0 -o add add.c
same() {
    sed -E -e 's/0x[0-9a-f]+/ADDR/g' -e 's/process [0-9]+/process N/' -e '/libthread_db/d'
}
# gdb 13 cannot write the registers of a processor with AMX, natively: their state is larger than it knows.
call=(-ex 'print add(20, 22)')
if grep -qw amx_tile /proc/cpuinfo; then call=(); fi
gdb -nx -batch -ex 'break main' -ex run -ex next -ex next -ex step -ex 'print a' -ex bt -ex finish \
    -ex 'next' "${call[@]}" -ex 'set var x = 70' -ex 'set var part = 2.25' \
    -ex 'tbreak add.c:12' -ex continue -ex continue ./add 2>&1 | same
gdb -nx -batch -ex 'set can-use-hw-watchpoints 0' -ex 'break main' -ex run -ex 'watch x' \
    -ex continue -ex continue -ex 'delete' -ex continue ./add 2>&1 | same
gdb -nx -batch -ex 'run 1' -ex 'print $_siginfo.si_signo' -ex 'bt' -ex kill ./add 2>&1 | same
gdb -nx -batch -ex 'catch syscall write' -ex run -ex continue -ex 'delete' -ex continue ./add 2>&1 | same
echo ok
