// The parts that every chart shares: axes; zoom by drag, button and key; the cursor and its readout.
const frames = new Map();
const measure = document.createElement("canvas").getContext("2d");
const namesFont = (ratio) => `${11 * ratio}px system-ui, sans-serif`;

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// A chart in its figure. `view` determines what is drawn and over which range; see curve.js and density.js.
class Frame {
  constructor(figure, data, view) {
    Object.assign(this, { figure, data, view });
    this.place = figure.querySelector(".plot");
    this.readout = figure.querySelector(".readout");
    this.log = { x: true, y: true };
    this.extremes = false;
    this.hidden = new Set();
    this.column = null;
    this.tip = element("div", { className: "tip", hidden: true });
    this.tip.setAttribute("aria-hidden", "true");
    this.tools();
    this.keys();
    this.home();
    this.build();
    new ResizeObserver(() => this.fit()).observe(this.place);
  }

  // The full range of the view.
  home() {
    const last = this.data.spans[this.data.spans.length - 1][1];
    this.range = {
      x: this.log.x ? [1, Math.max(last, 2) * 1.04] : [0, Math.max(last, 2) * 1.02],
      y: this.view.range(this),
    };
  }

  shown() {
    return this.data.groups.filter((group) => !this.hidden.has(group.name));
  }

  size() {
    const width = Math.max(this.place.clientWidth, 240);
    return { width, height: Math.round(Math.min(Math.max(width * 0.46, 220), this.view.height)) };
  }

