"""The movers: how each moves a tree, on one host or by way of ssh; what it needs, does and lacks.

A mover's function starts its servers and gives the command of its client. Whoever calls it times
that command, and ends the servers. All keep modes and times, and copy whole files.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.base.processes import Failed
from bench.hosts.shell import Host, find, is_used, sockets, tail, wait_listening

STREAMS = 4
FILES_IN_FLIGHT = 4
TAR_BLOCKS = "-b 256"
LOOPBACK = "127.0.0.1"
quote = shlex.quote


@dataclass
class Job:
    """One transfer: from a directory of this host to an empty directory `out` at `there`."""

    source: str
    out: str
    here: Host
    there: Host
    work: str
    """A directory of this run's own at this host."""
    work_there: str
    ssh: list[str]
    destination: str
    """`[user@]host` for ssh; empty on one host."""
    address: str
    """Where servers of the target are reached."""
    ssh_settings: dict[str, str]
    """What ssh knows of the destination: hostname, user, port, identityfile."""
    ports: tuple[int, int]
    durable: bool
    penstock: str
    options: dict[str, str] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    @property
    def is_local(self) -> bool:
        """Whether source and target are on one host."""
        return not self.destination

    def remote(self, path: str) -> str:
        """A path at the target, as programs like rsync have it."""
        return path if self.is_local else f"{self.destination}:{path}"

    def port(self, host: Host) -> int:
        """A port of the range that nothing uses."""
        table = sockets(host)
        for port in range(self.ports[0], self.ports[1] + 1):
            if port not in self.taken and not is_used(table, port):
                self.taken.add(port)
                return port
        raise Failed(f"{host.name} has no free port from {self.ports[0]} to {self.ports[1]}")

    def serve(self, host: Host, command: str, port: int) -> int:
        """Starts a server and waits until it listens."""
        work = self.work if host is self.here else self.work_there
        log = f"{work}/server.log"
        number = host.start(command, log)
        try:
            wait_listening(host, port)
        except Failed as error:
            said = tail(host.ask(f"cat {quote(log)}")) or "it says nothing"
            raise Failed(f"{error}: {said}") from error
        return number

    def ssh_program(self) -> str:
        """Path of a program that runs ssh with its options, for movers that take but a path."""
        path = f"{self.work}/ssh"
        with open(path, "w") as out:
            out.write(f'#!/bin/sh\nexec {shlex.join(self.ssh)} "$@"\n')
        self.here.ask(f"chmod 755 {quote(path)}")
        return path


@dataclass(frozen=True)
class Plan:
    """The command of a client, and what has to end at the target before a transfer is over."""

    client: str
    until: tuple[int, ...] = ()


def penstock(job: Job) -> Plan:
    words = [job.penstock, "copy", "--no-progress"]
    words += ["--durability", "batch" if job.durable else "none"]
    if not job.is_local:
        words += ["--ssh", shlex.join(job.ssh), "--lane-address", job.address]
    command = shlex.join([*words, f"{job.source}/", job.remote(job.out)])
    return Plan(with_options(command, job, "penstock"))


def with_options(command: str, job: Job, mover: str) -> str:
    """The command with the options of the user's own."""
    return f"{command} {job.options[mover]}" if job.options.get(mover) else command


def cp(job: Job) -> Plan:
    client = with_options("cp -a --reflink=never", job, "cp")
    return Plan(f"{client} {quote(job.source)}/. {quote(job.out)}/")


def scp(job: Job) -> Plan:
    client = with_options(f"scp -q -r -p -S {quote(job.ssh_program())}", job, "scp")
    return Plan(f"{client} {quote(job.source)}/. {quote(job.remote(job.out))}/")


def rsync(job: Job) -> Plan:
    client = with_options("rsync -a -W", job, "rsync")
    shell = "" if job.is_local else f"-e {quote(shlex.join(job.ssh))} "
    return Plan(f"{client} {shell}{quote(job.source)}/ {quote(job.remote(job.out))}/")


