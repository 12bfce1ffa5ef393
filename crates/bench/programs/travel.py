# About ten seconds of work, with one write to an array half-way, whose address is printed.
import array
import os

watched = array.array("Q", [0])
print(watched.buffer_info()[0], flush=True)


class Account:
    def __init__(self, number):
        self.number = number
        self.balance = 0

    def move(self, amount):
        self.balance += amount
        return self.balance & 7


accounts = [Account(n) for n in range(1000)]
seen = {}
state = 1
ROUNDS = 24_000_000
for i in range(ROUNDS):
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    kind = accounts[state % 1000].move(state >> 20)
    if i & 15 == 0:
        key = "kind-%d" % kind
        seen[key] = seen.get(key, 0) + 1
    if i == ROUNDS // 2:
        watched[0] = i
# Freed at the end, the array would be written once more.
os._exit(0)
