"""A worker that explains at once, in this process."""

from __future__ import annotations

from virt_dra.controllers.operator.explanation_worker import (
    ExplanationFailed,
    ExplanationRequest,
    ExplanationResult,
    aligned_within,
    explained_within,
)
from virt_dra.controllers.operator.pending import LIMITS, Sample, View, view_of
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult


class InlineExplanations:
    """An ``ExplanationWorker`` for selectors that are trusted. ``loaded``: how many views it was given; ``aligned``:
    how many choices it made."""

    def __init__(self) -> None:
        self._view: View | None = None
        self.loaded = 0
        self.aligned = 0

    @property
    def has_view(self) -> bool:
        return self._view is not None

    async def load_view(self, sample: Sample) -> None:
        self._view = view_of(sample)
        self.loaded += 1

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        if self._view is None:
            raise ExplanationFailed("there is no view of the cluster")
        return explained_within(request, self._view, LIMITS, lambda: False)

    async def align(self, request: AlignmentRequest) -> AlignmentResult:
        if self._view is None:
            raise ExplanationFailed("there is no view of the cluster")
        result, self._view = aligned_within(request, self._view, LIMITS, lambda: False)
        self.aligned += 1
        return result

    async def close(self) -> None:
        self._view = None