def rclone(job: Job) -> Plan:
    """With its own check by MD5, where the target has md5sum. It has an ssh client of its own."""
    client = with_options(f'rclone copy --config "" --transfers {FILES_IN_FLIGHT}', job, "rclone")
    if job.is_local:
        return Plan(f"{client} {quote(job.source)} {quote(job.out)}")
    known = job.ssh_settings
    words = ["--sftp-host", known["hostname"], "--sftp-user", known["user"]]
    words += ["--sftp-port", known["port"]]
    if "identityfile" in known:
        words += ["--sftp-key-file", known["identityfile"]]
    if "userknownhostsfile" in known:
        words += ["--sftp-known-hosts-file", known["userknownhostsfile"]]
    return Plan(f"{client} {shlex.join(words)} {quote(job.source)} {quote(':sftp:' + job.out)}")


def tar_nc(job: Job) -> Plan:
    port = job.port(job.there)
    at = f"{LOOPBACK} {port}" if job.is_local else str(port)
    receiver = job.serve(
        job.there,
        f"nc -l {netcat(job.there, 'recv')} {at} | tar -x -p {TAR_BLOCKS} -C {quote(job.out)}",
        port,
    )
    send = f"nc {netcat(job.here, 'send')} {quote(job.address)} {port}"
    return Plan(f"tar -c {TAR_BLOCKS} -C {quote(job.source)} . | {send}", (receiver,))


def netcat(host: Host, way: str) -> str:
    """The option by which a netcat ends with its input: OpenBSD's, or that of Nmap."""
    return f"--{way}-only" if "Ncat" in host.ask("nc -h 2>&1 || true") else "-N"


def gridftp(job: Job) -> Plan:
    """From server to server, as Globus moves data; each may touch its own directory only."""
    urls = []
    for host, path, right in ((job.here, job.source, "R"), (job.there, job.out, "RW")):
        local = job.is_local or host is job.here
        port, server = job.port(host), find(host, "globus-gridftp-server")
        words = [server, "-p", str(port), "-s", "-aa", "-rp", f"{right}{path}", "-d", "error"]
        words += ["-control-interface", LOOPBACK] if local else []
        words += ["-data-interface", LOOPBACK] if job.is_local else []
        if host.ask("id -u").strip() == "0":
            words += ["-anonymous-user", "root", "-anonymous-group", "root", "-allow-root"]
        job.serve(host, f"exec {shlex.join(words)}", port)
        urls.append(f"ftp://{LOOPBACK if local else job.address}:{port}{path}/")
    client = f"globus-url-copy -q -fast -p {STREAMS} -cc {FILES_IN_FLIGHT} -pp -r -cd"
    return Plan(f"{with_options(client, job, 'gridftp')} {shlex.join(urls)}")


def xrootd(job: Job) -> Plan:
    """A server that may write to its own directory only; it refuses to run as root."""
    port, server = job.port(job.there), find(job.there, "xrootd")
    admin = f"{job.work_there}/xrootd"
    config = "\n".join(
        [
            f"all.export {job.out}",
            f"all.adminpath {admin}",
            f"all.pidpath {admin}",
            f"xrd.port {port}",
            "xrootd.async off nosf",
        ]
    )
    job.there.ask(f"mkdir -p {quote(admin)} && cat > {quote(admin)}/x.cfg <<'END'\n{config}\nEND")
    words = [server, "-c", f"{admin}/x.cfg", "-p", str(port), "-n", "bench", "-l", f"{admin}/log"]
    if job.there.ask("id -u").strip() == "0":
        job.there.ask(f"chown -R nobody {quote(admin)} {quote(job.out)}")
        words += ["-R", "nobody"]
    job.serve(job.there, f"exec {shlex.join(words)}", port)
    client = f"xrdcp -s -r -f -S {STREAMS - 1} --parallel {FILES_IN_FLIGHT}"
    url = f"root://{job.address}:{port}/{job.out}/"
    return Plan(f"{with_options(client, job, 'xrootd')} {quote(job.source)}/ {quote(url)}")


