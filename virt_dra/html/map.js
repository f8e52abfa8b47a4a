// The map of devices: nodes, their PCIe roots, devices; like nodes as one card; many nodes as a heat map. What the
// chosen answer says lights up. Data: virt_dra/cli/topology/map_data.py.
const MEMBERS = ["driver", "pool", "name", "model", "address", "state", "states", "holders", "more"];
const FOLDED = 60;  // nodes from which on there is a heat map
const CARDS = 60, SINGLE = 24;  // cards at once, and nodes of a folded card that are shown by themselves
const SIGNS = JSON.parse(document.getElementById("signs").textContent);
const HELD = ["allocated", "shared"], WELL = [...HELD, "free"];

class Cluster {
  constructor(data) {
    this.nodes = data.nodes;
    this.folds = data.folds;
    this.answers = data.answers;
    this.devices = [];
    const text = number => data.texts[number];
    this.nodes.forEach((node, number) => {
      node.number = number;
      node.devices = [];
      for (const root of node.roots) {
        root.devices = root.devices.map(numbers => {
          const device = Object.fromEntries(MEMBERS.map((member, at) => [member, text(numbers[at])]));
          device.node = node;
          device.number = this.devices.length;
          this.devices.push(device);
          node.devices.push(device);
          return device;
        });
      }
    });
  }

  textOf(node) {
    node.text ??= [node.name, ...(node.closed || []), ...node.roots.map(root => root.root), ...node.devices.flatMap(
      device => MEMBERS.map(member => device[member]))].join(" ").toLowerCase();
    return node.text;
  }
}

function numberOf(ranges, number) {  // whether a sorted list of ranges has it
  let [low, high] = [0, ranges.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (number < ranges[middle][0]) high = middle - 1;
    else if (number > ranges[middle][1]) low = middle + 1;
    else return true;
  }
  return false;
}

const deviceName = device => `device/${device.driver}/${device.pool}/${device.name}`;
const nodeName = node => `node/${node.name}`;
const fragment = name => `#${encodeURI(name).replaceAll("#", "%23")}`;

// What lights up: devices by number, and why nodes are in the way.
function litBy(cluster) {
  const lit = {devices: new Map(), why: new Map(), level: () => -1, message: ""};
  const answer = cluster.answers[chosen.answer];
  if (!answer) return lit;
  const way = chosen.way === null ? null : answer.ways[chosen.way];
  if (way) {
    way.frees.forEach(number => lit.devices.set(number, "frees"));
    way.takes.forEach(number => lit.devices.set(number, "takes"));
    const names = numbers => numbers.map(number => cluster.devices[number].name).join(", ");
    const losers = [...new Set(way.frees.map(number => cluster.devices[number].holders))].filter(Boolean).join(", ");
    lit.message = `${way.text}.${way.takes.length ? ` It would get ${names(way.takes)}.` : ""}${losers ? ` ${losers} would lose ${names(way.frees)}.` : ""}`;
    if (way.node !== null) lit.why.set(way.node, "it would start here");
    lit.level = number => number === way.node ? 0 : -1;
    return lit;
  }
  for (const {why, devices} of [...answer.way].reverse()) {
    for (const number of devices) {
      lit.devices.set(number, "way");
      lit.why.set(cluster.devices[number].node.number, why);
    }
  }
  answer.takes.forEach(number => lit.devices.set(number, "takes"));
  lit.level = number => answer.way.findIndex(({nodes}) => numberOf(nodes, number));
  lit.reason = number => {
    const level = lit.level(number);
    return lit.why.get(number) ?? (level < 0 ? "" : answer.way[level].why);
  };
  return lit;
}

class DeviceMap {
  constructor(cluster) {
    this.cluster = cluster;
    this.place = document.getElementById("map");
    this.cards = CARDS;
    this.heat = cluster.nodes.length > FOLDED ? new HeatMap(this) : null;
    this.message = element("p", {class: "message", role: "status"});
    this.list = element("div", {class: "nodes"});
    this.list.addEventListener("keydown", event => this.move(event));
    this.place.replaceChildren(...(this.heat ? [this.heat.bar, this.heat.place] : []), this.message, this.list);
  }

