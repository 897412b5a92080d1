// Draws the curve of every pass as a thin line and the law as a thick one.
const curveView = {
  height: 430,
  crosshair: false,

  columns(frame) {
    const rows = [frame.data.x];
    for (const group of frame.shown()) {
      for (const pass of group.passes) rows.push(pass.median);
      rows.push(group.law.length ? group.law : frame.data.x.map(() => null));
    }
    return rows;
  },

  series(frame) {
    const made = [];
    for (const group of frame.shown()) {
      const stroke = () => ink(`tone-${group.tone}`);
      const dash = group.is_down ? [5, 4] : undefined;
      for (const _ of group.passes) made.push({ stroke, width: 1, alpha: frame.data.groups.length > 3 ? 0.28 : 0.5, dash, points: { show: false }, spanGaps: true });
      made.push({ stroke, width: 3, dash: group.is_down ? [9, 5] : undefined, points: { show: false }, spanGaps: true });
    }
    return made;
  },

  range(frame) {
    let [low, high] = [Infinity, 0];
    const take = (value) => {
      if (value > 0) [low, high] = [Math.min(low, value), Math.max(high, value)];
    };
    const last = frame.data.x[frame.data.x.length - 1];
    for (const group of frame.shown()) {
      group.law.forEach(take);
      for (const pass of group.passes) {
        pass.median.forEach((value, i) => {
          // The first calls include cold caches; on a linear axis they would flatten the rest.
          if (frame.log.y || frame.data.x[i] >= 16 || last < 100) take(value);
        });
        if (frame.extremes) [pass.min, pass.max].forEach((row) => row.forEach(take));
      }
    }
    if (frame.data.floor) take(frame.data.floor);
    if (!high) return [1, 10];
    if (!frame.log.y) return [0, high * 1.12];
    // A flat cost must look flat, so the axis spans at least a factor of ten.
    const pad = Math.sqrt(Math.max(10 / (high / low), 1.9));
    return [low / pad, high * pad];
  },

  labels(frame, width) {
    if (width < 420) return 12;
    const longest = Math.max(...frame.shown().map((group) => this.words(frame, group, width).length), 6);
    return Math.min(longest * 7.4 + 18, width * 0.3);
  },

  words(frame, group, width) {
    return width < 560 || frame.data.groups.length > 4 ? group.name : `${group.name} · ${group.symbol}`;
  },

  under(frame, plot) {
    const { ctx, bbox } = plot;
    // In the small charts of all variants, bands would overlap; each variant has its own chart below.
    const isSide = frame.figure.classList.contains("small");
    for (const group of isSide ? [] : frame.shown()) {
      const band = group.points.filter(([n, , low, high]) => n > 0 && low > 0 && high > 0);
      if (band.length < 2) continue;
      ctx.beginPath();
      for (const [n, , , high] of band) ctx.lineTo(plot.valToPos(n, "x", true), plot.valToPos(high, "y", true));
      for (const [n, , low] of band.slice().reverse()) ctx.lineTo(plot.valToPos(n, "x", true), plot.valToPos(low, "y", true));
      ctx.closePath();
      ctx.globalAlpha = 0.14;
      ctx.fillStyle = ink(`tone-${group.tone}`);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
    if (!frame.data.floor) return;
    const y = plot.valToPos(frame.data.floor, "y", true);
    ctx.strokeStyle = ctx.fillStyle = ink("quiet");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillText(`timer overhead: ${duration(frame.data.floor)}`, bbox.left + 6 * devicePixelRatio, y - 4 * devicePixelRatio);
  },

  over(frame, plot) {
    const { ctx } = plot;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    // The last curve may have been dashed.
    ctx.setLineDash([]);
    const dot = 2 * devicePixelRatio;
    for (const group of frame.shown()) this.loop(frame, plot, group);
    for (const group of frame.shown()) {
      ctx.fillStyle = ink(`tone-${group.tone}`);
      ctx.globalAlpha = 0.35;
      for (const pass of group.passes) {
        frame.data.x.forEach((n, i) => {
          const x = plot.valToPos(n, "x", true);
          if (pass.max[i] > pass.median[i] * 1.25) ctx.fillRect(x, plot.valToPos(pass.max[i], "y", true), dot, dot);
          if (frame.extremes && pass.min[i] < pass.median[i]) ctx.fillRect(x, plot.valToPos(pass.min[i], "y", true), dot, dot);
        });
      }
      ctx.globalAlpha = 1;
      this.way(frame, plot, group);
      this.rings(frame, plot, group);
      // In the small charts of all variants, labels would overlap; each variant has its own chart below.
      const isSide = frame.figure.classList.contains("small");
      for (const note of [...group.cliffs, ...(group.limit ? [group.limit] : [])]) {
        if (isSide) this.stop(plot, note, ink(`tone-${group.tone}`));
        else this.note(plot, note, ink("alarm"), ink("paper"));
      }
    }
  },

  // The level of a curve at a column: its law, or the median of its passes.
  level(group, i) {
    if (group.law[i] > 0) return group.law[i];
    const held = group.passes.map((pass) => pass.median[i]).filter((value) => value > 0).sort((a, b) => a - b);
    return held[held.length >> 1];
  },

  // Up and down as one closed loop: along the way up to the largest n, then back along the way down to the start.
  loop(frame, plot, group) {
    const back = frame.data.groups[group.back];
    if (!back || frame.hidden.has(back.name) || frame.figure.classList.contains("small")) return;
    const columns = frame.data.x.map((_, i) => i).filter((i) => this.level(group, i) > 0 && this.level(back, i) > 0);
    if (columns.length < 2) return;
    const { ctx } = plot;
    const to = (one) => (i) => ctx.lineTo(plot.valToPos(frame.data.x[i], "x", true), plot.valToPos(this.level(one, i), "y", true));
    ctx.beginPath();
    columns.forEach(to(group));
    columns.slice().reverse().forEach(to(back));
    ctx.closePath();
    ctx.strokeStyle = ctx.fillStyle = ink(`tone-${group.tone}`);
    ctx.lineWidth = 1.6 * devicePixelRatio;
    ctx.globalAlpha = 0.08;
    ctx.fill();
    ctx.globalAlpha = 0.9;
    ctx.stroke();
    ctx.globalAlpha = 1;
  },

  // Arrows show the direction of a curve.
  way(frame, plot, group) {
    if (!frame.data.groups.some((one) => one.is_down) || frame.data.groups.every((one) => one.is_down)) return;
    const { ctx } = plot;
    const r = 6 * devicePixelRatio;
    const forward = group.is_down ? -1 : 1;
    ctx.fillStyle = ink(`tone-${group.tone}`);
    for (const share of [0.35, 0.75]) {
      const i = Math.round((frame.data.x.length - 1) * share);
      const cost = this.level(group, i);
      if (!(cost > 0)) continue;
      const [x, y] = [plot.valToPos(frame.data.x[i], "x", true), plot.valToPos(cost, "y", true)];
      ctx.beginPath();
      ctx.moveTo(x - forward * r, y - r * 0.8);
      ctx.lineTo(x + forward * r, y);
      ctx.lineTo(x - forward * r, y + r * 0.8);
      ctx.fill();
    }
  },

  // Recurring outliers: a ring, or an arrow at the top edge if the outlier is above the chart.
  rings(frame, plot, group) {
    const { ctx, bbox } = plot;
    const r = 3 * devicePixelRatio;
    ctx.strokeStyle = ctx.fillStyle = ink(`tone-${group.tone}`);
    ctx.lineWidth = 1.2 * devicePixelRatio;
    for (const [n, , median] of group.outliers.length > 60 ? [] : group.outliers) {
      const x = plot.valToPos(n, "x", true);
      const y = plot.valToPos(median, "y", true);
      ctx.beginPath();
      if (y < bbox.top + r) {
        ctx.moveTo(x - r, bbox.top + 2 * r);
        ctx.lineTo(x, bbox.top + r * 0.3);
        ctx.lineTo(x + r, bbox.top + 2 * r);
        ctx.fill();
      } else {
        ctx.arc(x, y, r, 0, 7);
        ctx.stroke();
      }
    }
  },

  // A cliff or a limit without its label.
  stop(plot, { n, ns }, color) {
    const { ctx } = plot;
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.arc(plot.valToPos(n, "x", true), plot.valToPos(Math.max(ns, 1e-9), "y", true), 3 * devicePixelRatio, 0, 7);
    ctx.fill();
  },

  // A cliff or a limit with its label.
  note(plot, { n, ns, text }, color, paper) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const x = plot.valToPos(n, "x", true);
    const y = Math.min(Math.max(plot.valToPos(Math.max(ns, 1e-9), "y", true), bbox.top + 12 * ratio), bbox.top + bbox.height - 8 * ratio);
    ctx.font = `600 ${12.5 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = x - ctx.measureText(text).width - 14 * ratio > bbox.left ? "right" : "left";
    ctx.strokeStyle = paper;
    ctx.lineWidth = 4 * ratio;
    ctx.lineJoin = "round";
    const at = x + (ctx.textAlign === "right" ? -9 : 9) * ratio;
    ctx.strokeText(text, at, y + 4 * ratio);
    ctx.fillStyle = color;
    ctx.fillText(text, at, y + 4 * ratio);
    ctx.beginPath();
    ctx.arc(x, y, 4 * ratio, 0, 7);
    ctx.fill();
    ctx.textAlign = "left";
  },

  // The name of each curve at its right end, spaced so that names do not overlap.
  label(frame, plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    if (plot.width < 420) return;
    const placed = [];
    ctx.textAlign = "left";
    for (const group of frame.shown()) {
      const rows = [...group.passes.map((pass) => pass.median), group.law];
      let at = null;
      for (let i = frame.data.x.length - 1; i >= 0 && at === null; i -= 1) {
        if (frame.data.x[i] > frame.range.x[1]) continue;
        const held = rows.map((row) => row[i]).filter((value) => value > 0).sort((a, b) => a - b);
        if (held.length) at = held[held.length >> 1];
      }
      if (at !== null) placed.push({ group, y: plot.valToPos(at, "y", true) });
    }
    placed.sort((a, b) => a.y - b.y);
    let free = bbox.top + 6 * ratio;
    placed.forEach((one, i) => {
      const below = bbox.top + bbox.height - (placed.length - 1 - i) * 15 * ratio;
      one.y = Math.min(Math.max(one.y, free), below);
      free = one.y + 15 * ratio;
    });
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    for (const { group, y } of placed) {
      ctx.fillStyle = ink(`tone-${group.tone}`);
      let words = this.words(frame, group, plot.width);
      const room = plot.width * ratio - bbox.left - bbox.width - 10 * ratio;
      while (words.length > 4 && ctx.measureText(words).width > room) words = `${words.slice(0, -2)}…`;
      ctx.fillText(words, bbox.left + bbox.width + 8 * ratio, y);
    }
    ctx.textBaseline = "alphabetic";
  },

  cost(frame, column) {
    const held = frame.shown().flatMap((group) => group.passes.map((pass) => pass.median[column]));
    return held.find((value) => value > 0);
  },

  describe(frame, column) {
    const lines = [`${span(frame.data.spans[column])} ${frame.data.axis}`];
    for (const group of frame.shown()) {
      const medians = group.passes.map((pass) => pass.median[column]).filter((value) => value !== null);
      if (!medians.length) continue;
      const most = Math.max(...group.passes.map((pass) => pass.max[column] ?? 0));
      const law = group.law[column];
      let line = `${group.name}: ${durations(Math.min(...medians), Math.max(...medians))}`;
      if (law) line += `, law ${duration(law)}`;
      if (most > 1.5 * Math.max(...medians)) line += `, maximum ${duration(most)}`;
      lines.push(line);
    }
    return lines;
  },
};
