#!/usr/bin/env python3
"""One and two network cards of 200 Mbit/s each, in the laboratory: Penstock against iperf3.

Usage: run.py PENSTOCK LAB SECONDS_OF_DATA RTT [OUT]. Needs root, iproute2, iperf3. Appends JSON
lines to OUT: bytes by the interfaces' own counters, seconds, rates, CPU seconds of both daemons.
"""
import json, os, shutil, subprocess, sys, tempfile, time

PENSTOCK, LAB, SECONDS, RTT = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
OUT = sys.argv[5] if len(sys.argv) > 5 else "/dev/stdout"
LOSS = os.environ.get("LOSS", "0")
NAME, RATE = f"nics{os.getpid()}", 200e6
NETWORKS = """
[[network]]
name = "mgmt"
role = "control"
interface = "net0"
"""
DATA = '[[network]]\nname = "fast{0}"\ninterface = "net{1}"\n'


def run(*args, **kw):
    return subprocess.run(args, check=True, capture_output=True, text=True, **kw).stdout


def inside(host, *args):
    return ("ip", "netns", "exec", f"{NAME}-{host}", *args)


def counter(host, device):
    base = f"/sys/class/net/{device}/statistics/"
    return sum(map(int, run(*inside(host, "cat", base + "rx_bytes", base + "tx_bytes")).split()))


def iperf(nics, seconds=8):
    servers, clients = [], []
    for nic in nics:
        to = f"10.{50 + nic}.2.1"
        servers.append(subprocess.Popen(inside("b0", "iperf3", "-s", "-1", "-B", to),
                                        stdout=subprocess.DEVNULL))
    time.sleep(0.5)
    for nic in nics:
        clients.append(subprocess.Popen(
            inside("a0", "iperf3", "-J", "-P", "8", "-O", "4", "-t", str(seconds), "-c", f"10.{50 + nic}.2.1"),
            stdout=subprocess.PIPE, text=True))
    ends = [json.loads(client.communicate()[0])["end"] for client in clients]
    [server.wait() for server in servers]
    return sum(end["sum_received"]["bits_per_second"] for end in ends)


def tell(**row):
    with open(OUT, "a") as out:
        out.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def site(root, name, nics):
    path = f"{root}/site-{name}"
    os.mkdir(f"{root}/store-{name}")
    run(PENSTOCK, "site", "init", "--name", name, "--dir", path, f"--store=data={root}/store-{name}")
    with open(path + "/penstock.toml", "a") as toml:
        toml.write(NETWORKS + "".join(DATA.format(nic - 1, nic) for nic in nics))
    daemon = subprocess.Popen(inside(name + "0", PENSTOCK, "daemon", "--dir", path),
                              stdout=subprocess.PIPE, stderr=open(path + "/log", "w"), text=True)
    assert daemon.stdout.readline().startswith("ready")
    return path, daemon


def make(root, kind, total):
    base = f"{root}/store-a/{kind}-{int(total)}"
    os.makedirs(base)
    block = os.urandom(1 << 20)
    if kind == "large":
        for number in range(4):
            with open(f"{base}/{number}", "wb") as out:
                for part in range(int(total) // 4 >> 20):
                    out.write(part.to_bytes(8, "little") + block[8:])
    else:
        for number in range(int(total) // 65536):
            directory = f"{base}/{number // 500}"
            os.makedirs(directory, exist_ok=True)
            with open(f"{directory}/{number}", "wb") as out:
                out.write(number.to_bytes(8, "little") + block[8:65536])
    return os.path.basename(base)


def measure(count, kinds):
    nics = list(range(1, count + 1))
    root = tempfile.mkdtemp(dir="/dev/shm")
    try:
        a, source = site(root, "a", nics)
        b, target = site(root, "b", nics)
        token = run(PENSTOCK, "site", "pair", "--dir", a).strip()
        run(PENSTOCK, "site", "pair", token, "--dir", b)
        for kind in kinds:
            total = RATE / 8 * count * SECONDS
            name = make(root, kind, total)
            devices = [f"net{nic}" for nic in [0, *nics]]
            before = [counter("b0", device) for device in devices]
            spent = cpu(source.pid) + cpu(target.pid)
            load = os.getloadavg()[0]
            begun = time.monotonic()
            ident = run(PENSTOCK, "transfer", "submit", f"a:data/{name}/", f"b:data/{name}", "--dir", b).strip()
            samples = []
            while True:
                sample = [(time.monotonic(), counter("b0", device)) for device in devices]
                samples.append((time.monotonic() - begun, sample))
                view = json.loads(run(PENSTOCK, "transfer", "show", ident, "--json", "--dir", b))
                if view["state"] in ("done", "failed", "cancelled"):
                    break
                time.sleep(0.25)
            after = [counter("b0", device) for device in devices]
            progress = view["progress"]
            # Steady state: what the data interfaces took between a third and two thirds of the time.
            third = [s for s in samples if samples[-1][0] * 0.33 <= s[0] <= samples[-1][0] * 0.8]
            ends = zip(third[0][1], third[-1][1]) if len(third) > 1 else []
            steady = [(y[1] - x[1]) * 8 / (y[0] - x[0]) for x, y in ends][1:]
            tell(what="penstock", nics=count, rtt=RTT, loss=LOSS, kind=kind, state=view["state"],
                 bytes=progress["bytes_verified"], seconds=progress["seconds"], resent=progress["bytes_resent"],
                 mbit_per_s=round(progress["bytes_verified"] * 8 / progress["seconds"] / 1e6, 1),
                 steady_wire_mbit_per_s=[round(rate / 1e6, 1) for rate in steady],
                 nic_bytes={d: y - x for d, x, y in zip(devices, before, after)},
                 given_up=open(b + "/log").read().count("path given up"),
                 cpu_seconds=round(cpu(source.pid) + cpu(target.pid) - spent, 2), load_before=load)
            shutil.rmtree(f"{root}/store-a/{name}")
            shutil.rmtree(f"{root}/store-b/{name}", ignore_errors=True)
    finally:
        for daemon in (source, target):
            daemon.kill()
            daemon.wait()
        shutil.rmtree(root, ignore_errors=True)


run(LAB, "up", "--name", NAME, "--nics", "3", "--rate", "0,200m,200m", "--rtt", RTT, "--loss", LOSS, "--tcp-buf", "64m")
try:
    for count in map(int, os.environ.get("COUNTS", "1,2").split(",")):
        nics = list(range(1, count + 1))
        if "NOIPERF" not in os.environ:
            tell(what="iperf3", nics=count, rtt=RTT, loss=LOSS,
                 mbit_per_s=round(iperf(nics) / 1e6, 1), load_before=os.getloadavg()[0])
        measure(count, os.environ.get("KINDS", "large,small").split(","))
finally:
    subprocess.run([LAB, "down", "--name", NAME])
