"use strict";
// What the reader has chosen. It outlives the content, which the live page replaces.
const chosen = {search: "", answer: null, way: null, asked: "", open: new Set(), sorted: {}, filters: {}, unfolded: new Set()};
const listeners = [];  // called when `chosen` has changed

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === "") continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function drawing(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const changed = () => listeners.forEach(listener => listener());
const words = text => text.toLowerCase().split(/\s+/).filter(Boolean);
const hasAll = (text, wanted) => wanted.every(word => text.includes(word));
const counted = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;

// --- Search: waiting VMs and rows of tables, in collapsed parts, too; the map adds its nodes.

const search = document.getElementById("search"), found = document.getElementById("found");
const searched = new WeakMap();
function textOf(item) {
  if (!searched.has(item)) searched.set(item, item.textContent.toLowerCase());
  return searched.get(item);
}

function filterItems() {
  const wanted = words(chosen.search);
  let shown = 0, all = 0;
  for (const part of document.querySelectorAll("[data-searched]")) {
    const own = words(chosen.filters[part.id] || "");
    let here = 0;
    for (const item of part.querySelectorAll(".item")) {
      item.hidden = !(hasAll(textOf(item), wanted) && hasAll(textOf(item), own));
      here += item.hidden ? 0 : 1;
      all += 1;
    }
    shown += here;
    const count = part.querySelector(".count[data-of]");
    if (count) count.textContent = wanted.length || own.length ? `${here.toLocaleString("en")} of ${count.dataset.of}` : count.dataset.said;
    const within = part.closest("details.part");
    if (within) within.open = wanted.length ? here > 0 : chosen.open.has(within.id);
  }
  if (found) found.textContent = wanted.length ? [all && `${shown} of ${all} match`, mapFound()].filter(Boolean).join(", ") : "";
}
let mapFound = () => "";

// --- Tables: sorted by a column's button, filtered, copied.

function prepareTables() {
  for (const table of document.querySelectorAll("table.data")) {
    const part = table.closest("[data-searched]"), heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = element("button", {type: "button"}, head.textContent);
      button.addEventListener("click", () => sortBy(table, column, head.ariaSort === "ascending"));
      head.replaceChildren(button);
    });
    const filter = element("input", {type: "search", "aria-label": `Filter ${part.dataset.searched}`, placeholder: "Filter"});
    filter.value = chosen.filters[part.id] || "";
    filter.addEventListener("input", () => { chosen.filters[part.id] = filter.value; filterItems(); });
    const copy = element("button", {type: "button"}, "Copy as CSV");
    copy.addEventListener("click", async () => {
      copy.textContent = await copied(csv(table)) ? "Copied" : "Not copied";
      setTimeout(() => { copy.textContent = "Copy as CSV"; }, 2000);
    });
    table.before(element("div", {class: "tools"}, filter, copy));
    const [column, descending] = chosen.sorted[part.id] || [];
    if (column !== undefined) sortBy(table, column, descending);
  }
}

function sortBy(table, column, descending) {
  const order = new Intl.Collator("en", {numeric: true}), body = table.tBodies[0];
  const keyed = [...body.rows].map(row => [row.cells[column]?.textContent ?? "", row]);
  keyed.sort(([a], [b]) => (a === "") - (b === "") || (descending ? order.compare(b, a) : order.compare(a, b)));
  body.append(...keyed.map(([, row]) => row));
  [...table.tHead.rows[0].cells].forEach((head, at) => { head.ariaSort = at === column ? (descending ? "descending" : "ascending") : null; });
  chosen.sorted[table.closest("[data-searched]").id] = [column, descending];
}

function csv(table) {
  // What a spreadsheet would take for a formula gets an apostrophe: names are whatever a user wrote.
  const cell = of => `"${of.textContent.trim().replace(/^[=+\-@].|^[\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const rows = [table.tHead.rows[0], ...[...table.tBodies[0].rows].filter(row => !row.hidden && !row.classList.contains("more"))];
  return rows.map(row => [...row.cells].map(cell).join(",")).join("\r\n") + "\r\n";
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (refused) {
    const field = element("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

// --- Addresses: a fragment for each object, `#vm/team-a/late`, `#waits/…`, `#node/…`, `#device/…`.

function follow() {
  const name = decodeURIComponent(location.hash.slice(1)), target = document.getElementById(name);
  chosen.asked = name;
  if (target?.matches("details.wait")) choose(name);
  changed();
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target?.matches("details.part")) chosen.open.add(name);
  const shown = target || document.querySelector("#map .asked");
  shown?.scrollIntoView({block: "nearest"});
}

function choose(name) {
  if (chosen.answer !== name) [chosen.answer, chosen.way] = [name, null];
  for (const wait of document.querySelectorAll("details.wait")) wait.open = wait.id === name;
}

// --- The page.

function prepare() {
  prepareTables();
  for (const part of document.querySelectorAll("details.part")) {
    part.open = chosen.open.has(part.id);
    part.querySelector("summary").addEventListener("click", () => {
      if (part.open) chosen.open.delete(part.id); else chosen.open.add(part.id);
    });
  }
  for (const wait of document.querySelectorAll("details.wait")) {
    wait.open = wait.id === chosen.answer;
    wait.querySelector("summary").addEventListener("click", event => {
      event.preventDefault();
      choose(wait.open ? null : wait.id);
      history.replaceState(null, "", wait.open ? `#${encodeURI(wait.id)}` : " ");
      changed();
    });
    wait.querySelectorAll("button[data-way]").forEach(button => button.addEventListener("click", () => {
      const way = Number(button.dataset.way);
      chosen.way = chosen.way === way ? null : way;
      changed();
      document.querySelector("#map .message:not([hidden])")?.scrollIntoView({block: "nearest"});
    }));
  }
}

function pressWays() {
  for (const button of document.querySelectorAll("button[data-way]")) {
    button.ariaPressed = String(button.closest("details").id === chosen.answer && Number(button.dataset.way) === chosen.way);
  }
}
listeners.push(pressWays, filterItems);

search?.addEventListener("input", () => { chosen.search = search.value; changed(); });
document.addEventListener("keydown", event => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && search) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && search) {
    search.value = chosen.search = "";
    chosen.way = null;
    changed();
  }
});
addEventListener("hashchange", follow);
// Where a browser can't print what is collapsed, it is opened for as long as it prints.
const printed = [];
addEventListener("beforeprint", () => {
  for (const closed of document.querySelectorAll("details:not([open])")) { closed.open = true; printed.push(closed); }
});
addEventListener("afterprint", () => { while (printed.length) printed.pop().open = false; });
