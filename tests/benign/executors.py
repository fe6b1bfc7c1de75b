"""concurrent.futures, with threads and with processes, and an exception that comes back from one."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def divide(number):
    """Returns a hundred divided by it."""
    return 100 / number


if __name__ == "__main__":
    for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
        with kind(4) as pool:
            assert list(pool.map(divide, [1, 2, 4])) == [100.0, 50.0, 25.0]
            try:
                pool.submit(divide, 0).result(60)
            except ZeroDivisionError:
                continue
            raise AssertionError("no exception came back")
    print("fine")
