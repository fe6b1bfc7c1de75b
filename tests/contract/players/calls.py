"""Makes system calls by number, given as a JSON object name -> [number, arguments...]; answers with their errors."""

import ctypes
import json
import mmap
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
asked = json.loads(sys.argv[1])
answers = {}
for name, words in asked.items():
    child = os.fork()
    if child == 0:  # a call that is let through may do anything to its caller
        ctypes.set_errno(0)
        got = libc.syscall(*(ctypes.c_long(word) for word in words))
        os._exit(0 if got >= 0 else ctypes.get_errno())
    answers[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
child = os.fork()
if child == 0:  # mov eax, 20; int 0x80; ret: getpid as a 32-bit call
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    os._exit(0 if call() > 0 else 1)
answers["int 0x80"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(answers), flush=True)
