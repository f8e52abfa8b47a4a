"""The amount of work that a search puts into pruning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Thresholds of the pruning. They decide how long a search takes, never which solution or error it ends with."""

    patience: int | None = 64
    """Steps before pruning begins: its set-up costs more than a short search does. None: the search never prunes."""
    look_ahead: int = 300
    """Steps before lower bounds also count requests that the search hasn't reached, and are computed for every
    choice."""
    nogoods: int = 100_000
    """Failed states that are remembered; failures beyond it are found again."""
    tried_labels: int = 1_000
    """Labels (model.DeviceLabeler) that one lower bound tries before it gives up and prunes nothing."""
    packing_interval: int = 32
    """Of so many lower bounds that are inconclusive, one searches for new dual prices (pruning/bin_packing.py); the
    interval doubles with each search without success."""
    kept_prices: int = 4
    """Dual prices that are kept to be tried again on later bounds."""
    price_rounds: int = 40
    """Rounds of improving dual prices."""
    bin_fillings: int = 100
    """Nodes of the knapsack search for one bin; beyond it the bin counts with its fractional relaxation."""
    counter_bound: int = 6
    """Devices that must be wanted before the bound on counters is computed; fewer are searched sooner."""


DEFAULT_EFFORT = Effort()
