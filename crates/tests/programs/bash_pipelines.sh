#!/bin/bash
# relive: needs-tool=grep,sed,awk,sort,tr,xargs
# Pipelines, subshells, here-documents, process substitution, background jobs and traps.
set -euo pipefail
seq 1 500 | awk '{ print $1 * $1 }' | grep -v 5 | sort -rn | head -n 7
printf '%s\n' banana apple cherry | sort | tr a-z A-Z | paste -sd,
cat <<'TEXT' > poem
one fish
two fish
red fish
TEXT
sed -e 's/fish/bird/' -e '2d' poem | nl
{ diff <(sort poem) <(sort -r poem) || true; } | wc -l
(cd / && pwd); pwd > /dev/null
for i in 1 2 3; do (exit $i) || echo "status $?"; done
( sleep 0.01; echo late > flag ) &
wait $!
cat flag
trap 'echo trapped' USR1
kill -USR1 $$
seq 20 | xargs -n 4 -P 1 echo
declare -A map=([a]=1 [b]=2); echo "${map[a]}${map[b]}"
[[ "abc123" =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
mapfile -t lines < poem; echo "${#lines[@]}"
md5sum poem; cut -d' ' -f1 poem | uniq -c; od -An -c -N4 poem
echo ok