def escp(job: Job) -> Plan:
    """AES-GCM and a CRC of each block; direct I/O where the target has it."""
    kind = job.there.ask(f"stat -f -c %T {quote(job.out)}").strip()
    direct = "--nodirect " if kind == "tmpfs" else ""
    client = with_options(f"escp -q -r {direct}-t {STREAMS}", job, "escp")
    return Plan(
        f"{client} -S {quote(job.ssh_program())} --escp_port {job.port(job.there)} "
        f"{quote(job.source)}/ {quote(job.remote(job.out))}/"
    )


@dataclass(frozen=True)
class Mover:
    """What a mover is: how it runs, what it needs, and what it does for the data."""

    plan: Callable[[Job], Plan]
    here: tuple[str, ...]
    """Programs that it needs at the source; on one host those of the target too."""
    there: tuple[str, ...]
    encrypted: str
    verifies: str
    resumes: str
    local: bool = True
    remote: bool = True
    is_open: bool = False
    """Whether anybody may connect to a port at the target while it runs."""
    nests: bool = False
    """Whether it may put the directory itself into the target, instead of its contents."""
    syncs: bool = False
    """Whether it makes data durable itself; for others `sync -f` at the target is timed too."""


MOVERS = {
    "penstock": Mover(
        penstock,
        ("penstock",),
        (),
        "TLS 1.3, keys by ssh",
        "BLAKE3 of each file",
        "yes",
        syncs=True,
    ),
    "rsync": Mover(
        rsync, ("rsync",), ("rsync",), "ssh", "MD5 or XXH of what was sent", "by comparing again"
    ),
    "rclone": Mover(rclone, ("rclone",), (), "ssh (SFTP)", "MD5, reads all again", "whole files"),
    "tar-nc": Mover(tar_nc, ("tar", "nc"), ("tar", "nc"), "no", "no", "no", is_open=True),
    "gridftp": Mover(
        gridftp,
        ("globus-url-copy", "globus-gridftp-server"),
        ("globus-gridftp-server",),
        "no",
        "no (-verify-checksum fails on trees)",
        "no",
        is_open=True,
    ),
    "xrootd": Mover(xrootd, ("xrdcp",), ("xrootd",), "no", "no", "no", is_open=True, nests=True),
    "escp": Mover(
        escp, ("escp",), ("escp",), "AES-GCM", "CRC of each block", "no", local=False, nests=True
    ),
    "cp": Mover(cp, ("cp",), (), "no network", "no", "no", remote=False),
    "scp": Mover(scp, ("scp",), (), "ssh", "no", "no", local=False),
}
PACKAGES = {
    "penstock": "penstock",
    "rsync": "rsync",
    "rclone": "rclone",
    "tar": "tar",
    "nc": "netcat-openbsd",
    "globus-url-copy": "globus-gass-copy-progs",
    "globus-gridftp-server": "globus-gridftp-server-progs",
    "xrdcp": "xrootd-client",
    "xrootd": "xrootd-server",
    "escp": "none; source: https://github.com/esnet/EScp",
    "cp": "coreutils",
    "scp": "openssh-client",
}
"""The package of Debian that has a program."""
VERSIONS = {
    "tar-nc": "tar --version",
    "gridftp": "globus-url-copy -version",
    "xrootd": "xrdcp --version",
    "scp": "ssh -V",
}
"""Commands that tell a version, where it is not `NAME --version`."""


def lacking(name: str, job: Job) -> list[str]:
    """The programs that a mover lacks, each with where and the package that has it."""
    mover = MOVERS[name]
    places = [(job.here, mover.here), (job.there, mover.there)]
    lacks = []
    for host, programs in places:
        for program in programs:
            wanted = job.penstock if program == "penstock" else program
            if not find(host, wanted):
                lacks.append(f"{program} at {host.name} (package: {PACKAGES[program]})")
    return list(dict.fromkeys(lacks))


def version(name: str, job: Job) -> str:
    """The first line in which a mover tells its version."""
    command = VERSIONS.get(name, f"{name} --version")
    if name == "penstock":
        command = f"{quote(job.penstock)} --version"
    told = job.here.ask(f"({command}) 2>&1 || true").strip()
    return told.splitlines()[0] if told else "unknown"
