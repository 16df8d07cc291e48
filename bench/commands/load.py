"""Loads the service of a site as months of use would, and measures what it costs: a long queue,
many running transfers, streams of events, requests at a steady rate.

    penstock-bench load [--penstock PROGRAM] [--out DIR] [--over https|socket] [--quick]

Two paired sites on this host. Site `b` gets `--queued` transfers that wait and `--running` that
run at the least rate there is, but one: that has a limit of `--rate`, and is watched. Then rounds
by turns: A without clients, B with `--listeners` streams of events and `--requests` requests a
second of what a page and the Python client ask. Each round gives the rate of the watched transfer,
the CPU of the daemon by threads, and latencies by kind, counted from when a request was due. The
same with the watched transfer without a limit: then every second of a core that the service takes
is one that the transfer lacks. At last the daemon ends and starts again, once in order and once
killed.

The clients run on the same processors and take more CPU than the daemon; the table says how much.
Run it as root with nothing else going on. Data is generated (`mem:`) and dropped (`null:`).
"""

import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import uuid

from bench.base.arguments import add_out, add_penstock, command_parser, end_on_signals
from bench.base.groups import Group
from bench.base.processes import Failed, free_port
from bench.base.trees import fresh
from bench.movers.clients import Caller, Door, Listeners, Process, Requests
from bench.movers.sites import Sites, peak_mib

USERS = 10
"""A user may have 1,000 transfers and 128 streams and requests at a time."""
CONNECTIONS = 40
RATE_LEAST = 500_000
MEM = "mem:files=16,size=64G"
SETTLE_SECONDS = 2
ALONE = 100
"""Transfers submitted one after the other, to time a submission to a full queue."""
QUICK = {"queued": 500, "running": 10, "listeners": 100, "requests": 50, "seconds": 2, "rounds": 1}


