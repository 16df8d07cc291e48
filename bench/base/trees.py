"""Directory trees: their size, whether two are the same, empty ones."""

import os
import shutil
import subprocess


def measure_tree(directory):
    """Number of files and their bytes."""
    files, size = 0, 0
    for parent, _, names in os.walk(directory):
        files += len(names)
        size += sum(os.path.getsize(os.path.join(parent, name)) for name in names)
    return files, size


def same(source, target):
    """Whether two trees have the same files with the same bytes, as `diff` sees it."""
    # Some movers put the directory itself into the target.
    inside = os.path.join(target, os.path.basename(source))
    landed = inside if os.path.isdir(inside) else target
    done = subprocess.run(
        ["diff", "-rq", source, landed], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def fresh(directory, mode=0o777):
    """An empty directory in the place of whatever was there."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    os.chmod(directory, mode)
    return directory
