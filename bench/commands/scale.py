"""Sites of 1, 2 and 4 peers with 1 and 2 data interfaces of 200 Mbit/s each, in the laboratory
(lab/): what one transfer carries over all of them at once, beside iperf3 on all links together.

    cargo build --release -p penstock -p penstock-lab
    penstock-bench scale [--rows near,far,loss,balance,paths] [--shapes 1x1,2x2] [--out DIR]

Rows: near (0.5 ms; large files, small ones of 64 KiB, a mix; TLS and clear), far (90 and 200 ms),
loss (90 ms, 0.01 and 0.1 % of all segments lost, beside eight plain TCP streams on each link),
balance (60 s at 2x2: bytes by interface, and what management carries), paths (four sources with
four interfaces each, and one target whose four are not what limits: 16 data paths). Of the last two
it is judged, with the exit code, whether interfaces of equals are within 5 % of their mean at both
ends, whether all 16 carry, and whether management carries requests only (1 % of the bytes).

How things are measured: rates are of the data interfaces of the target's hosts, by their own
counters, from 20 % to 80 % of all bytes that they received in the run; iperf3, eight streams from
each source to the target of the same number on each network, by the same counters over the same
part. So both count headers, and their ratio is that of payloads to about 1 %. `whole` is payload
over all seconds of the transfer, start and last sync included. Large files are generated at the
source (`mem:`), small ones and the mix lie on tmpfs and are compared byte by byte afterwards.
Needs root, Python 3.11, iperf3, etcd; some GiB below --root. Links are to limit, so `cpu` says how
much of this machine was busy, with the emulator and everything else on it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench.base import facts
from bench.base.arguments import (
    SHM,
    add_lab,
    add_out,
    add_penstock,
    choice,
    command_parser,
    end_on_signals,
)
from bench.base.processes import Failed
from bench.base.trees import fresh, same

LINK = 200e6
STREAMS = 8
ROWS = ["near", "far", "loss", "balance", "paths"]
SHAPES = ["1x1", "1x2", "2x1", "2x2", "4x1", "4x2"]
MODES = {"tls": [], "clear": ["--encryption", "off"]}
ENDED = ("done", "failed", "cancelled")
SPREAD_MAX = 0.05
MANAGEMENT_MAX = 0.01


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:6]))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def busy():
    """CPU seconds of this machine since it was started: busy, and all."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class Lab:
    """A lab of two sites of as many peers each, or as many as said."""

    def __init__(self, arguments, root, peers, nics, rate, rtt, loss="0", seconds=15, mtu=1500):
        self.program, self.penstock = arguments.lab, arguments.penstock
        self.name, self.nics = f"scale{os.getpid()}", nics
        self.peers = peers
        self.root = os.path.join(root, "lab")
        size = int(min(peers) * nics * rate / 8 * seconds) // 16 >> 20
        self.call(
            "up",
            "--root",
            self.root,
            "--penstock",
            self.penstock,
            "--sites",
            "2",
            "--peers",
            ",".join(map(str, peers)),
            "--nics",
            str(nics),
            "--nic-rate",
            str(int(rate)),
            "--rtt",
            rtt,
            "--loss",
            loss,
            "--tcp-buf",
            "64m",
            "--mtu",
            str(mtu),
            "--store",
            f"large=mem:files=16,size={max(size, 1)}M",
        )
        with open(f"/run/penstock-lab-{self.name}.json") as saved:
            self.pids = {host: daemon["id"] for host, daemon in json.load(saved)["daemons"].items()}
        self.sources = [f"a{number}" for number in range(peers[0])]
        self.targets = [f"b{number}" for number in range(peers[1])]

    def call(self, verb, *words):
        return run([self.program, verb, "--name", self.name, *words])

    def inside(self, host, *command):
        return ["ip", "netns", "exec", f"{self.name}-{host}", *command]

    def site(self, site, *words):
        return run(
            [self.penstock, *words],
            env={**os.environ, "PENSTOCK_DIR": os.path.join(self.root, site + "0")},
        )

    def received(self):
        """Bytes that each interface of the targets has received so far."""
        return self.counters(self.targets, 0)

    def sent(self):
        """Bytes that each interface of the sources has sent so far."""
        return self.counters(self.sources, 8)

    def counters(self, hosts, column):
        counts = {}
        for host in hosts:
            with open(f"/proc/{self.pids[host]}/net/dev") as table:
                for line in table:
                    name, _, rest = line.partition(":")
                    if name.strip().startswith("net"):
                        counts[f"{host}.{name.strip()}"] = int(rest.split()[column])
        return counts

    def down(self):
        self.call("down")


