"""asyncio: tasks, a subprocess, a pair of sockets, signals, time-outs, loopback TCP."""

import asyncio
import signal
import socket
import sys


async def main():
    """Tries everything once."""
    assert await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(20))) == list(range(20))
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE)
    assert (await child.communicate())[0] == b"child\n"
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.1)
    except TimeoutError:
        pass
    else:
        raise AssertionError("no time-out")
    one, other = socket.socketpair()
    reader, _ = await asyncio.open_unix_connection(sock=one)
    other.send(b"hello")
    assert await reader.readexactly(5) == b"hello"

    async def greet(_, writer):
        writer.write(b"here")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await reader.read() == b"here"
        writer.close()


asyncio.run(main())
print("fine")
