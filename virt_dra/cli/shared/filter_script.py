"""The script of pages with a filter: light to import, as the process that serves the live report reads it."""

from __future__ import annotations

from typing import Final

FILTER_SCRIPT: Final = r"""
const filter = document.getElementById("filter"), count = document.getElementById("count");
let items = [...document.querySelectorAll("[data-text]")];
function apply() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of items) {
    item.hidden = !words.every(word => item.dataset.text.includes(word));
    shown += item.hidden ? 0 : 1;
  }
  count.textContent = words.length ? shown + " of " + items.length + " match" : "";
}
filter.addEventListener("input", apply);
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== filter) { event.preventDefault(); filter.focus(); }
  if (event.key === "Escape") { filter.value = ""; apply(); }
});
"""
"""Shows only elements whose ``data-text`` has every word of the field ``filter``, and says in ``count`` how many; /
goes there, Escape clears it. Scripts that go on from it use its names: ``filter``, ``items``, ``apply``."""
