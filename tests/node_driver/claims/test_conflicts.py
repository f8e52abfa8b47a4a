"""A device isn't given to two claims: what clashes has a name in common, so that skipping the rest skips no clash."""

from __future__ import annotations

import random
from collections import Counter

from node_driver.claims.planning import check_free, conflict
from node_driver.claims.refusals import ClaimRefusal
from node_driver.devices import DeviceKind, Sanitizing
from node_driver.state.records import ClaimRecord, DeviceRecord, DriverState, Stage

PAIRS = 20_000


def _names(rng: random.Random, prefix: str, most: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in rng.sample(range(12), rng.randint(0, most)))


def _device(rng: random.Random) -> DeviceRecord:
    """Whatever a record has is random: a new rule may compare any of it."""
    kind = rng.choice(list(DeviceKind))
    return DeviceRecord(
        f"device-{rng.randrange(12)}",
        kind,
        rng.choice(["gpu", "gpu/large"]),
        f"address-{rng.randrange(12)}",
        parent=f"address-{rng.randrange(12)}" if kind is DeviceKind.MDEV else "",
        type_id=rng.choice(["", "11", "12"]),
        members=_names(rng, "address", 3),
        target_driver=rng.choice(["", "vfio-pci", "ice"]),
        exclusive=_names(rng, "group", 2),
        sanitizing=rng.choice(list(Sanitizing)),
        network=rng.choice(["", '{"vlan": 1}']),
        hardware_address=rng.choice(["", "02:00:00:00:00:01"]),
        share_id=rng.choice(["", "share"]),
    )


def _claim(uid: str, device: DeviceRecord, pod: str) -> ClaimRecord:
    return ClaimRecord(uid, "team", f"claim-{uid}", Stage.DONE, (pod,), devices=(device,))


def _refusal(ours: ClaimRecord, theirs: ClaimRecord) -> str:
    try:
        check_free(DriverState().with_claim(theirs), ours)
    except ClaimRefusal as refusal:
        return str(refusal)
    return ""


def test_every_conflict_is_refused_and_nothing_else() -> None:
    rng = random.Random(11)
    reasons: Counter[str] = Counter()
    for _ in range(PAIRS):
        ours, theirs, same_pods = _device(rng), _device(rng), rng.random() < 0.5
        reason = conflict(ours, theirs, same_pods)
        refusal = _refusal(_claim("a", ours, "pod-b" if same_pods else "pod-a"), _claim("b", theirs, "pod-b"))
        assert refusal.startswith(f"device {ours.device} {reason} ResourceClaim team/claim-b (b)" if reason else ""), (
            ours,
            theirs,
        )
        assert bool(refusal) == bool(reason), (ours, theirs)
        reasons[reason] += 1
    assert len(reasons) == 4
    assert min(reasons.values()) > PAIRS // 100, reasons
