// Unpacks the data blocks of the charts once, decodes them into costs, and combines them for a figure.
const blocks = new Map();

async function unpackBytes(id) {
  const raw = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackBlock(id) {
  if (!blocks.has(id)) blocks.set(id, decode(JSON.parse(new TextDecoder().decode(await unpackBytes(`data-${id}`)))));
  return blocks.get(id);
}

// data.rs describes the encoding: differences of logarithms; extremes relative to their median.
const finer = isCounted ? 100 : 1;
const fine = 2000 * finer;
const coarse = 1000 * finer;

function decodeSteps(steps) {
  let now = 0;
  return steps.map((step) => {
    if (step === null) return null;
    now += step;
    return Math.exp(now / fine);
  });
}

function decode(block) {
  block.spans = block.edges.slice(1).map((end, i) => [block.edges[i], end - 1]);
  block.x = block.spans.map(([first, last]) => Math.sqrt(first * last));
  for (const group of block.groups) {
    group.law = decodeSteps(group.law);
    for (const pass of group.passes) {
      pass.median = decodeSteps(pass.median);
      for (const [name, sign] of [["min", -1], ["max", 1]]) {
        let next = 0;
        pass[name] = pass.median.map((median) => median === null ? null : median * Math.exp((sign * pass[name][next++]) / coarse));
      }
    }
  }
  return block;
}

// The parts of a figure: block, group and its name in the figure.
function parts(figure) {
  const names = JSON.parse(figure.dataset.names ?? "[]");
  return figure.dataset.chart.split(" ").map((word, i) => {
    const [block, group] = word.split("/");
    return { block, group, name: names[i] };
  });
}

async function unpackFigure(figure) {
  for (const { block } of parts(figure)) await unpackBlock(block);
}

// The data of a figure; undefined while a block is still packed.
function compose(figure) {
  const found = parts(figure).map((part) => ({ ...part, data: blocks.get(part.block) }));
  if (found.some((part) => !part.data)) return undefined;
  const [{ data, group }] = found;
  if (figure.dataset.kind === "density") return paired(data, Number(group));
  return found.length > 1 ? combined(found) : data;
}

// The density of single calls merges two columns into one.
function paired(data, number) {
  const spans = [];
  for (let i = 0; i < data.spans.length; i += 2) spans.push([data.spans[i][0], (data.spans[i + 1] ?? data.spans[i])[1]]);
  const x = spans.map(([first, last]) => Math.sqrt(first * last));
  const [group, density] = [data.groups[number], data.singles[number]];
  return { ...data, spans, x, density, groups: [{ ...group, passes: [], law: [] }], floor: null };
}

// Several blocks on one axis: the union of their columns, empty where a block has no value.
function combined(parts) {
  const every = new Map();
  for (const { data } of parts) data.x.forEach((x, i) => every.set(x, data.spans[i]));
  const x = [...every.keys()].sort((a, b) => a - b);
  const groups = parts.map(({ data, group, name }, tone) => {
    const place = new Map(data.x.map((at, i) => [at, i]));
    const spread = (row) => (row.length ? x.map((at) => row[place.get(at)] ?? null) : row);
    const own = data.groups[group];
    const passes = own.passes.map((pass) => ({ median: spread(pass.median), min: [], max: [] }));
    return { ...own, name, tone, passes, law: spread(own.law) };
  });
  return { ...parts[0].data, x, spans: x.map((at) => every.get(at)), groups, floor: null };
}
