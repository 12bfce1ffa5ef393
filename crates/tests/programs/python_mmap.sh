#!/bin/bash
# relive: needs-tool=python3 output=free timeout=120
# A script that maps a log and lets other programs append to it, one that keeps its map while others
# write the file, copy over it and cut it, and one that maps what another prints.
set -euo pipefail
cat > work.py <<'P'
import mmap, os, subprocess, sys

name = "py.log"
open(name, "w").write("start\n")
seen = []
for i in range(4):
    with open(name, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        seen.append(bytes(m[:]).count(b"\n"))
        if i % 2: m[0:1] = b"S"
    subprocess.run(["sh", "-c", f"echo line{i} >> {name}"], check=True)
    subprocess.run([sys.executable, "-I", "-c", f"open('{name}', 'a').write('py{i}\\n')"], check=True)
print(seen)
assert seen == [1, 3, 5, 7]

f = open(name, "r+b")
os.ftruncate(f.fileno(), 8192)
m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
for i in range(3):
    dd = f"printf hello{i} | dd of={name} bs=1 seek={i * 100} conv=notrunc status=none"
    subprocess.run(["sh", "-c", dd], check=True)
    assert m[i * 100:i * 100 + 6] == b"hello%d" % i
writer = subprocess.Popen([sys.executable, "-I", "-c", f"""
f = open('{name}', 'r+b', 0)
for i in range(300):
    f.seek(1000)
    f.write(b'%05d' % i)
"""])
values = []
while writer.poll() is None:
    if m[1000:1005] not in values[-1:]: values.append(m[1000:1005])
assert values == sorted(values) and m[1000:1005] == b"00299"
print(len(values), values[-1])

open("other", "wb").write(b"other" * 2000)
subprocess.run(["cp", "other", name], check=True)
assert m[:8192] == (b"other" * 2000)[:8192]
subprocess.run(["sh", "-c", f": > {name}; printf again > {name}; truncate -s 8192 {name}"], check=True)
assert m[:8] == b"again\0\0\0"

with open("child.out", "w+b") as out:
    out.write(b"0" * 100)
    out.flush()
    shown = mmap.mmap(out.fileno(), 0)
    subprocess.run(["echo", "into a map"], stdout=open("child.out", "r+b"))
    assert shown[:13] == b"into a map\n00"
P
python3 -I work.py
echo ok
