"""Keeps the memory of a virtual machine with it while a benchmark runs.

A host may take back what its guest has free, in blocks of 2 MiB (free page reporting,
Documentation/mm/free_page_reporting.rst of Linux), and does so within seconds. Whoever writes to
such memory next waits for the host: the same `cp` to tmpfs took 1.8 or 12 s, whichever mover was
measured. Here one page in each MiB is held as long as the benchmark runs, in a place from which
the kernel cannot move it: so no free block is large enough to be taken.
"""

import ctypes
import fcntl
import mmap
import os
import sys

LEFT_BYTES = 700 * 2**20
"""Left free while the rest is touched: for everybody else, and for the kernel."""
STEP_BYTES = 2**20
PIPE_PAGES = 256
F_SETPIPE_SZ = 1031


class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Held:
    """Pages that are held until `close`, or until this process ends."""

    def __init__(self):
        self.pipes = []
        drop_caches()
        steps = max(0, available() - LEFT_BYTES) // STEP_BYTES
        arena = mmap.mmap(-1, max(1, steps) * STEP_BYTES)
        arena.madvise(mmap.MADV_NOHUGEPAGE)
        handle = ctypes.c_char.from_buffer(arena)
        address = ctypes.addressof(handle)
        for step in range(steps):
            # Touched in order, memory is had in the order of its addresses.
            ctypes.memset(address + step * STEP_BYTES, 1, STEP_BYTES)
        for first in range(0, steps, PIPE_PAGES):
            self.pin(
                [
                    address + step * STEP_BYTES
                    for step in range(first, min(first + PIPE_PAGES, steps))
                ]
            )
        del handle
        arena.close()

    def pin(self, pages):
        """Puts pages into a pipe: what that holds is neither freed nor moved (vmsplice(2))."""
        reader, writer = os.pipe()
        self.pipes += [reader, writer]
        fcntl.fcntl(writer, F_SETPIPE_SZ, PIPE_PAGES * mmap.PAGESIZE)
        vectors = (IoVec * len(pages))(*(IoVec(page, mmap.PAGESIZE) for page in pages))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.vmsplice.restype = ctypes.c_ssize_t
        done = libc.vmsplice(writer, vectors, ctypes.c_size_t(len(pages)), 0)
        if done != len(pages) * mmap.PAGESIZE:
            print(
                f"memory is not held: vmsplice gave {done}, {os.strerror(ctypes.get_errno())}",
                file=sys.stderr,
            )

    def close(self):
        for descriptor in self.pipes:
            os.close(descriptor)
        self.pipes = []


def drop_caches():
    """Frees what is cached, so that it does not come to be free later; only root may."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("3")
    except OSError:
        pass


def available():
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0
