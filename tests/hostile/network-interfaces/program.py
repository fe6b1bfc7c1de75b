"""Lists interfaces in every way the kernel offers."""

import os
import socket
from pathlib import Path

from _report import report

names = {name for _, name in socket.if_nameindex()}
try:
    names |= {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text("ascii").splitlines()[2:]}
    names |= set(os.listdir("/sys/class/net"))
except OSError:
    pass
# A kernel may give every new network a set of tunnel ends that are down and lead nowhere.
IDLE = {
    "lo",
    "tunl0",
    "gre0",
    "gretap0",
    "erspan0",
    "ip_vti0",
    "ip6_vti0",
    "sit0",
    "ip6tnl0",
    "ip6gre0",
    "bonding_masters",
}
report(bool(names - IDLE), f"interfaces: {', '.join(sorted(names))}"[:200])
