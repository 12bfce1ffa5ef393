#!/bin/bash
# relive: needs-tool=find,tar,gzip,cmp,du
# A tree is made, packed, unpacked and compared.
set -euo pipefail
export TZ=UTC
for d in a b/c b/d; do
    mkdir -p "tree/$d"
    for i in 1 2 3; do seq "$i" $((i * 300)) > "tree/$d/file$i"; done
done
ln -s ../a/file1 tree/b/link
touch -d '2020-02-03 04:05:06' tree/a/file2
find tree -type f -name 'file[23]' -newermt 2021-01-01 | sort
find tree -type f -printf '%s %P\n' | sort -k2
tar -czf tree.tgz --sort=name --mtime=@0 --owner=0 --group=0 tree
tar -tzf tree.tgz | wc -l
mkdir other
tar -xzf tree.tgz -C other
diff -r tree other/tree && echo same
find other -type l -exec readlink {} \;
find tree -name 'file1' -delete
find tree -type f | wc -l
gzip -dc tree.tgz | cksum
cp -r tree copy && cmp tree/a/file3 copy/a/file3
chmod 600 copy/a/file3 && stat -c %a copy/a/file3
rm -rf tree other copy
ls
echo ok
