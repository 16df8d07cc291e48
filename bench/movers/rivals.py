"""The movers that Penstock is measured against, each in its best profile for two cores.

A rival's function starts its servers, moves `run.source` to `run.target` over 127.0.0.1 in one
timed part, and leaves ending the servers to the caller.
"""

import getpass
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from bench.base.processes import Failed, free_port

STREAMS = 2
FILES_IN_FLIGHT = 4
TAR_BLOCKS = "-b 256"
PIPE_BYTES = 262144


class Keys:
    """Throw-away keys of one benchmark run: for sshd, and a certificate that signs itself."""

    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def certificate(self):
        """Paths of certificate and key; `ca` beside them has it by its hash."""
        cert, key, ca = self.path("cert.pem"), self.path("key.pem"), self.path("ca")
        if not os.path.exists(cert):
            call(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout",
                key,
                "-out",
                cert,
            )
            os.makedirs(ca, exist_ok=True)
            name = call("openssl", "x509", "-hash", "-noout", "-in", cert).strip()
            shutil.copy(cert, os.path.join(ca, name + ".0"))
        return cert, key

    def sshd(self, port):
        """Command of an sshd that knows no key but its own."""
        if not os.path.exists(self.path("id")):
            for name in ("id", "host"):
                call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name))
            shutil.copy(self.path("id.pub"), self.path("authorized"))
            if os.geteuid() == 0:
                os.makedirs("/run/sshd", exist_ok=True)
        options = [
            f"ListenAddress=127.0.0.1:{port}",
            f"HostKey={self.path('host')}",
            f"AuthorizedKeysFile={self.path('authorized')}",
            "PermitRootLogin=yes",
            "StrictModes=no",
            "UsePAM=no",
            "PidFile=none",
            "MaxStartups=100",
            # What this user's shell does at its start is no cost of a rival's.
            f"SetEnv=HOME={self.directory}",
        ]
        words = [program("sshd"), "-D", "-e", "-f", "/dev/null"]
        return words + [word for option in options for word in ("-o", option)]

    def ssh(self, port):
        """Command line of the client that reaches it."""
        return (
            f"ssh -p {port} -F /dev/null -i {self.path('id')} -o StrictHostKeyChecking=no "
            "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -c aes128-gcm@openssh.com"
        )


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout


