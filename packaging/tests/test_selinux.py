"""The SELinux module: compiled, and asked for what a daemon under strace has done.

The kernel of the machine has no SELinux, so the policy is not enforced here. Debian's policy is
linked with the module, and setools look for a rule that allows each access.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import cannot_run, root
from lab import Host, Lab
from sites import SYSTEM, Site, system_layer

POLICY = (
    "selinux-policy-default",
    "selinux-policy-dev",
    "policycoreutils",
    "python3-setools",
    "selinux-utils",
    "make",
    "m4",
    "checkpolicy",
)
# Accesses without which the daemon does as well: the C library tries a cache of names.
NEEDLESS = {"/var/run/nscd/socket"}

TRACED = """[Service]
ExecStart=
ExecStart=/usr/bin/strace -ff -qq -y -o /srv/trace/of -e trace=%%file,%%network -e signal=none \\
    /usr/bin/penstock daemon --dir /var/lib/penstock
SystemCallFilter=
ProtectProc=default
# The daemon lets nobody of its own user look at its memory and files, and strace is one of them.
AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
NotifyAccess=all
KillMode=mixed
"""

# Runs where the policy is: returns the accesses that no rule allows.
JUDGE = r"""
import ctypes, glob, json, sys
import setools
policy = setools.SELinuxPolicy(glob.glob("/etc/selinux/default/policy/policy.*")[0])
library = ctypes.CDLL("libselinux.so.1")
library.selabel_open.restype = ctypes.c_void_p
class Option(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("value", ctypes.c_char_p)]
place = b"/etc/selinux/default/contexts/files/file_contexts"
handle = library.selabel_open(0, (Option * 1)(Option(3, place)), 1)
assert handle
def label(path, mode):
    found = ctypes.c_char_p()
    failed = library.selabel_lookup_raw(
        ctypes.c_void_p(handle), ctypes.byref(found), path.encode(), mode)
    return None if failed else found.value.decode().split(":")[2]
generated = [(str(one.fs), one.path, str(one.context).split(":")[2]) for one in policy.genfscons()]
def of_kernel(kind, path):
    found = [(len(at), to) for fs, at, to in generated if fs == kind and path.startswith(at)]
    return max(found)[1]
allowed = {}
rules = setools.TERuleQuery(
    policy, ruletype=["allow"], source="penstock_t", source_indirect=True).results()
for rule in rules:
    targets = [str(one) for one in rule.target.expand()]
    targets = ["penstock_t" if one == "self" else one for one in targets]
    for target in targets:
        allowed.setdefault((target, str(rule.tclass)), set()).update(rule.perms)
missing = []
for path, tclass, perms in json.load(sys.stdin):
    if path.startswith(("/proc/self", "/proc/thread-self")):
        target = "penstock_t"
        if "/net" in path:
            target = of_kernel("proc", "/net")
    elif path.startswith("/proc"):
        target = of_kernel("proc", path[5:] or "/")
    elif path.startswith("/sys/fs/cgroup"):
        target = of_kernel("cgroup", "/")
    elif path.startswith("/sys"):
        target = of_kernel("sysfs", path[4:] or "/")
    elif path.startswith("tcp:"):
        port = int(path[4:])
        found = [one for one in policy.portcons()
                 if one.ports.low <= port <= one.ports.high and str(one.protocol) == "tcp"]
        best = min(found, key=lambda one: one.ports.high - one.ports.low)
        target = str(best.context).split(":")[2]
    else:
        kinds = {"file": 0o100000, "dir": 0o40000, "sock_file": 0o140000, "lnk_file": 0o120000}
        target = label(path, kinds[tclass])
    for perm in perms:
        if perm not in allowed.get((target, tclass), ()):
            missing.append(f"{target}:{tclass} {perm} ({path})")
