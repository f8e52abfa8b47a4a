// Charts by uPlot of the data in the page: a line for each policy, a band where there are several seeds. The cursor is
// one for all charts; colours are the page's tokens.
const DASHES = [[], [8, 4], [8, 3, 2, 3], [2, 3], [12, 3], [4, 2, 1, 2, 1, 2], [1, 2], [14, 4]];
const chartData = JSON.parse(document.getElementById("charts-data").textContent);
const cursors = uPlot.sync("charts");
let charts = [];

function token(name) {
  const probe = document.body.appendChild(element("i"));
  probe.style.color = `var(--${name})`;
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

const faint = colour => colour.replace(/^rgb\((.*)\)$/, "rgba($1, .15)");

function chart(place, plot, colours) {
  const series = [{label: chartData.across}], bands = [], columns = [plot.x];
  const shown = value => value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  plot.lines.forEach((line, number) => {
    const stroke = colours.series[number % colours.series.length];
    series.push({label: line.label, stroke, width: 2, dash: DASHES[number % DASHES.length], spanGaps: false, value: (_, value) => shown(value ?? null)});
    columns.push(line.mean);
    if (!line.low) return;
    const first = columns.length;
    for (const side of [line.high, line.low]) { columns.push(side); series.push({show: true, width: 0, points: {show: false}, legend: false, label: ""}); }
    bands.push({series: [first, first + 1], fill: faint(stroke)});
  });
  const axis = {stroke: colours.ink, grid: {stroke: colours.line, width: 1}, ticks: {stroke: colours.line, width: 1}, font: "12px system-ui, sans-serif"};
  const made = new uPlot({
    width: place.clientWidth, height: 260, series, bands,
    scales: {x: {time: false}, y: {range: (_, low, high) => plot.fromZero ? [0, high * 1.05 || 1] : [low - (high - low || 1) * .05, high + (high - low || 1) * .05]}},
    axes: [{...axis, label: chartData.across, labelSize: 22, labelFont: axis.font}, {...axis, size: 55}],
    cursor: {sync: {key: cursors.key}, drag: {x: true, y: false}},
    legend: {live: true},
  }, columns, place);
  // Bands have no entry of their own in the legend.
  made.root.querySelectorAll(".u-series").forEach((entry, at) => { entry.hidden = at > 0 && !series[at].label; });
  return made;
}

function drawCharts() {
  charts.forEach(made => made.destroy());
  const colours = {ink: token("ink"), line: token("line"), series: [1, 2, 3, 4, 5, 6, 7, 8].map(number => token(`series-${number}`))};
  charts = chartData.plots.map((plot, number) => chart(document.getElementById(`chart-${number}`), plot, colours));
}

addEventListener("resize", () => charts.forEach(made => made.setSize({width: made.root.parentElement.clientWidth, height: 260})));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
addEventListener("beforeprint", () => { document.documentElement.style.colorScheme = "light"; drawCharts(); });
addEventListener("afterprint", () => { document.documentElement.style.colorScheme = ""; drawCharts(); });
prepare();
changed();
drawCharts();
