"""A hundred threads add up numbers behind one lock."""

import threading

totals, lock = [0], threading.Lock()


def add(number):
    """Adds one number."""
    with lock:
        totals[0] += number


threads = [threading.Thread(target=add, args=(n,)) for n in range(100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert totals == [4950]
print("fine")
