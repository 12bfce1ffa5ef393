#!/bin/bash
# relive: coherence=yes needs-tool=xz timeout=60
# Two compressing threads; the result is the same in every schedule.
set -euo pipefail
seq 1 150000 > numbers
xz -T2 --block-size=200KiB -1 -k numbers
xz -T2 -dc numbers.xz | cmp - numbers
cksum < numbers.xz
xz --robot --list numbers.xz | awk '/^file/ { print $3 }'
echo ok
