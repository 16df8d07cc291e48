"""Tests of the report: which runs count, ratios, and what is told of failures."""

import json
import unittest
from dataclasses import replace

from bench.hosts import record, rounds, table

RUN = record.Run(
    set="small",
    files=1000,
    bytes=4_096_000,
    mover="penstock",
    round=1,
    position=0,
    command="penstock copy SOURCE/ OUT",
    begun="2026-11-26T20:15:00Z",
    wall_s=2.0,
    sync_s=None,
    cpu_source_s=0.5,
    cpu_target_s=None,
    cpu_source_by="processes",
    cpu_target_by=None,
    verified=True,
    error=None,
)
BENCH = record.Bench(
    format=record.FORMAT,
    begun="2026-11-26T20:15:00Z",
    command=["penstock-bench"],
    seed=7,
    source="/a",
    target="/b",
    durable=True,
    verify="all",
    repeats=3,
    hosts={"source": "here"},
    movers={
        name: {
            "version": f"{name} 1",
            "encrypted": "no",
            "verifies": "no",
            "resumes": "no",
            "durable": "no",
        }
        for name in ("penstock", "tar-nc")
    },
    missing={"rclone": ["rclone at here (package: rclone)"]},
)


def runs(mover: str, *seconds: float) -> list[record.Run]:
    """Runs of a mover, the first one its warm-up."""
    return [
        replace(RUN, mover=mover, round=number, wall_s=wall) for number, wall in enumerate(seconds)
    ]


class Tables(unittest.TestCase):
    def test_ratios_pair_runs_of_the_same_round_without_the_warm_up(self) -> None:
        ours, theirs = runs("penstock", 9, 1, 2, 4), runs("tar-nc", 1, 2, 2, 2)
        self.assertEqual(sorted(table.ratios(ours + theirs, "tar-nc")), [0.5, 1.0, 2.0])

    def test_equal_rounds_count_each(self) -> None:
        both = runs("penstock", 9, 1, 1) + runs("tar-nc", 9, 2, 2)
        self.assertEqual(table.ratios(both, "tar-nc"), [2.0, 2.0])

    def test_a_failed_run_has_no_partner(self) -> None:
        ours = runs("penstock", 9, 1, 2)
        ours[2] = replace(ours[2], wall_s=None, error="killed")
        self.assertEqual(table.ratios(ours + runs("tar-nc", 9, 3, 3), "tar-nc"), [3.0])

    def test_a_run_that_differs_is_no_figure(self) -> None:
        wrong = replace(RUN, verified=False, error="contents of files differ")
        text = table.set_table([RUN, replace(wrong, round=2, wall_s=0.1)])
        self.assertIn("| penstock | 2.00 | 2.0 | 500 | 1 | 0.50 | 1 of 2 | 1 of 2 |", text)
        self.assertIn("- penstock, round 2: contents of files differ", text)

    def test_the_same_failure_is_told_once(self) -> None:
        wrong = [replace(RUN, round=number, error="a|b", wall_s=None) for number in (1, 2)]
        self.assertEqual(table.failures(wrong), ["- penstock, rounds 1, 2: a\\|b"])

    def test_median_least_and_greatest(self) -> None:
        self.assertEqual(table.spread([3, 1, 2], 1), "2.0 (1.0–3.0)")
        self.assertEqual(table.spread([], 1), "-")

    def test_the_fastest_is_first_and_what_is_missing_is_named(self) -> None:
        both = runs("penstock", 9, 2, 2, 2) + runs("tar-nc", 9, 1, 1, 1)
        text = table.report(BENCH, both)
        self.assertLess(text.index("| tar-nc | 1.00"), text.index("| penstock | 2.00"))
        self.assertIn("- rclone: rclone at here (package: rclone)", text)
        self.assertIn("3 rounds cannot show small differences", text)

    def test_a_target_of_its_own_has_its_cpu(self) -> None:
        text = table.set_table([replace(RUN, cpu_target_s=1.5, cpu_target_by="host")])
        self.assertIn("CPU s, source | CPU s, target", text)
        self.assertIn("| 0.50 | 1.50 |", text)


class Records(unittest.TestCase):
    def test_lines_are_json_and_say_their_kind(self) -> None:
        self.assertEqual(json.loads(json.dumps(record.line("run", RUN)))["mover"], "penstock")
        self.assertEqual(record.line("bench", BENCH)["format"], record.FORMAT)


class Order(unittest.TestCase):
    def test_it_follows_from_the_seed_and_differs_between_rounds(self) -> None:
        movers = list("abcdefg")
        once = [rounds.order(7, "small", number, movers) for number in range(5)]
        self.assertEqual(once, [rounds.order(7, "small", number, movers) for number in range(5)])
        self.assertGreater(len({tuple(order) for order in once}), 1)
        self.assertTrue(all(sorted(order) == movers for order in once))


if __name__ == "__main__":
    unittest.main()