def program(name):
    """Path of a program; those for root may lie outside a user's PATH."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if name == "escp":
        return os.environ.get("ESCP") or shutil.which(name, path=path)
    return shutil.which(name, path=path)


def cp(run):
    return run.timed(f"cp -r --reflink=never {run.source}/. {run.target}/")


def tar_nc(run):
    receiver = run.serve(
        f"set -o pipefail; nc -l -N 127.0.0.1 {run.port} | tar x {TAR_BLOCKS} -C {run.target}"
    )
    send = f"tar c {TAR_BLOCKS} -C {run.source} . | nc -N 127.0.0.1 {run.port}"
    return run.timed(send, until=[receiver])


def tar_tls(run):
    cert, key = run.keys.certificate()
    socat = f"socat -u -b {PIPE_BYTES}"
    receiver = run.serve(
        f"set -o pipefail; {socat} OPENSSL-LISTEN:{run.port},bind=127.0.0.1,cert={cert},"
        f"key={key},verify=0,reuseaddr - | tar x {TAR_BLOCKS} -C {run.target}"
    )
    send = f"tar c {TAR_BLOCKS} -C {run.source} . | {socat} - OPENSSL:127.0.0.1:{run.port},verify=0"
    return run.timed(send, until=[receiver])


def rsync_daemon(run):
    config = run.write(
        "rsyncd.conf",
        "use chroot = no\nreverse lookup = no\n"
        f"{rsync_user()}[d]\npath = {run.target}\nread only = no\n",
    )
    run.serve(
        [
            "rsync",
            "--daemon",
            "--no-detach",
            f"--config={config}",
            f"--port={run.port}",
            "--address=127.0.0.1",
        ]
    )
    return run.timed(f"rsync -r -t -W {run.source}/ rsync://127.0.0.1:{run.port}/d/")


def rsync_user():
    return "uid = root\ngid = root\n" if os.geteuid() == 0 else ""


def rsync_ssh(run):
    run.serve(run.keys.sshd(run.port))
    ssh = run.keys.ssh(run.port)
    return run.timed(f"rsync -r -t -W -e '{ssh}' {run.source}/ 127.0.0.1:{run.target}/")


def gridftp_servers(run):
    """Two servers, as Globus moves data from server to server; their URLs."""
    urls = []
    for port in (run.port, free_port()):
        run.serve(
            [
                program("globus-gridftp-server"),
                "-p",
                str(port),
                "-s",
                "-aa",
                "-anonymous-user",
                getpass.getuser(),
                "-allow-root",
                "-control-interface",
                "127.0.0.1",
                "-data-interface",
                "127.0.0.1",
                "-d",
                "error",
            ],
            port,
        )
        urls.append(f"ftp://127.0.0.1:{port}")
    return urls


GRIDFTP = f"globus-url-copy -q -fast -p {STREAMS} -cc {FILES_IN_FLIGHT} -pp"


def gridftp(run):
    source, target = gridftp_servers(run)
    return run.timed(f"{GRIDFTP} -r -cd {source}{run.source}/ {target}{run.target}/")


def gridftp_md5(run):
    """With its own check: MD5 of both files. It fails on trees, so the files are listed."""
    source, target = gridftp_servers(run)
    names = sorted(os.listdir(run.source))
    if any(os.path.isdir(os.path.join(run.source, name)) for name in names):
        raise Failed("its check does not work with directories")
    pairs = [f"{source}{run.source}/{name} {target}{run.target}/{name}\n" for name in names]
    pairs = run.write("pairs", "".join(pairs))
    return run.timed(f"{GRIDFTP} -verify-checksum -f {pairs}")


def escp(run):
    """AES-GCM-128 and a CRC of each block, control over ssh; O_DIRECT off, as on tmpfs."""
    run.serve(run.keys.sshd(run.port))
    ssh = run.write("ssh", f'#!/bin/sh\nexec {run.keys.ssh(run.port)} "$@"\n')
    os.chmod(ssh, 0o755)
    binary = program("escp")
    return run.timed(
        f"{binary} -q -r --nodirect -t {STREAMS} -S {ssh} -D {binary} "
        f"--escp_port {free_port()} {run.source} 127.0.0.1:{run.target}/"
    )


def xrootd(run, tls=False):
    root = os.geteuid() == 0
    admin = run.path("adm")
    os.makedirs(admin)
    lines = [
        "all.export /",
        f"all.adminpath {admin}",
        f"all.pidpath {admin}",
        f"xrd.port {run.port}",
        "xrootd.async off nosf",
    ]
    if tls:
        lines += tls_lines(run, root)
    if root:
        for path in (run.work, admin):
            shutil.chown(path, "nobody")
    config = run.write("x.cfg", "\n".join(lines) + "\n")
    as_nobody = ["-R", "nobody"] if root else []
    run.serve(
        [
            program("xrootd"),
            "-c",
            config,
            *as_nobody,
            "-p",
            str(run.port),
            "-n",
            "pb",
            "-l",
            os.path.join(admin, "log"),
        ]
    )
    environment = (
        f"X509_CERT_DIR={run.keys.path('ca')} XRD_PARALLELEVTLOOP=2 XRD_TLSNODATA=0 XRD_NOTLSOK=0"
    )
    streams = f"-S {STREAMS - 1}" if STREAMS > 1 else ""
    return run.timed(
        f"{environment} xrdcp -s -r -f {streams} --parallel {FILES_IN_FLIGHT} "
        f"{run.source}/ root{'s' if tls else ''}://127.0.0.1:{run.port}/"
        f"{run.target}/"
    )


def tls_lines(run, root):
    cert, key = (shutil.copy(path, run.work) for path in run.keys.certificate())
    os.chmod(key, 0o400)
    if root:
        shutil.chown(key, "nobody")
    return [f"xrd.tls {cert} {key}", "xrd.tlsca noverify", "xrootd.tls capable all"]


def xrootd_tls(run):
    return xrootd(run, tls=True)


@dataclass(frozen=True)
class Rival:
    """A mover: how it runs, what it needs, and where it is left out or slow."""

    run: Callable
    programs: tuple
    encrypted: bool = False
    network: bool = True
    sets: tuple = ()
    """Data sets that it runs on; empty: all."""
    slow: tuple = ()
    """Data sets on which it takes so long that `--slow-rivals-reps` applies."""


FEW_FILES = ("one", "large")
MANY_FILES = ("mid", "small")
RIVALS = {
    "cp": Rival(cp, ("cp",), network=False),
    "tar over nc": Rival(tar_nc, ("tar", "nc")),
    "rsync daemon": Rival(rsync_daemon, ("rsync",)),
    "gridftp": Rival(gridftp, ("globus-url-copy", "globus-gridftp-server"), slow=MANY_FILES),
    "gridftp md5": Rival(
        gridftp_md5, ("globus-url-copy", "globus-gridftp-server"), sets=FEW_FILES, slow=FEW_FILES
    ),
    "escp": Rival(escp, ("escp", "sshd"), encrypted=True),
    "xrootd": Rival(xrootd, ("xrootd", "xrdcp"), sets=(*FEW_FILES, "esnet", "mid"), slow=("mid",)),
    "xrootd tls": Rival(
        xrootd_tls,
        ("xrootd", "xrdcp", "openssl"),
        encrypted=True,
        sets=(*FEW_FILES, "esnet", "mid"),
        slow=("mid",),
    ),
    "tar over tls": Rival(tar_tls, ("tar", "socat", "openssl"), encrypted=True),
    "rsync over ssh": Rival(rsync_ssh, ("rsync", "sshd"), encrypted=True),
}


def installed(rival):
    """The programs that it lacks here, if any."""
    return [name for name in RIVALS[rival].programs if not program(name)]