  draw() {
    const {cluster} = this, wanted = words(chosen.search), asked = this.asked();
    this.lit = litBy(cluster);
    this.litNodes = new Set([...this.lit.devices.keys()].map(number => cluster.devices[number].node));
    this.lit.why.forEach((why, number) => this.litNodes.add(cluster.nodes[number]));
    const first = [], rest = [];
    let left = SINGLE;
    this.matching = 0;
    for (const [number, fold] of cluster.folds.entries()) {
      let nodes = fold.map(at => cluster.nodes[at]);
      if (wanted.length) nodes = nodes.filter(node => hasAll(cluster.textOf(node), wanted));
      if (!nodes.length) continue;
      this.matching += nodes.length;
      const open = chosen.unfolded.has(number) || wanted.length > 0;
      const single = nodes.filter(node => (open || node === asked.node || this.litNodes.has(node)) && left-- > 0);
      const folded = single.length ? nodes.filter(node => !single.includes(node)) : nodes;
      first.push(...single.filter(node => this.litNodes.has(node) || node === asked.node));
      rest.push(...single.filter(node => !this.litNodes.has(node) && node !== asked.node).map(node => [[node], number]));
      if (folded.length) rest.push([folded, number]);
      if (chosen.unfolded.has(number)) left = Math.max(left, SINGLE);
    }
    const some = cluster.nodes.length <= FOLDED ? rest.concat(first.map(node => [[node], -1])).sort(([a], [b]) => a[0].number - b[0].number)
      : [...first.map(node => [[node], -1]), ...rest];
    const cards = some.slice(0, this.cards).map(([nodes, fold]) => this.card(nodes, fold, asked));
    if (some.length > this.cards) {
      const more = element("button", {type: "button", class: "more"}, `Show more of ${counted(some.length - this.cards, "card")}`);
      more.addEventListener("click", () => { this.cards += CARDS; this.draw(); });
      cards.push(more);
    }
    this.list.replaceChildren(...cards);
    this.list.querySelector("a.device")?.setAttribute("tabindex", "0");
    const message = this.lit.message || (asked.device ? this.describe(asked.device) : "");
    this.message.textContent = message;
    this.message.hidden = !message;
    this.heat?.draw(wanted);
  }

