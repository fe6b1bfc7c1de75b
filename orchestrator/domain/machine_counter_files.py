"""Files in /proc and /sys with counters of the whole machine, through which one sandbox can signal to another.

docs/kernel-files.md has the verdict on every file. The files here are those from which it is determined whether
sandboxes see such counters at all. They are not the list of masked files, which is everything that a program does not
need.
"""

MACHINE_COUNTER_FILES = (
    *("/proc/sys/fs/dentry-state", "/proc/sys/fs/inode-nr", "/proc/sys/fs/inode-state", "/proc/sys/fs/file-nr"),
    *("/proc/sys/fs/aio-nr", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/pty/nr"),
    *("/proc/slabinfo", "/proc/vmstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/pagetypeinfo", "/proc/meminfo"),
    *("/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/pressure/memory", "/proc/diskstats", "/proc/interrupts"),
    *("/proc/softirqs", "/proc/schedstat", "/proc/timer_list", "/proc/key-users", "/proc/locks"),
    *("/sys/devices/system/node/node0/meminfo", "/sys/devices/system/node/node0/numastat"),
)
