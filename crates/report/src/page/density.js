// Draws the density of all single calls of all passes: a darker cell contains more calls.
const densityView = {
  height: 300,
  crosshair: true,

  columns(frame) {
    return [frame.data.x, frame.data.x.map(() => null)];
  },

  series() {
    return [{ points: { show: false } }];
  },

  edge(frame, row) {
    return frame.data.density.floor * 10 ** (row / 12);
  },

  range(frame) {
    let top = 0;
    for (const column of frame.data.density.cells) {
      for (let i = 0; i < column.length; i += 2) top = Math.max(top, column[i] + 1);
    }
    const [low, high] = [this.edge(frame, 0), this.edge(frame, top)];
    if (!frame.log.y) return [0, high * 1.05];
    const pad = Math.sqrt(Math.max(10 / (high / low), 3));
    return [low / pad, high * pad];
  },

  labels() {
    return 12;
  },

  under() {},

  over(frame, plot) {
    const { ctx } = plot;
    const [group] = frame.data.groups;
    ctx.fillStyle = ink(`tone-${group.tone}`);
    frame.data.density.cells.forEach((column, i) => {
      const [first, last] = frame.data.spans[i];
      let total = 0;
      for (let j = 1; j < column.length; j += 2) total += column[j];
      const left = plot.valToPos(first - 0.5, "x", true);
      const width = Math.max(plot.valToPos(last + 0.5, "x", true) - left, devicePixelRatio);
      for (let j = 0; j < column.length; j += 2) {
        const top = plot.valToPos(this.edge(frame, column[j] + 1), "y", true);
        const height = plot.valToPos(this.edge(frame, column[j]), "y", true) - top;
        ctx.globalAlpha = 0.16 + 0.84 * (column[j + 1] / total) ** 0.6;
        ctx.fillRect(left, top, width + 0.5, Math.max(height, devicePixelRatio) + 0.3);
      }
    });
    ctx.globalAlpha = 1;
    this.rings(frame, plot, group);
  },

  // Recurring outliers, the most expensive first, labelled with n if there is room.
  rings(frame, plot, group) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const taken = [];
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.strokeStyle = ctx.fillStyle = ink("alarm");
    ctx.lineWidth = 1.2 * ratio;
    ctx.font = `${10.5 * ratio}px system-ui, sans-serif`;
    for (const [n, low, median, high] of [...group.outliers].sort((a, b) => b[2] - a[2])) {
      const x = plot.valToPos(n, "x", true);
      const y = plot.valToPos(median, "y", true);
      ctx.beginPath();
      ctx.moveTo(x, plot.valToPos(high, "y", true));
      ctx.lineTo(x, plot.valToPos(Math.max(low, 1), "y", true));
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(x, y, 2.6 * ratio, 0, 7);
      ctx.stroke();
      const words = count(n);
      const width = ctx.measureText(words).width;
      const left = Math.min(Math.max(x - width / 2, bbox.left + 2), bbox.left + bbox.width - width - 2);
      const box = { left, right: left + width, top: y - 18 * ratio, bottom: y - 5 * ratio };
      const meets = (other) => box.left < other.right + 3 && box.right > other.left - 3 && box.top < other.bottom && box.bottom > other.top;
      if (taken.some(meets)) continue;
      taken.push(box);
      ctx.fillText(words, box.left, y - 7 * ratio);
    }
  },

  label() {},

  cost(frame, column) {
    const held = frame.data.density.cells[column];
    let best = 0;
    for (let i = 2; i < held.length; i += 2) if (held[i + 1] > held[best + 1]) best = i;
    return held.length ? this.edge(frame, held[best] + 0.5) : undefined;
  },

  describe(frame, column, cost) {
    const held = frame.data.density.cells[column];
    let [total, here] = [0, 0];
    for (let i = 0; i < held.length; i += 2) {
      total += held[i + 1];
      if (this.edge(frame, held[i]) <= cost && cost < this.edge(frame, held[i] + 1)) here = held[i + 1];
    }
    const lines = [`${span(frame.data.spans[column])} ${frame.data.axis}`];
    const row = Math.floor(Math.log10(cost / frame.data.density.floor) * 12);
    lines.push(`${count(here)} of ${count(total)} calls cost ${durations(this.edge(frame, row), this.edge(frame, row + 1))}`);
    const [first, last] = frame.data.spans[column];
    for (const [n, low, , high] of frame.data.groups[0].outliers.filter(([n]) => n >= first && n <= last).slice(0, 3)) {
      lines.push(`recurring outlier at ${count(n)}: ${durations(low, high)}`);
    }
    return lines;
  },
};
