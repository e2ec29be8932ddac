"""Descriptors and memory of a job's processes, looked at while it runs and compared between times of rest in which the
cluster has the same shape."""

import os
import statistics
import threading
import time

SAMPLE_S = 0.5         # between two looks at the processes
REST_S = 10.0          # how long the cluster is left alone ...
REST_USED_S = 4.0      # ... of which the last seconds count
DESCRIPTORS_MORE = 12  # allowed: connections that are being made anew, files that are being written, and two links (5
                       # descriptors, at the other end 1) to servers that this one followed and that are still there
MEMORY_PART = 1.25     # allowed since the rest halfway: the fragments that an allocator keeps ...
MEMORY_MORE = 2 << 20  # ... and what depends on how much was under way at once


def session_processes(session):
    """(pid, name) of every process of a session."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append((int(entry), name))
    return found


def describe(pid, name):
    """`node-K` for a node; else the program and its command, such as `proteus controller`."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read().split("\0")
    except OSError:
        return name
    called = next((word.partition("=")[2] for word in words if word.startswith("--name=")), None)
    plain = words[1] if len(words) > 1 and words[1].isalpha() else ""
    return called or f"{name} {plain}".strip()


class Watcher(threading.Thread):
    """Notes how many descriptors and how much memory each process of a session has. `begun` says whether the job has
    begun to train: from then on `samples` has, by process, (seconds since then, descriptors, bytes)."""

    def __init__(self, session, begun):
        super().__init__(daemon=True)
        self.session, self.begun, self.samples, self.over = session, begun, {}, threading.Event()

    def run(self):
        while not self.begun() and not self.over.wait(0.05):
            pass
        start = time.monotonic()
        names = {}
        while not self.over.wait(SAMPLE_S):
            for pid, name in session_processes(self.session):
                try:
                    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
                    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                except OSError:
                    continue
                who = names.setdefault(pid, describe(pid, name))
                self.samples.setdefault((pid, who), []).append((time.monotonic() - start, descriptors, memory))


def growth(samples, rests):
    """Of each process that lived through at least two of the rests, which are given by their ends: (name, seconds
    between the first and the last of them, descriptors in the first, in the last, bytes in the first, in the last but
    one, in the last, whether this is more than is allowed). An allocator needs a few hundred changes until its heap is
    as large as their worst takes, so memory is compared with the rest halfway, descriptors with the first."""
    for (_, name), taken in sorted(samples.items(), key=lambda item: (item[0][1], item[0][0])):
        seen = [(end, [sample for sample in taken if end - REST_USED_S <= sample[0] <= end]) for end in rests]
        seen = [(end, there) for end, there in seen if there]
        if len(seen) < 2 or seen[-1][0] != rests[-1]:
            continue
        (first, early), (_, halfway), (last, late) = seen[0], seen[-2], seen[-1]
        few, many = (statistics.median(sample[1] for sample in there) for there in (early, late))
        small, middle, large = (statistics.median(sample[2] for sample in there) for there in (early, halfway, late))
        grew = many > few + DESCRIPTORS_MORE or large > MEMORY_PART * middle + MEMORY_MORE
        yield name, last - first, few, many, small, middle, large, grew


def table(rows):
    """`rows` of growth() as cells, with a head."""
    head = ("process", "seconds", "descriptors before", "after", "MB before", "halfway", "after", "")
    return head, [(name, f"{seconds:.0f}", f"{few:.0f}", f"{many:.0f}", f"{small / 1e6:.1f}", f"{middle / 1e6:.1f}",
                   f"{large / 1e6:.1f}", "grew" if grew else "ok")
                  for name, seconds, few, many, small, middle, large, grew in rows]
