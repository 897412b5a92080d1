// Formats the numbers of the page: three digits, a unit, separated thousands.
function digits(x) {
  const size = Math.abs(x);
  if (size >= 999.5) return count(x);
  const places = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.995 || size === 0 ? 2 : size >= 0.0995 ? 3 : 4;
  const text = x.toFixed(places);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function count(x) {
  return Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

// All costs of a page are times, or all are instructions.
const isCounted = document.documentElement.dataset.unit === "instructions";

// A cost with its unit. Use `tick` if the unit is shown elsewhere.
function duration(cost) {
  return isCounted ? `${tick(cost)} instructions` : time(cost);
}

function tick(cost) {
  if (!isCounted) return time(cost);
  return Number.isInteger(cost) || cost >= 100 ? count(cost) : digits(cost);
}

function time(ns) {
  const size = Math.abs(ns);
  if (size < 999.5) return `${digits(ns)} ns`;
  if (size < 999.5e3) return `${digits(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

function durations(low, high) {
  const [a, b] = [duration(low), duration(high)];
  if (a === b) return a;
  const [x, unit] = a.split(" ");
  return b.endsWith(` ${unit}`) ? `${x}–${b}` : `${a}–${b}`;
}

function span([first, last]) {
  return first === last ? count(first) : `${count(first)}–${count(last)}`;
}

// Round values between min and max, at most `room` of them.
function ticks(min, max, isLog, room) {
  if (isLog && max / min > 8) {
    for (const [steps, every] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3]]) {
      const found = [];
      for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power += 1) {
        if (power % every) continue;
        for (const step of steps) {
          const place = step * 10 ** power;
          if (place >= min && place <= max) found.push(place);
        }
      }
      if (found.length <= room) return found;
    }
  }
  const raw = (max - min) / Math.max(room, 2);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= raw);
  const found = [];
  for (let i = Math.ceil(min / step); i * step <= max; i += 1) found.push(i * step);
  return found;
}
