#!/bin/bash
# relive: needs-tool=python3 timeout=120
# Python's multiprocessing by fork and by spawn: values, arrays, locks, queues, pools, shared
# memory blocks, a manager's condition: all that its processes share.
set -euo pipefail
cat > work.py <<'P'
import multiprocessing as mp
from multiprocessing import shared_memory
import sys


def add(value, lock, rounds):
    for _ in range(rounds):
        with lock:
            value.value += 1


def fill(array, start):
    for i in range(start, len(array), 3):
        array[i] = i * i


def square(n):
    return n * n


def relay(inbox, outbox):
    while True:
        item = inbox.get()
        if item is None:
            return
        outbox.put(item + 1)


def block(name, at):
    memory = shared_memory.SharedMemory(name=name)
    memory.buf[at] = at + 1
    memory.close()


def meet(barrier, cond, turn, me):
    barrier.wait()
    with cond:
        cond.wait_for(lambda: turn.value == me)
        turn.value += 1
        cond.notify_all()


def run(processes):
    for p in processes:
        p.start()
    for p in processes:
        p.join()
        assert p.exitcode == 0, p.exitcode


def main():
    mp.set_start_method(sys.argv[1])
    rounds = int(sys.argv[2])
    value, lock = mp.Value("i", 0, lock=False), mp.Lock()
    run([mp.Process(target=add, args=(value, lock, rounds)) for _ in range(3)])
    print("value", value.value)
    array = mp.Array("l", 30)
    run([mp.Process(target=fill, args=(array, i)) for i in range(3)])
    print("array", sum(array))
    inbox, outbox = mp.Queue(), mp.Queue()
    relays = [mp.Process(target=relay, args=(inbox, outbox)) for _ in range(2)]
    for p in relays:
        p.start()
    for i in range(20):
        inbox.put(i)
    print("queue", sum(outbox.get() for _ in range(20)))
    for p in relays:
        inbox.put(None)
    for p in relays:
        p.join()
    memory = shared_memory.SharedMemory(create=True, size=4096)
    run([mp.Process(target=block, args=(memory.name, i)) for i in range(3)])
    print("block", list(memory.buf[:3]))
    memory.close()
    memory.unlink()
    barrier, cond, turn = mp.Barrier(3), mp.Condition(), mp.Value("i", 0)
    run([mp.Process(target=meet, args=(barrier, cond, turn, i)) for i in range(3)])
    print("turn", turn.value)
    with mp.Pool(3) as pool:
        print("pool", sum(pool.map(square, range(50))))


if __name__ == "__main__":
    main()
P
python3 -I work.py fork 30
python3 -I work.py spawn 3
echo ok