print(json.dumps(sorted(set(missing))))
"""


def test_the_module_compiles(tmp_path: Path) -> None:
    """Promise: the module is one that a reference policy takes."""
    makefile = Path("/usr/share/selinux/devel/Makefile")
    if not makefile.exists():
        cannot_run(f"there is no {makefile} (Debian: selinux-policy-dev)")
    for file in (SYSTEM / "selinux").iterdir():
        shutil.copy(file, tmp_path)
    words = ["make", "-f", str(makefile), "penstock.pp"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()


def test_the_daemon_enters_its_domain(tmp_path: Path) -> None:
    """Promise: systemd may start the daemon in its domain under NoNewPrivileges.

    It may also where init_daemon_domain() does not allow that, as in Red Hat's policy.
    """
    share = Path("/usr/share/selinux")
    reader = Path("/usr/libexec/selinux/hll/pp")
    for needed in (share / "devel" / "Makefile", reader):
        if not needed.exists():
            cannot_run(f"there is no {needed} (Debian: selinux-policy-dev policycoreutils)")
    shutil.copytree(share / "devel", tmp_path / "share" / "devel")
    interfaces = tmp_path / "share" / "devel" / "include" / "system" / "init.if"
    lines = interfaces.read_text().splitlines(keepends=True)
    interfaces.write_text("".join(line for line in lines if ":process2" not in line))
    module = tmp_path / "module"
    shutil.copytree(SYSTEM / "selinux", module)
    makefile = tmp_path / "share" / "devel" / "Makefile"
    words = ["make", "-f", str(makefile), f"SHAREDIR={tmp_path / 'share'}", "penstock.pp"]
    done = subprocess.run(words, cwd=module, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = subprocess.run(
        [reader, "penstock.pp"], cwd=module, capture_output=True, text=True, check=True
    ).stdout
    allowed = re.findall(r"\(allow init_t penstock_t \(process2 \(([^)]*)\)\)\)", text)
    assert len(allowed) == 1, allowed
    assert set(allowed[0].split()) == {"nnp_transition", "nosuid_transition"}


def accesses(trace: str) -> list[tuple[str, str, list[str]]]:
    """Returns what a trace has done: a path, its class, and permissions."""
    found: dict[tuple[str, str], set[str]] = {}

    def add(path: str, kind: str, *permissions: str) -> None:
        if path not in NEEDLESS and not path.startswith("/srv/trace"):
            found.setdefault((path, kind), set()).update(permissions)

    for line in trace.splitlines():
        call = re.match(r"(\w+)\((.*)\) += (-?\d+)", line)
        if call is None or int(call[3]) < 0:
            continue
        name, arguments = call[1], call[2]
        paths = _paths(arguments)
        if name in ("openat", "openat2", "open") and paths:
            _add_open(add, paths[0], arguments)
        elif name == "bind" and (port := re.search(r"sin_port=htons\((\d+)\)", arguments)):
            add(f"tcp:{port[1]}", "tcp_socket", "name_bind")
        elif name == "connect" and (port := re.search(r"sin_port=htons\((\d+)\)", arguments)):
            add(f"tcp:{port[1]}", "tcp_socket", "name_connect")
        elif name == "bind" and (socket := re.search(r'sun_path="([^"]+)"', arguments)):
            add(socket[1], "sock_file", "create")
            add(str(Path(socket[1]).parent), "dir", "write", "add_name")
        elif name in ("mkdir", "mkdirat") and paths:
            add(paths[0], "dir", "create")
            add(str(Path(paths[0]).parent), "dir", "write", "add_name")
        elif name in ("unlink", "unlinkat", "rename", "renameat2", "linkat") and paths:
            for path in paths:
                add(str(Path(path).parent), "dir", "write", "remove_name", "search")
            kind = "sock_file" if paths[0].endswith(".sock") else "file"
            if "AT_REMOVEDIR" in arguments:
                add(paths[0], "dir", "rmdir")
            else:
                add(paths[0], kind, "unlink" if name.startswith("unlink") else "rename")
    for path in [path for path, kind in found if kind == "file" and (path, "dir") in found]:
        # Directories are opened without O_DIRECTORY too, to sync them.
        found[path, "dir"].update(found.pop((path, "file")))
    return [(path, kind, sorted(perms)) for (path, kind), perms in sorted(found.items())]


def _paths(arguments: str) -> list[str]:
    """Returns the absolute paths of a call; `strace -y` names the directory of a descriptor."""
    paths: list[str] = []
    base = ""
    for directory, text in re.findall(r'(?:AT_FDCWD|\d+)<([^>]*)>|"([^"]*)"', arguments):
        if directory:
            base = directory
        elif text.startswith("/"):
            paths.append(text)
        elif base.startswith("/"):
            paths.append(f"{base}/{text}".rstrip("/").removesuffix("/."))
    return paths


def _add_open(add: Callable[..., None], path: str, arguments: str) -> None:
    if "O_PATH" in arguments:
        return
    if "O_DIRECTORY" in arguments or path in ("/sys/class/powercap",):
        add(path, "dir", "open", "read", "search")
        return
    add(path, "file", "open")
    if "O_WRONLY" not in arguments:
        add(path, "file", "read")
    if "O_WRONLY" in arguments or "O_RDWR" in arguments:
        add(path, "file", "write")
    if "O_CREAT" in arguments:
        add(path, "file", "create")
        add(str(Path(path).parent), "dir", "write", "add_name")


@pytest.fixture
def traced(lab: Lab, program_layer: Path) -> str:
    """Returns the trace of a daemon that has received a data set."""
    layers = [program_layer, system_layer(), root("bookworm", "strace")]
    hosts = [lab.host(name, layers, disks=["/scratch"]) for name in ("dtn1", "dtn2")]
    for host in hosts:
        host.wait_running()
    host = hosts[1]
    host.write("/etc/systemd/system/penstock.service.d/trace.conf", TRACED)
    host.run("install", "-d", "-m", "777", "/srv/trace")
    source, target = [Site.start(one, ["/scratch/data"]) for one in hosts]
    source.pair(target)
    words = ["--files", "20", "--sizes", "1K-4M", "--seed", "1"]
    source.penstock("dataset", "make", "/scratch/data/set", *words)
    hosts[0].run("chown", "-R", "penstock:", "/scratch/data")
    target.penstock("transfer", "submit", "dtn1:data/set", "dtn2:data/", "--wait")
    target.penstock("peer", "stats")
    host.try_run("penstock", "doctor")
    host.run("systemctl", "stop", "penstock")
    return host.run("sh", "-c", "cat /srv/trace/*")


def install(host: Host) -> None:
    """Links Debian's policy with the module, without a kernel that would load it."""
    for file in (SYSTEM / "selinux").iterdir():
        host.copy(file, f"/root/module/{file.name}")
    make = "cd /root/module && make -f /usr/share/selinux/devel/Makefile penstock.pp"
    host.run("sh", "-c", make)
    host.run("semodule", "-n", "-s", "default", "-i", "/root/module/penstock.pp", seconds=600)


def test_the_policy_allows_what_a_daemon_does(lab: Lab, traced: str) -> None:
    """Promise: the module allows each file and each port that a working daemon has used."""
    done = accesses(traced)
    paths = {path for path, _, _ in done}
    assert "tcp:7444" in paths
    assert any(path.startswith("/var/lib/penstock/journal/") for path in paths)
    assert any(path.startswith("/scratch/data/set/") for path in paths)
    host = lab.host("policy", [root("bookworm", *POLICY)])
    host.wait_running()
    install(host)
    missing = json.loads(host.run("python3", "-c", JUDGE, stdin=json.dumps(done), seconds=600))
    assert missing == []
    # The judge says no where it should.
    forbidden = [("/etc/shadow", "file", ["read"]), ("tcp:22", "tcp_socket", ["name_bind"])]
    text = host.run("python3", "-c", JUDGE, stdin=json.dumps(forbidden), seconds=600)
    assert len(json.loads(text)) == len(forbidden)
