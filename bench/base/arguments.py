"""Arguments that commands share."""

import argparse
import os
import signal
import sys
import tempfile

SHM = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()


def command_parser(name, text):
    """A parser whose help is the text of a module."""
    return argparse.ArgumentParser(
        prog=f"penstock-bench {name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_penstock(parser):
    parser.add_argument(
        "--penstock",
        default="target/release/penstock",
        type=os.path.abspath,
        help="the program (%(default)s)",
    )


def add_lab(parser):
    parser.add_argument(
        "--lab",
        default="target/release/penstock-lab",
        type=os.path.abspath,
        help="the lab's program (%(default)s)",
    )


def add_out(parser):
    parser.add_argument(
        "--out", type=directory, help="new or existing directory for raw data and tables"
    )


def directory(path):
    """Makes a directory if it is not there."""
    os.makedirs(path, exist_ok=True)
    return path


def choice(kind, known):
    """A reader of comma-separated names, with hyphens or spaces; `none` for no name at all."""

    def read(text):
        names = [name.strip().replace("-", " ") for name in text.split(",")]
        if names == ["none"]:
            return []
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise argparse.ArgumentTypeError(f"no {kind} `{name}`; there are: {there}")
        return names

    return read


def end_on_signals():
    """Makes SIGTERM and SIGHUP end the program in order: neither may leave daemons behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128 + signal.SIGTERM))