  build() {
    this.plot?.destroy();
    const { width, height } = this.size();
    const paint = (name) => () => ink(name);
    const axis = (key, room, words) => ({
      scale: key,
      stroke: paint("quiet"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: paint("grid"), width: 1 },
      ticks: { stroke: paint("grid"), width: 1, size: 4 },
      filter: (_, splits) => splits,
      splits: (_, __, min, max) => ticks(min, max, this.log[key], room),
      values: (_, splits) => splits.map(words),
    });
    const scale = (key) => ({
      time: false,
      distr: this.log[key] ? 3 : 1,
      range: () => this.range[key],
    });
    // The last tick label needs room even without curve names.
    const labels = Math.max(this.view.labels(this, width), 22);
    this.rows = this.nameRows(width - 62 - labels);
    this.plot = new uPlot({
      width,
      height,
      padding: [14 + 13 * Math.max(this.rows - 1, 0) + (this.rows ? 4 : 0), labels, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 24, setScale: false }, points: { show: false }, y: this.view.crosshair },
      scales: { x: scale("x"), y: scale("y") },
      axes: [
        { ...axis("x", Math.max(Math.floor((width - 70 - labels) / 62), 3), count), size: 28, label: this.data.axis, labelSize: 18,
          labelFont: "12px system-ui, sans-serif", labelGap: 0 },
        { ...axis("y", Math.max(Math.floor(height / 38), 3), tick), size: isCounted ? 74 : 62 },
      ],
      series: [{}, ...this.view.series(this)],
      hooks: {
        drawAxes: [(plot) => this.clipped(plot, () => { this.annotations(plot); this.view.under(this, plot); })],
        draw: [(plot) => { this.clipped(plot, () => this.view.over(this, plot)); this.view.label(this, plot); this.name(plot); }],
        setCursor: [(plot) => this.read(plot)],
        setSelect: [(plot) => this.drag(plot)],
      },
    }, this.view.columns(this), this.place);
    this.plot.over.append(this.tip);
  }

  fit() {
    const { width, height } = this.size();
    if (this.place.clientWidth && (this.plot.width !== width || this.plot.height !== height)) this.build();
  }

  clipped(plot, draw) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw();
    ctx.restore();
  }

  // Annotations: dashed lines at known n.
  annotations(plot) {
    const { ctx, bbox } = plot;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const annotation of this.visibleAnnotations()) {
      const x = plot.valToPos(annotation.n, "x", true);
      ctx.strokeStyle = ink(annotation.kind === "cache" ? "faint" : "quiet");
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.setLineDash([]);
  }

  visibleAnnotations() {
    const inside = (annotation) => annotation.n > this.range.x[0] && annotation.n < this.range.x[1];
    return this.data.annotations.filter(inside).sort((a, b) => b.n - a.n);
  }

  // Positions of the annotation names: right-aligned at their line if they fit, in rows so that none overlap.
  names(place, left) {
    measure.font = namesFont(1);
    const rows = [];
    return this.visibleAnnotations().map((annotation) => {
      const [x, width] = [place(annotation.n), measure.measureText(annotation.name).width + 10];
      const from = x - width >= left ? x - width + 8 : x;
      let row = rows.findIndex((taken) => from + width <= taken);
      if (row < 0) row = rows.push(0) - 1;
      rows[row] = from;
      return { annotation, from, row };
    });
  }

  // The number of rows of names above a chart of this inner width; none above a small chart.
  nameRows(width) {
    if (width < 420) return 0;
    const [to, [low, high]] = [this.log.x ? Math.log : (v) => v, this.range.x];
    const place = (n) => 62 + ((to(n) - to(low)) / (to(high) - to(low))) * width;
    return Math.min(Math.max(0, ...this.names(place, 62).map(({ row }) => row + 1)), 4);
  }

  // Draws the names above the chart, outside the data.
  name(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.font = namesFont(ratio);
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    for (const { annotation, from, row } of this.names((n) => plot.valToPos(n, "x", true) / ratio, bbox.left / ratio)) {
      ctx.fillStyle = ink("quiet");
      if (row < this.rows) ctx.fillText(annotation.name, from * ratio, bbox.top - (5 + 13 * row) * ratio);
    }
  }

  drag(plot) {
    const { left, top, width, height } = plot.select;
    if (width < 4 && height < 4) return;
    const next = { ...this.range };
    if (width >= 4) next.x = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    if (height >= 4 && height < plot.over.clientHeight - 1) next.y = [plot.posToVal(top + height, "y"), plot.posToVal(top, "y")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.move(next);
  }

  // Whether an axis can show a range: numbers near the precision of a double have no ticks, and a logarithm needs
  // positive values.
  isDrawable(key, [low, high]) {
    return Number.isFinite(high - low) && high - low > 1e-6 * Math.abs(high) && (low > 0 || !this.log[key]);
  }

  move(range) {
    if (!["x", "y"].every((key) => this.isDrawable(key, range[key]))) return;
    this.range = range;
    this.plot.batch(() => {
      for (const key of ["x", "y"]) this.plot.setScale(key, { min: range[key][0], max: range[key][1] });
    });
    this.figure.dataset.range = [...range.x, ...range.y].map((value) => value.toPrecision(6)).join(" ");
  }

  // Zooms along n around the cursor, or around the middle without a cursor.
  zoom(factor) {
    const [to, from] = this.log.x ? [Math.log, Math.exp] : [(v) => v, (v) => v];
    const [low, high] = this.range.x.map(to);
    const middle = this.column === null ? (low + high) / 2 : to(Math.max(this.data.x[this.column], 1e-9));
    const next = [middle - (middle - low) * factor, middle + (high - middle) * factor].map(from);
    this.move({ ...this.range, x: next });
  }

  reset() {
    this.home();
    this.move(this.range);
  }

  toggle(key, isOn) {
    this.log[key] = isOn;
    this.home();
    this.build();
    this.move(this.range);
  }

  tools() {
    const tools = this.figure.querySelector(".tools");
    const switchable = (words, isOn, act, title) => {
      const button = element("button", { type: "button", textContent: words, title });
      button.setAttribute("aria-pressed", isOn);
      button.addEventListener("click", () => {
        const next = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", next);
        act(next);
      });
      return button;
    };
    const plain = (words, title, act) => {
      const button = element("button", { type: "button", textContent: words, title });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", act);
      return button;
    };
    const groups = this.data.groups.length > 1 ? this.data.groups : [];
    for (const group of groups) {
      const chip = switchable(group.name, true, (isOn) => {
        this.hidden[isOn ? "delete" : "add"](group.name);
        this.home();
        this.build();
      }, `show or hide ${group.name}`);
      chip.className = `chip tone-${group.tone}${group.is_down ? " down" : ""}`;
      tools.append(chip);
    }
    tools.append(
      element("span", { className: "spread" }),
      ...(this.view.crosshair || !this.data.groups[0]?.passes[0]?.max.length ? [] : [switchable("extremes", false, (isOn) => {
        this.extremes = isOn;
        this.home();
        this.build();
      }, "include the minimum and the maximum of all calls")]),
      switchable("log n", true, (isOn) => this.toggle("x", isOn), "logarithmic or linear axis of n"),
      switchable("log cost", true, (isOn) => this.toggle("y", isOn), "logarithmic or linear axis of cost"),
      plain("−", "zoom out", () => this.zoom(2)),
      plain("+", "zoom in", () => this.zoom(0.5)),
      plain("reset", "reset: show everything", () => this.reset()),
      plain("CSV", "CSV: the data of this chart as a file", () => saveChart(this)),
    );
  }

  keys() {
    const act = {
      ArrowLeft: (fast) => this.step(fast ? -10 : -1),
      ArrowRight: (fast) => this.step(fast ? 10 : 1),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.reset(),
      Escape: () => this.plot.setCursor({ left: -10, top: -10 }),
    };
    this.place.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !act[event.key]) return;
      event.preventDefault();
      act[event.key](event.shiftKey);
    });
  }

  // Moves the cursor by columns within the visible range.
  step(by) {
    const inSight = (x) => x >= this.range.x[0] && x <= this.range.x[1];
    const first = this.data.x.findIndex(inSight);
    const last = this.data.x.findLastIndex(inSight);
    if (first < 0) return;
    const from = this.column ?? (by > 0 ? first - 1 : last + 1);
    const column = Math.min(Math.max(from + by, first), last);
    const left = this.plot.valToPos(this.data.x[column], "x");
    const cost = this.view.cost(this, column);
    const top = cost ? Math.min(Math.max(this.plot.valToPos(cost, "y"), 2), this.plot.over.clientHeight - 2) : 20;
    this.plot.setCursor({ left: Math.max(left, 0), top });
  }

  read(plot) {
    const { left, top, idx } = plot.cursor;
    const isOut = idx === null || idx === undefined || left < 0;
    this.tip.hidden = isOut;
    this.column = isOut ? null : idx;
    if (isOut) {
      this.readout.textContent = "";
      return;
    }
    const lines = this.view.describe(this, idx, plot.posToVal(top, "y"));
    this.tip.replaceChildren(...lines.map((line, i) => element(i ? "div" : "b", { textContent: line })));
    this.readout.textContent = lines.join(" · ");
    const room = plot.over.clientWidth;
    this.tip.style.left = left > room / 2 ? "auto" : `${left + 14}px`;
    this.tip.style.right = left > room / 2 ? `${room - left + 14}px` : "auto";
    this.tip.style.top = `${Math.max(Math.min(top, plot.over.clientHeight - 24 - 18 * lines.length), 0)}px`;
  }
}
