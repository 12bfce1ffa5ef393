#!/bin/bash
# relive: needs-tool=gcc timeout=60
# A compiler driver: vfork, exec of several large programs, temporary files, then the result runs.
set -euo pipefail
export TMPDIR=.
cat > hello.c <<'C'
#include <stdio.h>
#include <stdlib.h>
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
    int v[] = {5, 3, 9, 1};
    qsort(v, 4, sizeof *v, cmp);
    for (int i = 0; i < 4; i++) printf("%d%c", v[i], i < 3 ? ' ' : '\n');
    return argc > 1 ? atoi(argv[1]) : 0;
}
C
gcc -O2 -Wall -o hello hello.c
./hello
./hello 7 || echo "status $?"
gcc -S -O1 -o - hello.c | grep -c qsort
gcc -c nothing.c 2>/dev/null || echo refused
echo ok
