# Objects, dictionaries, strings and calls: what a Python program spends its time on.
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
for i in range(10_000_000):
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    kind = accounts[state % 1000].move(state >> 20)
    if i & 15 == 0:
        key = "kind-%d" % kind
        seen[key] = seen.get(key, 0) + 1
print(sorted(seen.items()), sum(account.balance for account in accounts))