class Counters(threading.Thread):
    """Reads the interfaces' counters every tenth of a second until it is ended."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.ended, self.samples = lab, threading.Event(), []
        self.start()

    def run(self):
        while True:
            self.samples.append((time.monotonic(), self.lab.received()))
            if self.ended.wait(0.1):
                break

    def end(self):
        """Bits a second over all data interfaces from 20 % to 80 % of their bytes, and the bytes
        that each has received in all."""
        self.ended.set()
        self.join()
        data = lambda counts: sum(
            value for name, value in counts.items() if not name.endswith(".net0")
        )
        first, last = data(self.samples[0][1]), data(self.samples[-1][1])
        inner = [
            (at, data(counts))
            for at, counts in self.samples
            if 0.2 <= (data(counts) - first) / max(1, last - first) <= 0.8
        ]
        steady = None
        if len(inner) > 5:
            steady = (inner[-1][1] - inner[0][1]) * 8 / (inner[-1][0] - inner[0][0])
        begun, ended = self.samples[0][1], self.samples[-1][1]
        return steady, {name: ended[name] - begun[name] for name in ended}


class Bench:
    def __init__(self, arguments):
        self.arguments, self.rows, self.lab = arguments, [], None
        os.makedirs(arguments.root, exist_ok=True)
        self.root = tempfile.mkdtemp(prefix="scale-", dir=arguments.root)

    def close(self):
        if self.lab:
            self.lab.down()
        shutil.rmtree(self.root, ignore_errors=True)

    def up(self, *words, **named):
        if self.lab:
            self.lab.down()
            self.lab = None
        self.lab = Lab(self.arguments, self.root, *words, **named)

    def keep(self, name, text):
        if self.arguments.out:
            with open(os.path.join(self.arguments.out, name), "a") as out:
                out.write(text)

    def tell(self, row):
        row["load"] = round(os.getloadavg()[0], 1)
        self.rows.append(row)
        self.keep("raw.jsonl", json.dumps(row) + "\n")
        print(json.dumps(row), file=sys.stderr, flush=True)

    def measured(self, row, function):
        """Runs `function`, with the counters and the CPU beside it."""
        counters, before, sent = Counters(self.lab), busy(), self.lab.sent()
        try:
            row |= function()
        except Failed as error:
            row["error"] = str(error)
        row["steady"], row["bytes"] = counters.end()
        row["sent"] = {name: count - sent[name] for name, count in self.lab.sent().items()}
        after = busy()
        row["cpu"] = round((after[0] - before[0]) / max(1, after[1] - before[1]), 3)
        self.tell(row)
        return row

    # Movers.

    def iperf(self, seconds):
        """Eight streams on each link: from each source to the target of its number."""
        lab, servers, clients = self.lab, [], []
        links = [
            (number % lab.peers[0], number % lab.peers[1], nic)
            for number in range(max(lab.peers))
            for nic in range(1, lab.nics + 1)
        ]
        for number, (_, target, _) in enumerate(links):
            servers.append(
                subprocess.Popen(
                    lab.inside(f"b{target}", "iperf3", "-s", "-1", "-p", str(5201 + number)),
                    stdout=subprocess.DEVNULL,
                )
            )
        time.sleep(0.7)
        for number, (source, target, nic) in enumerate(links):
            clients.append(
                subprocess.Popen(
                    lab.inside(
                        f"a{source}",
                        "iperf3",
                        "-P",
                        str(STREAMS),
                        "-t",
                        str(seconds),
                        "-p",
                        str(5201 + number),
                        "-c",
                        f"10.{50 + nic}.2.{target + 1}",
                        "-J",
                    ),
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        payload = 0
        for client in clients:
            told = json.loads(client.communicate(timeout=seconds + 60)[0])
            if "error" in told:
                raise Failed(told["error"])
            payload += told["end"]["sum_received"]["bits_per_second"]
        for server in servers:
            server.wait(timeout=30)
        return {"whole": payload}

    def penstock(self, mode, source):
        lab = self.lab
        target = os.path.join(lab.root, "store-b", "out")
        fresh(target)
        ident = lab.site("b", "transfer", "submit", source, "b:data/out", *MODES[mode]).strip()
        limit = time.monotonic() + self.arguments.limit
        while True:
            view = json.loads(lab.site("b", "transfer", "show", ident, "--json"))
            if view["state"] in ENDED:
                break
            if time.monotonic() > limit:
                lab.site("b", "transfer", "cancel", ident)
                raise Failed(f"over the time limit: {view['reason']} {view['progress']}")
            time.sleep(0.2)
        progress = view["progress"]
        if view["state"] != "done":
            raise Failed(f"{view['state']}: {view['reason']}")
        place = source.removeprefix("a:data/")
        made = os.path.join(lab.root, "store-a", place.rstrip("/"))
        if place != source and not same(made, target):
            raise Failed("differs")
        logs = [os.path.join(lab.root, f"{host}.log") for host in lab.targets]
        shutil.rmtree(target)
        return {
            "whole": progress["bytes_verified"] * 8 / progress["seconds"],
            "seconds": progress["seconds"],
            "resent": progress["bytes_resent"],
            "given_up": sum(open(log).read().count("path given up") for log in logs),
        }

    def make(self, kind, seconds):
        """A set of so many seconds of all links, at the source."""
        lab = self.lab
        total = int(min(lab.peers) * lab.nics * LINK / 8 * seconds)
        place = os.path.join(lab.root, "store-a", kind)
        shutil.rmtree(place, ignore_errors=True)
        if kind in ("small", "mix"):
            part = total if kind == "small" else total // 4
            run(
                [
                    self.arguments.penstock,
                    "dataset",
                    "make",
                    os.path.join(place, "many"),
                    "--files",
                    str(part >> 16),
                    "--size",
                    "64K",
                ]
            )
        if kind == "mix":
            run(
                [
                    self.arguments.penstock,
                    "dataset",
                    "make",
                    os.path.join(place, "few"),
                    "--files",
                    "4",
                    "--size",
                    f"{total * 3 // 16 >> 20}M",
                ]
            )
        return f"a:data/{kind}/"

    # Rows.

    def run(self):
        self.say(facts.machine(self.arguments.penstock, sys.argv))
        for row in self.arguments.rows:
            getattr(self, row)()
        self.say(table(self.rows))
        verdicts = [verdict for row in self.rows for verdict in judged(row)]
        self.say(
            "\n".join(
                ["", *(f"- {text}: {'holds' if good else 'MISSED'}" for good, text in verdicts)]
            )
        )
        return not any("error" in row for row in self.rows) and all(good for good, _ in verdicts)

    def shapes(self):
        return [tuple(map(int, shape.split("x"))) for shape in self.arguments.shapes]

    def near(self):
        seconds = self.arguments.seconds
        for peers, nics in self.shapes():
            self.up([peers, peers], nics, LINK, "0.5ms", seconds=seconds)
            row = {"row": "near", "shape": f"{peers}x{nics}"}
            self.measured(row | {"mover": "iperf3"}, lambda: self.iperf(10))
            for kind in self.arguments.kinds:
                source = "a:large/" if kind == "large" else self.make(kind, seconds)
                for mode in self.arguments.modes:
                    self.measured(
                        row | {"mover": f"penstock {mode}", "kind": kind},
                        lambda: self.penstock(mode, source),
                    )
                shutil.rmtree(os.path.join(self.lab.root, "store-a", kind), ignore_errors=True)

    def far(self):
        seconds = self.arguments.seconds * 5 // 3
        for rtt in ("90ms", "200ms"):
            for peers, nics in self.shapes():
                self.up([peers, peers], nics, LINK, rtt, seconds=seconds)
                row = {"row": f"far {rtt}", "shape": f"{peers}x{nics}"}
                self.measured(row | {"mover": "iperf3"}, lambda: self.iperf(20))
                for mode in self.arguments.modes[:1]:
                    self.measured(
                        row | {"mover": f"penstock {mode}", "kind": "large"},
                        lambda: self.penstock(mode, "a:large/"),
                    )

    def loss(self):
        for peers, nics in self.shapes():
            if (peers, nics) not in ((1, 1), (2, 2), (4, 2)):
                continue
            for loss in ("0.01%", "0.1%"):
                self.up([peers, peers], nics, LINK, "90ms", loss=loss, seconds=15)
                row = {"row": f"loss {loss}", "shape": f"{peers}x{nics}"}
                self.measured(row | {"mover": "iperf3"}, lambda: self.iperf(20))
                self.measured(
                    row | {"mover": "penstock tls", "kind": "large"},
                    lambda: self.penstock("tls", "a:large/"),
                )

    def balance(self):
        rate = self.arguments.balance_rate
        self.up([2, 2], 2, rate, "0.5ms", seconds=60)
        self.measured(
            {"row": "balance", "shape": "2x2", "mover": "penstock tls", "kind": "large"},
            lambda: self.penstock("tls", "a:large/"),
        )

    def paths(self):
        """Each of 16 paths has an interface of its own at a source that limits it."""
        self.up([4, 1], 4, LINK / 8, "10ms", seconds=240, mtu=self.arguments.paths_mtu)
        for nic in range(1, 5):
            self.lab.call("set", f"b0.net{nic}", f"rate={int(LINK)}")
        row = {"row": "paths", "shape": "4,1x4"}
        self.measured(row | {"mover": "iperf3"}, lambda: self.iperf(10))
        self.measured(
            row | {"mover": "penstock tls", "kind": "large"},
            lambda: self.penstock("tls", "a:large/"),
        )

    def say(self, text):
        print(text)
        sys.stdout.flush()
        self.keep("table.md", text + "\n")


def data_of(counts):
    """Bytes by data interface, and those of management together."""
    data = {name: count for name, count in counts.items() if not name.endswith(".net0")}
    return data, sum(counts.values()) - sum(data.values())


def spread_of(counts):
    mean = statistics.mean(counts.values())
    return max(abs(count - mean) for count in counts.values()) / mean if mean else 1.0


def judged(row):
    """What is asked of a run, and whether it holds: (good, text)."""
    if row["row"] not in ("balance", "paths") or row["mover"] == "iperf3" or "error" in row:
        return
    name = f"{row['row']} {row['shape']} {row['mover']}"
    received, management = data_of(row["bytes"])
    sent, _ = data_of(row["sent"])
    for end, counts in (("targets", received), ("sources", sent)):
        spread = spread_of(counts)
        yield (
            spread <= SPREAD_MAX and min(counts.values()) > 0,
            f"{name}: {len(counts)} interfaces of the {end} are within {spread:.1%} of their "
            f"mean (at most {SPREAD_MAX:.0%})",
        )
    share = management / max(1, sum(received.values()))
    yield (
        share <= MANAGEMENT_MAX,
        f"{name}: management brought {share:.2%} of the bytes (at most {MANAGEMENT_MAX:.0%})",
    )


def table(rows):
    """A line for each run, beside the iperf3 of its lab."""
    lines = [
        "",
        "| row | peers x NICs | mover | files | steady Mbit/s | whole Mbit/s | of iperf3 "
        "| NICs, spread | management kB | CPU busy | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    beside = {}
    for row in rows:
        if "error" in row:
            what = f"{row['row']} | {row['shape']} | {row['mover']} | {row.get('kind', '')}"
            lines.append(f"| {what} | {row['error'][:200]} | | | | | | |")
            continue
        key = row["row"], row["shape"]
        if row["mover"] == "iperf3":
            beside[key] = row
        data, control = data_of(row["bytes"])
        spread = spread_of(data)
        steady, other = row["steady"], beside.get(key, {}).get("steady")
        ratio = f"{steady / other:.3f}" if steady and other else ""
        lines.append(
            f"| {row['row']} | {row['shape']} | {row['mover']} | {row.get('kind', '')} | "
            f"{(steady or 0) / 1e6:.1f} | {row['whole'] / 1e6:.1f} | {ratio} | {spread:.1%} | "
            f"{control / 1e3:.0f} | {row['cpu']:.0%} | {row['load']} |"
        )
    return "\n".join(lines)


def read_arguments(argv):
    parser = command_parser("scale", __doc__)
    add_penstock(parser)
    add_lab(parser)
    parser.add_argument(
        "--root",
        default=os.path.join(SHM, "pst-scale"),
        help="directory to work in, on tmpfs (%(default)s)",
    )
    parser.add_argument("--rows", type=choice("row", ROWS), default=ROWS, help=", ".join(ROWS))
    parser.add_argument(
        "--shapes",
        type=choice("shape", SHAPES),
        default=SHAPES,
        help="peers x interfaces: " + ", ".join(SHAPES),
    )
    kinds = ["large", "small", "mix"]
    parser.add_argument("--kinds", type=choice("kind", kinds), default=kinds, help=", ".join(kinds))
    parser.add_argument(
        "--modes", type=choice("mode", MODES), default=list(MODES), help=", ".join(MODES)
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=15,
        help="of data in a run, at the rate of all links (%(default)s)",
    )
    parser.add_argument(
        "--balance-rate",
        type=float,
        default=LINK,
        help="bits a second of each interface in the row balance (%(default)s)",
    )
    parser.add_argument(
        "--paths-mtu",
        type=int,
        default=1500,
        help="largest packet of the row `paths`, in bytes (default: %(default)s)",
    )
    parser.add_argument("--limit", type=float, default=180, help="seconds a run may take")
    add_out(parser)
    return parser.parse_args(argv)


def main(argv):
    end_on_signals()
    bench = Bench(read_arguments(argv))
    try:
        good = bench.run()
    finally:
        bench.close()
    return 0 if good else 1
