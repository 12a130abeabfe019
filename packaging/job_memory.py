"""Prints how many MiB of memory each job of a build may take: Ninja runs two more of them than there are cores."""
import os


def limits():
    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        try:
            with open(file, encoding="ascii") as text:
                limit = text.read().strip()
        except OSError:
            continue
        if limit.isdigit():
            yield int(limit)


print((min(limits()) // ((os.cpu_count() or 1) + 2)) >> 20)
