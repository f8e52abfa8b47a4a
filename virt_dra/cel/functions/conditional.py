"""Declarations that only the checker needs: the compiler translates these itself."""

from __future__ import annotations

from virt_dra.cel.functions.registry import Library

library = Library()
library.declare("_?_:_(bool, <A>, <A>) -> <A>")
