"""A diagram as its author writes it: boxes with a place on a grid, groups around boxes, arrows."""

from __future__ import annotations

from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Side = Literal["left", "right", "top", "bottom"]
Look = Literal["object", "ours", "kubernetes", "kubevirt", "driver", "plain"]


class DiagramError(ValueError):
    """A file that isn't a diagram; each fault on a line of its own."""


def lines_of(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.split("|")) if text else ()


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Box(_Written):
    """``at``: column and row, from 0; ``span``: how many of each it takes. ``text``: below the title, lines divided by
    bars."""

    at: tuple[int, int]
    title: str
    text: str = ""
    look: Look = "plain"
    span: tuple[int, int] = (1, 1)

    @property
    def lines(self) -> tuple[str, ...]:
        return lines_of(self.text)


class Group(_Written):
    """A frame around boxes."""

    title: str
    boxes: tuple[str, ...] = Field(min_length=1)
    look: Look = "plain"


class Arrow(_Written):
    """From one box to another. ``sides``: where it leaves and arrives, if not on the sides that face each other.

    ``label``: its lines are divided by bars.
    """

    start: str = Field(alias="from")
    end: str = Field(alias="to")
    label: str = ""
    dashed: bool = False
    both: bool = False
    sides: tuple[Side, Side] | None = None


class Drawing(_Written):
    """``description``: the picture in words, for those who don't see it. ``gaps``: pixels between columns and between
    rows."""

    title: str
    description: str
    gaps: tuple[int, int] = (64, 48)
    boxes: dict[str, Box]
    groups: tuple[Group, ...] = ()
    arrows: tuple[Arrow, ...] = ()


def read_drawing(text: str) -> Drawing:
    """Raises :class:`DiagramError` for what isn't a diagram, and for names of boxes that don't exist."""
    try:
        drawing = Drawing.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise DiagramError(f"not YAML: {error}") from None
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in error.errors())
        raise DiagramError("\n".join(lines)) from None
    named = [name for arrow in drawing.arrows for name in (arrow.start, arrow.end)]
    named += [name for group in drawing.groups for name in group.boxes]
    unknown = [f"no box is named {name}" for name in dict.fromkeys(named) if name not in drawing.boxes]
    taken: dict[tuple[int, int], str] = {}
    for name, box in drawing.boxes.items():
        for column in range(box.at[0], box.at[0] + box.span[0]):
            for row in range(box.at[1], box.at[1] + box.span[1]):
                other = taken.setdefault((column, row), name)
                if other != name:
                    unknown.append(f"{name} and {other} are both in column {column}, row {row}")
    if unknown:
        raise DiagramError("\n".join(unknown))
    return drawing
