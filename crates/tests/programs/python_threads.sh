#!/bin/bash
# relive: coherence=yes needs-tool=python3 output=free
# Threads, a queue, random numbers, hashes with a random seed, time, subprocesses and files.
set -euo pipefail
python3 -I - <<'PYTHON'
import collections, hashlib, json, os, queue, random, re, subprocess, tempfile, threading, time

work, done = queue.Queue(), queue.Queue()
order = []

def worker(name):
    while (item := work.get()) is not None:
        order.append(name)
        done.put((item, hashlib.sha256(str(item).encode()).hexdigest()[:8]))

threads = [threading.Thread(target=worker, args=(n,)) for n in "abcd"]
for t in threads: t.start()
for i in range(300): work.put(i)
for _ in threads: work.put(None)
for t in threads: t.join()
results = dict(done.get() for _ in range(300))
assert len(results) == 300 and results[7] == hashlib.sha256(b"7").hexdigest()[:8]
print("".join(order[:60]))
print(random.random(), hash("text"), time.time(), os.getpid(), list({"a", "b", "c", "d"}))

counter, lock = 0, threading.Lock()
def add():
    global counter
    for _ in range(2000):
        with lock: counter += 1
threads = [threading.Thread(target=add) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert counter == 8000

event = threading.Event()
threading.Timer(0.01, event.set).start()
assert event.wait(10)
words = re.findall(r"\w+", open(os.__file__).read())
print(collections.Counter(words).most_common(3))
with tempfile.TemporaryDirectory(dir=".") as folder:
    with open(os.path.join(folder, "x.json"), "w") as f: json.dump({"k": list(range(100))}, f)
    assert len(json.load(open(os.path.join(folder, "x.json")))["k"]) == 100
print(subprocess.run(["sh", "-c", "echo child; exit 3"], capture_output=True))
pid = os.fork()
if pid == 0: os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
print(sum(i * i % 7 for i in range(30000)))
PYTHON
echo ok
