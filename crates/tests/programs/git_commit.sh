#!/bin/bash
# relive: needs-tool=git timeout=60
# A repository from init to log, with a fixed identity and fixed dates.
set -euo pipefail
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
export GIT_AUTHOR_NAME=Someone GIT_AUTHOR_EMAIL=someone@example.com GIT_AUTHOR_DATE='1600000000 +0000'
export GIT_COMMITTER_NAME=Someone GIT_COMMITTER_EMAIL=someone@example.com GIT_COMMITTER_DATE='1600000000 +0000'
git init -q -b main repository
cd repository
seq 100 > numbers
mkdir sub && echo text > sub/file
git add .
git commit -q -m 'first'
sed -i 's/^5$/five/' numbers
git diff --stat
git commit -q -a -m 'second'
git branch side && git checkout -q side && echo more >> sub/file && git commit -q -a -m 'third'
git checkout -q main && git merge -q --no-edit side
git log --oneline --graph
git gc -q
git fsck --no-progress
git show --stat HEAD~1 | tail -n 2
git status --short
echo ok
