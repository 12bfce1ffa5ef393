#!/bin/bash
# relive: coherence=yes needs-tool=pigz,gzip timeout=60
# Two compressing threads; the result is the same in every schedule.
set -euo pipefail
seq 1 150000 > numbers
pigz -p2 -b 128 -n -k numbers
gzip -dc numbers.gz | cmp - numbers
cksum < numbers.gz
echo ok
