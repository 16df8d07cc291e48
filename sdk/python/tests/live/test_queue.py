"""The queue: rules of operators, deadlines, actions on many transfers."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock import ApiError, Penstock
from penstock.models import Day, DeadlinePolicy, LimitKind, Promise, QueueFilter
from tests.live.sites import data_set


def test_rules_are_set_shown_and_removed(hpc: Penstock) -> None:
    """Promise: each rule is in the queue as it was set, and is gone when it is removed."""
    queue = hpc.queue
    limit = queue.set_limit(LimitKind.PAIR, "lab", running=3, rate_bits_per_s=10**10)
    assert (limit.kind, limit.running) == ("pair", 3)
    assert queue.set_share("anna", 4).weight == 4
    assert queue.set_group_share("beam", 2).weight == 2
    assert hpc.users.set("anna", group="beam").group == "beam"
    # A window that is open would show its own limit.
    days = list(Day)
    later = days[(datetime.now(UTC).weekday() + 3) % len(days)]
    window = queue.set_window(
        "night",
        days=[later],
        from_="22:00",
        to="06:00",
        zone="Europe/Zurich",
        pair="lab",
        running=1,
    )
    assert (window.from_, window.days) == ("22:00", [later])
    queue.hold("nothing", filter=QueueFilter(user="nobody"), reason="a test", until=2**32)
    view = queue.show()
    assert [(one.name, one.running) for one in view.limits if one.kind == "pair"] == [("lab", 3)]
    assert [(one.weight, one.group) for one in view.users if one.user == "anna"] == [(4, "beam")]
    assert [one.weight for one in view.groups if one.group == "beam"] == [2]
    assert [one.name for one in view.windows] == ["night"]
    assert [(one.reason, one.holds, one.in_force) for one in view.pause_rules] == [
        ("a test", 0, True)
    ]
    queue.remove_limit("pair", "lab")
    queue.remove_share("anna")
    queue.remove_group_share("beam")
    hpc.users.remove("anna")
    queue.remove_window("night")
    queue.release("nothing")
    with pytest.raises(ApiError) as raised:
        queue.release("nothing")
    assert (raised.value.code, raised.value.problem.status) == ("queue-rule", 404)
    with pytest.raises(ApiError, match="zone"):
        queue.set_window("x", days=["mon"], from_="00:00", to="00:00", zone="No/Where", running=1)
    assert queue.show().windows == []


def test_a_hold_and_an_action_on_many(hpc: Penstock, run7: Path) -> None:
    """Promise: what is held waits for the rule; one request acts on all that fit a filter."""
    data_set(run7, files=1, size=1000)
    label = run7.name
    hpc.queue.hold("beam", filter=QueueFilter(label=label), reason="no beam")
    source = f"lab:raw/{run7.name}/"
    ids = [
        hpc.transfers.submit(source, f"hpc:scratch/{label}-{number}", label=label).id
        for number in range(3)
    ]
    paused = hpc.transfers.act_on_many("pause", filter=QueueFilter(label=label), state="queued")
    assert {item.id for item in paused.items} == set(ids)
    assert {item.state for item in paused.items} == {"paused"}
    resumed = hpc.transfers.act_on_many("resume", ids=[ids[0], "00" * 16])
    assert [item.problem and item.problem.code for item in resumed.items] == [
        None,
        "transfer-unknown",
    ]
    hpc.queue.release("beam")
    assert hpc.transfers.wait(ids[0], timeout=60).state == "done"
    hpc.transfers.act_on_many("cancel", ids=ids[1:])
    for id in ids[1:]:
        assert hpc.transfers.wait(id, timeout=60, check=False).state == "cancelled"


def test_deadlines_and_urgency(hpc: Penstock, run7: Path) -> None:
    """Promise: a deadline is promised, refused with figures, changed and taken away."""
    data_set(run7, files=1, size=1000)
    hpc.queue.hold("later", filter=QueueFilter(label=run7.name))
    soon = time.time() + 3600
    source, target = f"lab:raw/{run7.name}/", f"hpc:scratch/{run7.name}"
    transfer = hpc.transfers.submit(
        source,
        target,
        label=run7.name,
        deadline=soon,
        deadline_policy=DeadlinePolicy.BEST_EFFORT,
        progress_timeout_s=60,
        attempts_max=5,
    )
    assert transfer.deadline is not None
    assert (transfer.deadline.policy, transfer.deadline.promise) == ("best_effort", Promise.KEPT)
    with pytest.raises(ApiError) as raised:
        hpc.transfers.set_deadline(transfer.id, time.time() - 5)
    assert (raised.value.code, raised.value.problem.status) == ("deadline-unkeepable", 422)
    changed = hpc.transfers.set_deadline(transfer.id, soon + 60, policy="cancel")
    assert changed.deadline is not None
    assert changed.deadline.policy == "cancel"
    assert hpc.transfers.remove_deadline(transfer.id).deadline is None
    assert hpc.transfers.set_urgent(transfer.id).urgent
    assert not hpc.transfers.remove_urgent(transfer.id).urgent
    hpc.queue.release("later")
    assert transfer.wait(timeout=60).state == "done"
