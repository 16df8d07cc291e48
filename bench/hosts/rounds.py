"""Rounds of runs: each mover once a round, in random order, into an emptied target."""

import argparse
import os
import random
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from bench.base.processes import Failed
from bench.base.trees import fresh
from bench.hosts import verify
from bench.hosts.movers import MOVERS, Job
from bench.hosts.place import Place
from bench.hosts.record import Run
from bench.hosts.sets import DataSet
from bench.hosts.shell import spent


def order(seed: int, name: str, number: int, movers: list[str]) -> list[str]:
    """The order of a round: the same for the same seed, data set and round."""
    return random.Random(f"{seed} {name} {number}").sample(movers, len(movers))


class Rounds:
    """The runs of a comparison so far, and how the next are made."""

    def __init__(
        self, place: Place, job: Job, movers: list[str], arguments: argparse.Namespace
    ) -> None:
        self.place, self.job, self.movers, self.arguments = place, job, movers, arguments
        self.runs: list[Run] = []

    def run(self, data: DataSet) -> Iterator[Run]:
        """All rounds of a data set."""
        if self.place.room() < data.bytes:
            raise Failed(f"{data.name}: {self.place.there.name} has too little room for it")
        every = verify.step(self.arguments.verify, data.files)
        limit_s = self.arguments.limit
        expected = verify.manifest(self.place.here, data.path, every, limit_s)
        first = 1 if self.arguments.no_warm_up else 0
        for number in range(first, self.arguments.repeats + 1):
            movers = order(self.arguments.seed, data.name, number, self.movers)
            for position, mover in enumerate(movers):
                run = self.one(data, mover, number, position, expected, every)
                self.runs.append(run)
                say(run)
                yield run

    def one(
        self,
        data: DataSet,
        mover: str,
        number: int,
        position: int,
        expected: verify.Manifest,
        every: int,
    ) -> Run:
        """One run, and the comparison after it."""
        place = self.place
        has_two = place.there is not place.here
        run = Run(
            set=data.name,
            files=data.files,
            bytes=data.bytes,
            mover=mover,
            round=number,
            position=position,
            command="",
            begun=now(),
            wall_s=None,
            sync_s=None,
            cpu_source_s=None,
            cpu_target_s=None,
            cpu_source_by=place.here.counts,
            cpu_target_by=place.there.counts if has_two else None,
            verified=None,
            error=None,
        )
        try:
            job = self.prepare(data)
            run = self.timed(replace(run, begun=now()), job)
        except Failed as error:
            run = replace(run, error=str(error))
        run = self.ended(run)
        if run.error or self.arguments.verify == "none":
            return run

        def read() -> verify.Manifest:
            landed = self.landed(job, mover)
            return verify.manifest(place.there, landed, every, self.arguments.limit)

        wrong = verify.compare(expected, read)
        return replace(run, verified=wrong is None, error=wrong)

    def prepare(self, data: DataSet) -> Job:
        """Empties the directories of a run, at both hosts."""
        out, work_there = self.place.clear()
        return replace(
            self.job,
            source=data.path,
            out=out,
            work=fresh(f"{self.place.work}/run"),
            work_there=work_there,
            taken=set(),
        )

    def ended(self, run: Run) -> Run:
        """Ends what a run has started. A failure is an error of this run, and of no later one."""
        errors = [run.error] if run.error else []
        for host in dict.fromkeys([self.place.there, self.place.here]):
            try:
                host.stop()
            except Failed as error:
                errors.append(f"processes at {host.name} may still run: {error}")
        return replace(run, error="; ".join(errors) or None)

    def landed(self, job: Job, mover: str) -> str:
        """Where the data is now."""
        inner = f"{job.out}/{os.path.basename(job.source)}"
        if MOVERS[mover].nests and job.there.ask(f"[ -d {shlex.quote(inner)} ] && echo y || true"):
            return inner
        return job.out

    def timed(self, run: Run, job: Job) -> Run:
        """The transfer itself: the client, what ends at the target, and the sync."""
        here, there = job.here, job.there
        plan = MOVERS[run.mover].plan(job)
        has_two = there is not here
        cpu_here, cpu_there = here.cpu(), there.cpu() if has_two else 0.0
        begun = time.monotonic()
        deadline = begun + self.arguments.limit
        client = here.start(plan.client, f"{job.work}/client.log")
        waited = [(here, client), *((there, number) for number in plan.until)]
        for host, number in waited:
            if code := host.wait(number, deadline):
                said = self.said(job)
                raise Failed(f"exit code {code}: {said}")
        sync_s = None
        if job.durable and not MOVERS[run.mover].syncs:
            synced = time.monotonic()
            there.ask(f"sync -f {shlex.quote(job.out)}", self.arguments.limit)
            sync_s = round(time.monotonic() - synced, 4)
        wall = time.monotonic() - begun
        source = round(spent(here, cpu_here), 3)
        target = round(there.cpu() - cpu_there, 3) if has_two else None
        return replace(
            run,
            command=shown(plan.client, job),
            wall_s=round(wall, 4),
            sync_s=sync_s,
            cpu_source_s=source,
            cpu_target_s=target,
        )

    def said(self, job: Job) -> str:
        """The end of what a client and its servers said."""
        read = "tail -q -c 300 {}/*.log 2> /dev/null || true"
        places = dict.fromkeys([(job.here, job.work), (job.there, job.work_there)])
        told = [host.ask(read.format(shlex.quote(path))) for host, path in places]
        return " ".join(" ".join(told).split()) or "it says nothing"


def now() -> str:
    """The time, as records have it."""
    return datetime.now(UTC).strftime("%FT%TZ")


def shown(command: str, job: Job) -> str:
    """A command with names for the directories of the run, which are gone when it is read."""
    for path, name in ((job.out, "OUT"), (job.work, "WORK"), (job.source, "SOURCE")):
        command = command.replace(path, name)
    return command


def say(run: Run) -> None:
    """Tells of a run while others are to come."""
    seconds = f"{run.wall_s:.2f} s" if run.wall_s is not None else "-"
    verdict = run.error or ("verified" if run.verified else "good")
    print(f"{run.set}, round {run.round}: {run.mover}: {seconds}, {verdict}", file=sys.stderr)
