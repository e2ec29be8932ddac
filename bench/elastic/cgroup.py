"""A control group with a limit on memory, for the processes of a job. It counts their memory and the page cache of the
files that they read and write; nothing of it may go to a swap device, where the kernel can limit that. Version 1 or 2,
where this user may make one; it goes when it is closed."""

import os
import time

ROOT = "/sys/fs/cgroup"


class Version1:
    folder, limit, peak = os.path.join(ROOT, "memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"
    anonymous, kills, kill_key = "total_rss", "memory.oom_control", "oom_kill"
    swap = "memory.memsw.limit_in_bytes"  # memory and swap together


class Version2:
    folder, limit, peak = ROOT, "memory.max", "memory.peak"
    anonymous, kills, kill_key = "anon", "memory.events", "oom_kill"
    swap = "memory.swap.max"


def read_text(*path):
    with open(os.path.join(*path), encoding="ascii") as file:
        return file.read()


def version():
    """What there is here; None: no groups with limits on memory."""
    if os.path.exists(os.path.join(Version1.folder, Version1.limit)):
        return Version1
    try:
        return Version2 if "memory" in read_text(ROOT, "cgroup.subtree_control").split() else None
    except OSError:
        return None


def swap_bytes():
    """What swap devices have."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("SwapTotal:"))


class Group:
    """`prefix` is a command that executes the one behind it within the group; empty without one."""

    def __init__(self, limit):
        self.limit = limit
        self.kind = version()
        self.folder = None
        self.prefix = ()
        self.swaps = True  # the group's memory may be on a swap device

    def __enter__(self):
        if self.kind is None:
            return self
        folder = os.path.join(self.kind.folder, f"proteus-bench-{os.getpid()}")
        try:
            os.mkdir(folder)
            self.folder = folder
            with open(os.path.join(folder, self.kind.limit), "w", encoding="ascii") as file:
                file.write(str(self.limit))
            self.forbid_swap()
            self.prefix = ("sh", "-c", 'echo $$ >"$0" && exec "$@"', os.path.join(folder, "cgroup.procs"))
        except OSError:
            self.__exit__()
        return self

    def forbid_swap(self):
        try:
            with open(os.path.join(self.folder, self.kind.swap), "w", encoding="ascii") as file:
                file.write(str(self.limit if self.kind is Version1 else 0))
            self.swaps = False
        except OSError:
            self.swaps = swap_bytes() > 0  # this kernel counts no swap

    def __exit__(self, *_):
        for _ in range(100):
            try:
                if self.folder is not None:
                    os.rmdir(self.folder)
                break
            except OSError:
                time.sleep(0.1)  # its processes are ending
        self.folder, self.prefix = None, ()

    def __bool__(self):
        return self.folder is not None

    def value(self, file, key):
        for line in read_text(self.folder, file).splitlines():
            name, _, number = line.partition(" ")
            if name == key:
                return int(number)
        return 0

    def peak(self):
        """The most bytes that it has had, page cache included."""
        return int(read_text(self.folder, self.kind.peak))

    def anonymous(self):
        """Bytes now that are not of files."""
        return self.value("memory.stat", self.kind.anonymous)

    def kills(self):
        """Processes that the kernel has killed, as the limit did not do."""
        return self.value(self.kind.kills, self.kind.kill_key)