  asked() {
    const {cluster} = this, name = chosen.asked;
    if (!/^(node|device|vm)\//.test(name)) return {};
    if (this.askedFor !== name) {
      const device = cluster.devices.find(one => deviceName(one) === name);
      this.answered = {device, node: device?.node ?? cluster.nodes.find(node => nodeName(node) === name)};
      if (name.startsWith("vm/")) {
        const holder = `VM ${name.slice(3)}`;
        const held = cluster.devices.filter(one => one.holders.split(", ").includes(holder));
        this.answered = {node: held[0]?.node, held};
      }
      this.askedFor = name;
    }
    return this.answered;
  }

  describe(device) {
    return [`${device.name} of ${device.node.name}: ${device.model}`, device.address, device.states,
      device.holders && `held by ${device.holders}`, device.more].filter(Boolean).join("; ");
  }

  card(nodes, fold, asked) {
    const [node] = nodes, many = nodes.length > 1, {lit} = this;
    const title = many ? `${nodes.length.toLocaleString("en")} nodes like ${node.name}` : node.name;
    const isAsked = !many && node === asked.node;
    const reasons = lit.reason ? new Set(nodes.map(one => lit.reason(one.number)).filter(Boolean)) : new Set([lit.why.get(node.number)].filter(Boolean));
    const card = element("article", {class: ["node", many && "many", reasons.size && "lit", isAsked && "asked"].filter(Boolean).join(" "),
      id: many || node.place ? undefined : nodeName(node)});
    card.append(element("h3", {title}, many || node.place ? title : element("a", {href: fragment(nodeName(node))}, title)));
    card.append(element("p", {class: "quiet"}, summary(node.devices)));
    if (node.closed) card.append(element("p", {class: "quiet", title: node.closed.join(", ")}, `closed: ${node.closed.join(", ")}`));
    for (const why of [...reasons].slice(0, 2)) card.append(element("p", {class: "why"}, why));
    card.append(element("div", {class: "roots"}, ...node.roots.map(root => this.root(root, asked))));
    if (many && fold >= 0) {
      const open = chosen.unfolded.has(fold);
      const button = element("button", {type: "button", class: "more"}, open ? "Show more" : "Show each");
      button.addEventListener("click", () => { chosen.unfolded.add(fold); this.cards += SINGLE; this.draw(); });
      card.append(button);
    }
    return card;
  }

  root(root, asked) {
    const place = [root.numa && `NUMA ${root.numa}`, root.root].filter(Boolean).join(" · ");
    const boxes = element("div", {class: "boxes"}, ...root.devices.map(device => this.box(device, asked)));
    return element("div", {class: "root"}, ...(place ? [element("span", {title: place}, place)] : []), boxes);
  }

  box(device, asked) {
    const mark = this.lit.devices.get(device.number), isAsked = device === asked.device || asked.held?.includes(device);
    const said = this.describe(device) + ({way: "; in the way", takes: "; it would get this", frees: "; would be freed"}[mark] || "");
    return element("a", {class: ["device", `s-${device.state}`, mark, isAsked && "asked"].filter(Boolean).join(" "), title: said, "aria-label": said,
      href: fragment(deviceName(device)), tabindex: "-1", draggable: "false"}, SIGNS[device.state]);
  }

  move(event) {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (!step || !event.target.matches("a.device")) return;
    const boxes = [...this.list.querySelectorAll("a.device")], next = boxes[boxes.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    boxes.forEach(box => box.setAttribute("tabindex", box === next ? "0" : "-1"));
    next.focus();
  }
}

function summary(devices) {
  if (!devices.length) return "no devices";
  const models = new Map();
  for (const {model, state} of devices) {
    const [all, free] = models.get(model) || [0, 0];
    models.set(model, [all + 1, free + (state === "free" ? 1 : 0)]);
  }
  return [...models].map(([model, [all, free]]) => `${model}: ${free} of ${all} free`).join(", ");
}

class HeatMap {
  constructor(map) {
    this.map = map;
    this.nodes = map.cluster.nodes.filter(node => !node.place);
    this.by = "use";
    this.at = 0;
    const modes = [["use", "devices in use"], ["waiting", "waiting VMs it is nearest for"], ["taints", "taints and ill devices"]];
    this.select = element("select", {}, ...modes.map(([value, said]) => element("option", {value}, said)));
    this.select.addEventListener("change", () => { this.by = this.select.value; this.draw(words(chosen.search)); });
    this.said = element("span", {class: "quiet", role: "status"});
    this.key = element("ul", {class: "legend"});
    this.label = element("label", {}, `${counted(this.nodes.length, "node")} by `, this.select);
    this.chosen = element("span");
    this.bar = element("div", {class: "map-bar"}, this.label, this.chosen, this.said);
    this.cells = drawing("svg", {class: "heat", tabindex: "0", role: "application",
      "aria-label": "Heat map of nodes: arrow keys move, Enter shows a node"});
    this.place = element("div", {}, this.cells, this.key);
    this.cells.addEventListener("click", event => { const at = this.cellAt(event); if (at !== null) this.zoom(at); });
    this.cells.addEventListener("mousemove", event => { const at = this.cellAt(event); if (at !== null) this.point(at); });
    this.cells.addEventListener("keydown", event => this.move(event));
    this.waiting = new Map();
    for (const answer of Object.values(map.cluster.answers)) {
      for (const [from, to] of answer.way[0]?.nodes || []) for (let at = from; at <= to; at++) this.waiting.set(at, (this.waiting.get(at) || 0) + 1);
    }
    addEventListener("resize", () => this.lay());
  }

  level(node) {
    if (this.map.lit.level && chosen.answer) {
      const level = this.map.lit.level(node.number);
      return level < 0 ? "none" : `h${Math.max(4 - level, 1)}`;
    }
    if (this.by === "waiting") return `h${Math.min(this.waiting.get(node.number) || 0, 4)}`;
    if (!node.devices.length) return "none";
    const bad = device => !WELL.includes(device.state);
    const part = node.devices.filter(this.by === "use" ? device => HELD.includes(device.state) : bad).length / node.devices.length;
    return `h${Math.ceil(part * 4)}`;
  }

  legend() {
    const of = chosen.answer ? [["h4", "nearest"], ["h3", "second"], ["h2", "third"], ["h1", "further"], ["none", "not asked"]]
      : this.by === "waiting" ? [["h0", "none"], ["h1", "1"], ["h2", "2"], ["h3", "3"], ["h4", "4 or more"]]
        : [["h0", "none"], ["h1", "to ¼"], ["h2", "to ½"], ["h3", "to ¾"], ["h4", "more"], ["none", "no devices"]];
    const swatch = level => drawing("svg", {class: "heat scale", viewBox: "0 0 10 10", "aria-hidden": "true"}, drawing("rect", {class: level, width: 10, height: 10}));
    this.key.replaceChildren(...of.map(([level, said]) => element("li", {}, swatch(level), said)),
      element("li", {}, drawing("svg", {class: "heat scale", viewBox: "0 0 10 10", "aria-hidden": "true"}, drawing("path", {class: "sign", d: "M1 9 5 1 9 9z"})),
        "closed, tainted or ill"));
  }

  lay() {
    const width = Math.max(this.place.clientWidth, 280), height = Math.min(360, innerHeight * .5);
    const size = Math.max(Math.min(Math.sqrt(width * height / this.nodes.length), 26), 5);
    const columns = Math.max(Math.floor(width / size), 1);
    if (columns === this.columns) return false;
    Object.assign(this, {size, columns});
    const rows = Math.ceil(this.nodes.length / columns), gap = Math.max(size * .12, .7);
    this.cells.setAttribute("viewBox", `0 0 ${columns * size} ${rows * size}`);
    this.rects = this.nodes.map((node, at) => drawing("rect", {x: (at % columns) * size, y: Math.floor(at / columns) * size,
      width: size - gap, height: size - gap}));
    const signs = this.nodes.flatMap((node, at) => {
      if (!node.closed && !node.devices.some(device => ["tainted", "unhealthy"].includes(device.state))) return [];
      const [x, y, edge] = [(at % columns) * size, Math.floor(at / columns) * size, (size - gap) * .55];
      return [`M${x} ${y + edge}L${x} ${y}L${x + edge} ${y}z`];
    });
    this.cursor = drawing("rect", {class: "at", width: size, height: size, "stroke-width": Math.max(size * .16, 1.5)});
    this.cells.replaceChildren(...this.rects, drawing("path", {class: "sign", d: signs.join("")}), this.cursor);
    return true;
  }

  draw(wanted) {
    this.lay();
    const {cluster} = this.map;
    this.nodes.forEach((node, at) => {
      const dim = wanted.length && !hasAll(cluster.textOf(node), wanted);
      this.rects[at].setAttribute("class", this.level(node) + (dim ? " dim" : ""));
    });
    const asked = this.map.asked().node;
    this.label.hidden = Boolean(chosen.answer);
    this.chosen.textContent = chosen.answer ? `${counted(this.nodes.length, "node")} by how near they are` : "";
    if (asked) this.at = Math.max(this.nodes.indexOf(asked), 0);
    this.point(this.at);
    this.legend();
  }

  point(at) {
    this.at = at;
    this.cursor.setAttribute("x", (at % this.columns) * this.size);
    this.cursor.setAttribute("y", Math.floor(at / this.columns) * this.size);
    const node = this.nodes[at];
    this.said.textContent = [node.name, summary(node.devices), (node.closed || []).join(", ")].filter(Boolean).join(" · ");
  }

  zoom(at) {
    location.hash = fragment(nodeName(this.nodes[at]));
  }

  cellAt(event) {
    const box = this.cells.getBoundingClientRect(), scale = this.columns * this.size / box.width;
    const at = Math.floor((event.clientY - box.top) * scale / this.size) * this.columns + Math.floor((event.clientX - box.left) * scale / this.size);
    return at >= 0 && at < this.nodes.length ? at : null;
  }

  move(event) {
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns}[event.key];
    if (event.key === "Enter") this.zoom(this.at);
    else if (step && this.nodes[this.at + step]) this.point(this.at + step);
    else return;
    event.preventDefault();
  }
}

let map = null;
mapFound = () => map ? counted(map.matching, "node") : "";
function prepareMap() {
  const data = document.getElementById("data");
  map = data && new DeviceMap(new Cluster(JSON.parse(data.textContent)));
}
listeners.unshift(() => map?.draw());
function begin() {
  chosen.answer ??= document.querySelector("details.wait[open]")?.id ?? null;
  prepare();
  prepareMap();
  if (location.hash.length > 1) follow(); else changed();
}
begin();