class Service:
    """Two sites, the second under load."""

    def __init__(self, arguments, root):
        self.arguments, self.group = arguments, Group("load")
        port = free_port()
        self.sites = Sites(
            os.path.abspath(arguments.penstock),
            root,
            fresh(os.path.join(root, "data")),
            self.group,
            180,
            "64G",
            {"b": [f"--web=127.0.0.1:{port}", "--store", f"mem={MEM}"]},
        )
        self.directory = self.sites.directories["b"]
        self.daemon = self.sites.daemons[1]
        self.root_door = Door(socket=os.path.join(self.directory, "penstock.sock"))
        self.user_door = self.make_users(port)
        self.door = self.root_door if arguments.over == "socket" else self.user_door
        self.ids, self.callers = [], {}

    def make_users(self, port):
        tokens = []
        for number in range(USERS):
            name, here = f"u{number}", ("--dir", self.directory)
            self.sites.call("user", "set", name, "--role", "operator", *here)
            tokens.append(self.sites.call("token", "create", "--user", name, *here).split()[-1])
        authority = self.sites.call("site", "ca", "--dir", self.directory)
        return Door(port=port, authority=authority, tokens=tokens)

    def api(self, method, path, body=None, number=None):
        """One request; as root at the socket, or as a user over HTTPS."""
        if number not in self.callers:
            door = self.root_door if number is None else self.user_door
            self.callers[number] = Caller(door, number or 0)
        status, answer = self.callers[number].ask(method, "/api/v1" + path, body)
        if status >= 300:
            raise Failed(f"{method} {path}: {status}, {answer}")
        return answer

    def submit(self, name, rate, number=None, source="a"):
        """Submits a transfer of one lane; its id."""
        body = {
            "id": uuid.uuid4().hex,
            "source": f"{source}:mem/",
            "target": f"b:null/{name}/",
            "label": name,
            "options": {"lanes": 1, "limits": {"rate_bits_per_s": rate}},
        }
        return self.api("POST", "/transfers", body, number)["id"]

    def fill(self):
        """Makes the transfers. Seconds of submissions: the median, and the slowest, of the last."""
        wanted = self.arguments
        self.api("PUT", "/queue/limits/site/b", {"running": wanted.running})
        self.watched = self.submit("watched", wanted.rate)
        for number in range(wanted.running - 1):
            # All of one other site: slow lanes leave it buffers for the watched one.
            self.submit(f"runs-{number}", RATE_LEAST)
        self.wait_running()
        took = []
        for number in range(wanted.queued):
            begun = time.monotonic()
            self.ids.append(self.submit(f"waits-{number}", RATE_LEAST, number % USERS))
            took.append(time.monotonic() - begun)
        last = took[-ALONE:]
        return {"all": sum(took), "median": statistics.median(last), "most": max(last)}

    def wait_running(self, seconds=60):
        """Waits until as many transfers run as are to; the answer of the queue."""
        deadline = time.monotonic() + seconds
        while True:
            queue = self.api("GET", "/queue")
            if queue["running"] >= self.arguments.running:
                return queue
            if time.monotonic() > deadline:
                raise Failed(f"{queue['running']} transfers run")
            time.sleep(0.05)

    def mix(self):
        """What a page and the Python client ask for, twenty requests long."""
        ids = [*self.ids[:: max(1, len(self.ids) // 500)], self.watched]
        kinds = {
            "show": (8, [f"/transfers/{id}" for id in ids]),
            "list, running": (3, ["/transfers?state=running&limit=100"]),
            "list, first page": (3, ["/transfers?limit=50"]),
            "list, by label": (
                1,
                [f"/transfers?state=queued&label=waits-{at}&limit=20" for at in (1, 42, 99)],
            ),
            "status": (2, ["/status"]),
            "queue": (1, ["/queue"]),
            "site events": (1, ["/site/events?limit=50"]),
            "me": (1, ["/me"]),
        }
        mix = []
        for kind, (times, paths) in kinds.items():
            entry = (kind, "GET", ["/api/v1" + path for path in paths], b"")
            mix += [((at + 0.5) / times, entry) for at in range(times)]
        return [entry for _, entry in sorted(mix, key=lambda it: it[0])]

    def count(self):
        """Time and bytes of the watched transfer, at a change of its counter."""
        path = f"/transfers/{self.watched}"
        first, deadline = None, time.monotonic() + 10
        while time.monotonic() < deadline:
            bytes_now, at = self.api("GET", path)["progress"]["bytes"], time.monotonic()
            if first is not None and bytes_now != first:
                return at, bytes_now
            first = bytes_now
            time.sleep(0.005)
        now = self.api("GET", path)
        raise Failed(f"the watched transfer does not move: {now['state']}, {now['reason']}")

    def set_rate(self, rate):
        self.api("PATCH", f"/transfers/{self.watched}", {"limits": {"rate_bits_per_s": rate}})

    def restart(self, number):
        """Ends the daemon by a signal and starts it again. Seconds of each step."""
        steps, begun = {}, time.monotonic()
        self.daemon.send_signal(number)
        self.daemon.wait(60)
        steps["end"] = time.monotonic() - begun
        begun = time.monotonic()
        self.daemon = self.sites.start("b")
        while True:
            try:
                self.api("GET", "/status")
                break
            except (OSError, http.client.HTTPException):
                time.sleep(0.005)
        steps["first answer"] = time.monotonic() - begun
        self.wait_running()
        steps["all run"] = time.monotonic() - begun
        return steps


def thread_cpu(pid):
    """CPU seconds of a process by the kind of its threads."""
    sums = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/stat") as stat:
                head, _, fields = stat.read().rpartition(")")
        except OSError:
            continue
        name = re.sub(r"[-0-9].*", "", head.partition("(")[2]) or "other"
        fields = fields.split()
        sums[name] = sums.get(name, 0) + (int(fields[11]) + int(fields[12])) / 100
    return sums


def memory_mib(pid):
    """Anonymous memory now, and the peak of all resident memory."""
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {
        "anon": int(fields["RssAnon"].split()[0]) / 1024,
        "peak": peak_mib(pid),
        "threads": int(fields["Threads"]),
    }


def machine_busy():
    """Seconds in which a processor worked, of all processes, and of the host (steal)."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, soft, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + soft) / 100, steal / 100


class Load:
    """The rounds: clients on and off by turns."""

    def __init__(self, service, arguments):
        self.service, self.arguments, self.rows = service, arguments, []
        self.listeners = Process(Listeners, service.door)
        self.requests = Process(Requests, service.door, CONNECTIONS, service.mix())

    def round(self, variant, with_clients):
        service, wanted = self.service, self.arguments
        pid = service.daemon.pid
        row = {"variant": variant, "clients": with_clients}
        if with_clients:
            row["connect_s"] = self.listeners.ask("begin", wanted.listeners)
            self.requests.ask("begin", wanted.requests)
        time.sleep(SETTLE_SECONDS)
        clients = [self.listeners, self.requests]
        cpu, threads, busy = [it.cpu() for it in clients], thread_cpu(pid), machine_busy()
        begun, bytes_begun = service.count()
        time.sleep(wanted.seconds)
        ended, bytes_ended = service.count()
        seconds = ended - begun
        row["rate_mbit_s"] = (bytes_ended - bytes_begun) * 8 / seconds / 1e6
        row["threads"] = {
            name: (value - threads.get(name, 0)) / seconds
            for name, value in thread_cpu(pid).items()
            if value - threads.get(name, 0) > 0.005 * seconds
        }
        row["clients_cpu"] = [(it.cpu() - was) / seconds for it, was in zip(clients, cpu)]
        row["busy"], row["steal"] = (
            (now - was) / seconds for now, was in zip(machine_busy(), busy)
        )
        row["memory_mib"] = memory_mib(pid)
        if with_clients:
            row["requests"] = self.requests.ask("end")
            row["listeners"] = self.listeners.ask("end")
            row["listeners"]["per_s"] = row["listeners"]["events"] / row["requests"]["seconds"]
        row["load"] = os.getloadavg()[0]
        self.rows.append(row)
        return row

    def rounds(self, variant):
        """Rounds by turns, A B B A; the first of each is a warm-up where there are several."""
        for at in range(self.arguments.rounds):
            for with_clients in (False, True) if at % 2 == 0 else (True, False):
                row = self.round(variant, with_clients)
                say(
                    f"{variant}, {'B' if with_clients else 'A'}: {row['rate_mbit_s']:.0f} Mbit/s, "
                    f"daemon {sum(row['threads'].values()):.2f} cores {shown(row['threads'])}, "
                    f"all {row['busy']:.2f}, steal {row['steal']:.2f}, "
                    f"clients {row['clients_cpu'][0]:.2f} + {row['clients_cpu'][1]:.2f}"
                )

    def stop(self):
        self.listeners.stop()
        self.requests.stop()


def shown(threads):
    most = sorted(threads.items(), key=lambda it: -it[1])[:8]
    return "(" + ", ".join(f"{name} {value:.2f}" for name, value in most) + ")"


def say(text):
    print(text, flush=True)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def ratio_of(rows):
    """The rate with clients by that without, of each round: the median and the range."""
    pairs = list(
        zip(
            *(
                [row["rate_mbit_s"] for row in rows if row["clients"] is kind]
                for kind in (False, True)
            )
        )
    )
    pairs = pairs[1:] if len(pairs) > 2 else pairs
    ratios = [loaded / idle for idle, loaded in pairs]
    return statistics.median(ratios), min(ratios), max(ratios)


def table(rows, facts):
    """The result as a table in Markdown, and what is missed of the targets."""
    loaded = [row for row in rows if row["clients"]]
    lines = ["| kind | bytes | p50 ms | p99 ms | most ms | answered |", "|---|---|---|---|---|---|"]
    variants = list(dict.fromkeys(row["variant"] for row in loaded))
    for variant in variants:
        of = [row["requests"] for row in loaded if row["variant"] == variant]
        for kind in sorted({kind for one in of for kind in one["times"]}):
            times = [took * 1000 for one in of for took in one["times"].get(kind, [])]
            sizes = [one["bytes"][kind] for one in of if kind in one["bytes"]]
            lines.append(
                f"| {variant}: {kind} | {statistics.median(sizes):.0f} "
                f"| {percentile(times, 0.5):.1f} "
                f"| {percentile(times, 0.99):.1f} | {max(times):.0f} | {len(times)} |"
            )
    lines += ["", "| what | figure |", "|---|---|"]
    add = lambda what, figure: lines.append(f"| {what} | {figure} |")
    for variant in variants:
        of = [row for row in rows if row["variant"] == variant]
        median, least, most = ratio_of(of)
        add(
            f"rate of the watched transfer with clients by without, {variant}",
            f"{median:.3f} [{least:.3f}–{most:.3f}]",
        )
        for kind in (False, True):
            sums = [sum(row["threads"].values()) for row in of if row["clients"] is kind]
            add(
                f"cores of the daemon, {variant}, {'with' if kind else 'without'} clients",
                f"{statistics.median(sums):.2f}",
            )
    seconds = sum(row["requests"]["seconds"] for row in loaded)
    answered = sum(row["requests"]["answered"] for row in loaded)
    add("requests answered a second", f"{answered / seconds:.0f}")
    failed = {}
    for row in loaded:
        for kind, count in row["requests"]["failed"].items():
            failed[kind] = failed.get(kind, 0) + count
    add(
        "requests that failed, and that were left",
        f"{failed or 0}, {sum(row['requests']['left'] for row in loaded)}",
    )
    total = lambda key: sum(row["listeners"][key] for row in loaded)
    per_s = statistics.median(row["listeners"]["per_s"] for row in loaded)
    add("events delivered a second, MB in all", f"{per_s:.0f}, {total('bytes') / 1e6:.0f}")
    add(
        "streams that broke, were reset, missed events, were silent",
        f"{total('broken')}, {total('resets')}, {total('missed')}, {total('silent')}",
    )
    add(
        "seconds to connect all streams",
        f"{statistics.median(row['connect_s'] for row in loaded):.1f}",
    )
    memory = [row["memory_mib"] for row in rows]
    add(
        "MiB of the daemon, anonymous and peak; threads",
        f"{max(it['anon'] for it in memory):.0f}, {max(it['peak'] for it in memory):.0f}; "
        f"{max(it['threads'] for it in memory)}",
    )
    for what, figure in facts.items():
        add(what, figure)
    add("load of the machine (1 min), greatest", f"{max(row['load'] for row in rows):.1f}")
    return "\n".join(lines)


def steps_text(steps):
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in steps.items())


def measure(arguments, root):
    """All of it, into a table. Whether nothing failed."""
    service = Service(arguments, root)
    load, facts = None, {}
    try:
        took = service.fill()
        facts["submission to a full queue, ms: median, most; all of them, s"] = (
            f"{took['median'] * 1000:.1f}, {took['most'] * 1000:.1f}; {took['all']:.0f}"
        )
        say(f"filled: {facts}")
        load = Load(service, arguments)
        load.rounds(f"{arguments.rate / 1e6:.0f} Mbit/s")
        if not (arguments.quick or arguments.limited):
            service.set_rate(None)
            load.rounds("no limit")
            service.set_rate(arguments.rate)
        for name, number in (("in order", signal.SIGTERM), ("killed", signal.SIGKILL)):
            steps = service.restart(number)
            facts[f"restart, {name}, s"] = steps_text(steps)
        text = table(load.rows, facts)
        say(text)
        keep(arguments, load.rows, text)
        return is_sound(load.rows)
    finally:
        if load:
            load.stop()
        service.sites.stop()


def is_sound(rows):
    """Whether no request failed and no stream broke or missed anything."""
    loaded = [row for row in rows if row["clients"]]
    wrong = [row["requests"]["failed"] for row in loaded if row["requests"]["failed"]]
    streams = sum(
        row["listeners"][key] for row in loaded for key in ("broken", "missed", "silent", "resets")
    )
    if wrong or streams:
        say(f"failed requests: {wrong}; streams that broke or missed something: {streams}")
    return not wrong and not streams


def keep(arguments, rows, text):
    if not arguments.out:
        return
    os.makedirs(arguments.out, exist_ok=True)
    for row in rows:
        for kind, times in row.get("requests", {}).get("times", {}).items():
            row["requests"]["times"][kind] = {
                str(share): round(percentile(times, share) * 1000, 2)
                for share in (0.5, 0.9, 0.99, 1.0)
            }
    with open(os.path.join(arguments.out, "load.jsonl"), "a") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    with open(os.path.join(arguments.out, "table.md"), "a") as out:
        out.write(text + "\n")


def main(argv):
    parser = command_parser("load", __doc__)
    add_penstock(parser)
    parser.add_argument("--root", default="/var/tmp", help="where sites keep their state: a disk")
    parser.add_argument("--over", choices=["https", "socket"], default="https")
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=100)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--requests", type=float, default=500, help="a second")
    parser.add_argument("--rate", type=int, default=1_000_000_000, help="of the watched one, bit/s")
    parser.add_argument("--seconds", type=float, default=15, help="of a round")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind")
    parser.add_argument(
        "--limited", action="store_true", help="without the rounds that have no limit"
    )
    parser.add_argument("--quick", action="store_true", help="a small one, to see that it works")
    add_out(parser)
    arguments = parser.parse_args(argv)
    if arguments.quick:
        vars(arguments).update(QUICK)
    end_on_signals()
    root = tempfile.mkdtemp(prefix="pst-load-", dir=arguments.root)
    try:
        return 0 if measure(arguments, root) else 1
    except (Failed, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error
    finally:
        shutil.rmtree(root, ignore_errors=True)
