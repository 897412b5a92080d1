// Opens a page of Landau in Chromium and uses it as a reader would: mouse, keyboard, phone, dark, print, download.
//
// LANDAU_PAGE is the path of a page of one record. LANDAU_COMPARED is that of a page of two records; if it is unset, its
// tests are skipped. If the record is embedded in the page, the tests check its download. Otherwise they check the link
// to it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { addressOf, broken, complaints, launch, reader, requests, widths } from "./browser.mjs";

const address = addressOf(process.env.LANDAU_PAGE ?? "landau.html");
const compared = process.env.LANDAU_COMPARED && addressOf(process.env.LANDAU_COMPARED);
// A busy machine is slow. The test reports the time, and fails only above this limit.
const GENEROUS_MS = 10_000;

let browser;

before(async () => { browser = await launch(); });
after(() => browser?.close());

const visit = (options = {}, where = address) => reader(browser, where, options);

// Opens all details with the button of the page.
async function unfold(page) {
  const button = page.locator("#unfold");
  if (await button.innerText() === "Open all") await button.click();
}

// Scrolls to the first curve and waits until it is drawn.
async function curve(page) {
  await unfold(page);
  const figure = page.locator("details.case figure.chart[data-kind=curve]").first();
  await figure.evaluate((one) => one.scrollIntoView({ behavior: "instant", block: "center" }));
  await figure.locator("canvas").waitFor();
  return figure;
}

async function overlay(figure) {
  const box = await figure.locator(".u-over").boundingBox();
  return { at: (x, y) => [box.x + box.width * x, box.y + box.height * y] };
}

// The pixels of the chart, to detect changes. Labels and lines are on one canvas.
const pixels = (figure) => figure.locator("canvas").evaluate((canvas) => canvas.toDataURL());

test("the page loads and draws its first chart", async (t) => {
  const page = await visit();
  const ready = Number(await page.evaluate(() => document.documentElement.dataset.ready));
  const figure = await curve(page);
  const drawn = await page.evaluate(() => performance.now());
  t.diagnostic(`interactive after ${ready} ms, first curve in sight drawn after ${Math.round(drawn)} ms`);
  assert.ok(ready < GENEROUS_MS);
  const inked = await figure.locator("canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let marked = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i]) marked += 1;
    return marked / (data.length / 4);
  });
  assert.ok(inked > 0.005, `only ${inked} of the chart's pixels are drawn`);
  await page.context().close();
});

test("every figure can be drawn", async () => {
  const page = await visit();
  await unfold(page);
  const figures = page.locator("figure.chart[data-kind]");
  for (let i = 0; i < await figures.count(); i += 1) {
    await figures.nth(i).evaluate((one) => one.scrollIntoView({ behavior: "instant" }));
    await figures.nth(i).locator("canvas").waitFor();
  }
  assert.equal(await page.locator("figure.chart[data-kind]:not([data-drawn])").count(), 0);
  await page.context().close();
});

test("hovering shows values", async () => {
  const page = await visit();
  const figure = await curve(page);
  assert.equal(await figure.locator(".tip").isVisible(), false);
  const { at } = await overlay(figure);
  await page.mouse.move(...at(0.6, 0.5));
  await figure.locator(".tip").waitFor({ state: "visible" });
  assert.match(await figure.locator(".tip").innerText(), /\d+(\.\d+)? (ns|µs|ms|s)/);
  await page.context().close();
});

test("dragging zooms, the button resets", async () => {
  const page = await visit();
  const figure = await curve(page);
  const whole = await pixels(figure);
  const { at } = await overlay(figure);
  await page.mouse.move(...at(0.4, 0.3));
  await page.mouse.down();
  await page.mouse.move(...at(0.7, 0.8), { steps: 6 });
  await page.mouse.up();
  await page.waitForFunction((one) => one.dataset.range, await figure.elementHandle());
  const [low, high] = (await figure.getAttribute("data-range")).split(" ").map(Number);
  assert.ok(low > 1 && high > low);
  assert.notEqual(await pixels(figure), whole);
  await figure.getByRole("button", { name: "show everything" }).click();
  assert.equal(Number((await figure.getAttribute("data-range")).split(" ")[0]), 1);
  await page.context().close();
});

test("both axes turn linear and back, each by itself", async () => {
  const page = await visit();
  const figure = await curve(page);
  for (const name of ["log n", "log cost"]) {
    const button = figure.getByRole("button", { name });
    const logarithmic = await pixels(figure);
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    await page.waitForTimeout(50);
    assert.notEqual(await pixels(figure), logarithmic, `${name} changed nothing`);
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "true");
  }
  await page.context().close();
});

test("the keyboard reads values and zooms", async () => {
  const page = await visit();
  const figure = await curve(page);
  await figure.locator(".plot").focus();
  await page.keyboard.press("End");
  const last = await figure.locator(".readout").textContent();
  assert.match(last, /\d (ns|µs|ms|s)/);
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await figure.locator(".readout").textContent(), last);
  await page.keyboard.press("+");
  const near = (await figure.getAttribute("data-range")).split(" ").map(Number);
  await page.keyboard.press("0");
  const whole = (await figure.getAttribute("data-range")).split(" ").map(Number);
  assert.ok(near[1] - near[0] < whole[1] - whole[0]);
  await page.keyboard.press("Escape");
  assert.equal(await figure.locator(".tip").isVisible(), false);
  await page.context().close();
});

// Beyond the precision of a double, an axis gets endless ticks and the tab hangs, so the test has a time limit.
test("a chart zooms in and out only as far as its axes have ticks", { timeout: 120_000 }, async () => {
  const page = await visit();
  const figure = await curve(page);
  const range = async () => (await figure.getAttribute("data-range")).split(" ").map(Number);
  const press = async (key, times) => {
    for (let i = 0; i < times; i += 1) await page.keyboard.press(key);
  };
  for (const name of [null, "log n", "log cost"]) {
    if (name) await figure.getByRole("button", { name }).click();
    await figure.locator(".plot").focus();
    await press("0", 1);
    const whole = await range();
    // Zoom around the last n, where the precision of a double is exceeded first.
    await press("End", 1);
    for (const [key, times] of [["+", 80], ["-", 200]]) {
      await press(key, times);
      const [low, high] = await range();
      assert.ok(Number.isFinite(low) && Number.isFinite(high) && low <= high, `${key}: ${low} to ${high}`);
      await press("0", 1);
      assert.deepEqual(await range(), whole, `${key}: the range was not restored`);
    }
  }
  await page.context().close();
});

test("every control can be reached by Tab and has a name", async () => {
  const page = await visit();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await curve(page);
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, a[href], summary, [tabindex='0']")]
    .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim())).map((one) => one.outerHTML));
  assert.deepEqual(nameless, []);
  const unreachable = await page.evaluate(() => [...document.querySelectorAll("button, a[href]")].filter((one) => one.tabIndex < 0).length);
  assert.equal(unreachable, 0);
  await page.context().close();
});

test("dark follows the system, and the button overrules it", async () => {
  const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await visit({ colorScheme: "light" });
  const dark = await visit({ colorScheme: "dark" });
  const [day, night] = [await background(light), await background(dark)];
  assert.notEqual(day, night);
  await dark.locator("#theme").click();
  assert.equal(await background(dark), day);
  const figure = await curve(light);
  const before = await pixels(figure);
  await light.locator("#theme").click();
  assert.equal(await background(light), night);
  await light.waitForTimeout(100);
  assert.notEqual(await pixels(figure), before, "the chart kept its colours");
  await light.context().close();
  await dark.context().close();
});

test("print has every chart and no controls", async () => {
  const page = await visit({ colorScheme: "dark" });
  await page.waitForFunction(() => document.documentElement.dataset.unpacked, null, { timeout: 30_000 });
  await page.emulateMedia({ media: "print" });
  for (const hidden of [".places", ".controls", ".tools"]) {
    assert.equal(await page.locator(hidden).first().isVisible(), false, `${hidden} is printed`);
  }
  await page.emulateMedia({ media: null });
  const opened = await page.locator("details.case[open]").count();
  // The page opens every case while it prints.
  await page.evaluate(() => addEventListener("beforeprint", () => {
    document.documentElement.dataset.closed = document.querySelectorAll("details.case:not([open]), details.benchmark:not([open])").length;
  }));
  const pdf = await page.pdf({ format: "A4", path: process.env.LANDAU_PDF });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  assert.equal(await page.locator("figure.chart[data-kind]:not([data-drawn])").count(), 0, "printing left charts out");
  assert.equal(await page.locator("details.case[open]").count(), opened, "printing left the details open");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.closed), "0", "details were closed when printed");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme ?? ""), "", "the theme was not restored");
  await page.context().close();
});

test("the page scrolls only vertically on a phone", async () => {
  const page = await visit({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  const figure = await curve(page);
  const [needed, there] = await widths(page);
  assert.ok(needed <= there, `${needed} px wide on ${there}`);
  const box = await figure.locator("canvas").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 390.5);
  const small = await page.evaluate(() => [...document.querySelectorAll("p, li, td, figcaption")]
    .filter((one) => one.offsetParent && parseFloat(getComputedStyle(one).fontSize) < 12).length);
  assert.equal(small, 0, "text too small to read");
  await page.context().close();
});

test("the downloaded record has the checksum that the page states", async () => {
  const page = await visit({ acceptDownloads: true });
  const stated = await page.locator("#sum-0").innerText();
  assert.match(stated, /^[0-9a-f]{64}$/);
  const button = page.locator("button.download").first();
  if (await button.count()) {
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    const bytes = await readFile(await download.path());
    assert.equal(createHash("sha256").update(bytes).digest("hex"), stated);
    assert.match(download.suggestedFilename(), /\.ndjson$/);
  } else {
    const link = await page.locator("a.download").first().evaluate((one) => one.href);
    const bytes = await readFile(new URL(link));
    assert.equal(createHash("sha256").update(bytes).digest("hex"), stated);
  }
  await page.context().close();
});

test("the points of every chart unfold as a table", async () => {
  const page = await visit();
  await unfold(page);
  const folded = page.locator("details.points");
  const first = folded.first();
  // A chart that is drawn above at this moment moves the line away from the click.
  for (let tries = 0; tries < 5 && !await first.evaluate((details) => details.open); tries += 1) {
    await first.locator("summary").click();
  }
  assert.ok(await first.evaluate((details) => details.open), "a click unfolds nothing");
  // Open the others one by one and without a click, which takes a second. All tables together have 100,000 rows.
  const faults = await folded.evaluateAll(async (all) => {
    const found = [];
    for (const details of all) {
      details.open = true;
      // A chart of very few calls shows a message instead of points.
      const isFilled = () => details.querySelector("table tr td, .scroll > p");
      for (let tries = 0; tries < 500 && !isFilled(); tries += 1) {
        await new Promise((next) => { setTimeout(next, 10); });
      }
      if (!isFilled() || /undefined|NaN/.test(details.innerText)) found.push(details.innerText.slice(0, 200));
      details.open = false;
    }
    return found;
  });
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("headings are in order, charts have a label and a table", async () => {
  const page = await visit();
  await curve(page);
  const levels = await page.evaluate(() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => Number(one.tagName[1])));
  assert.equal(levels.filter((level) => level === 1).length, 1);
  levels.reduce((above, level) => {
    assert.ok(level <= above + 1, `a heading of level ${level} follows one of level ${above}`);
    return level;
  }, 0);
  const faults = await page.evaluate(() => [...document.querySelectorAll("figure.chart[data-kind]")].filter((one) => {
    const plot = one.querySelector(".plot");
    return plot.getAttribute("role") !== "img" || !plot.getAttribute("aria-label") || !one.querySelector("details.points summary") ||
      !document.getElementById(plot.getAttribute("aria-describedby")) || !one.querySelector("figcaption");
  }).length);
  assert.equal(faults, 0);
  const ids = await page.evaluate(() => [...document.querySelectorAll("[id]")].map((one) => one.id));
  assert.equal(new Set(ids).size, ids.length, "an id is not unique");
  const dead = await page.evaluate(() => [...document.querySelectorAll("a[href^='#']")].filter((one) => !document.getElementById(one.hash.slice(1))).length);
  assert.equal(dead, 0, "a link has no target");
  assert.equal(await page.evaluate(() => document.documentElement.lang), "en");
  await page.context().close();
});

// The number of findings and of their lines varies between runs: 3,785 to 4,089 pixels in three runs.
test("the answer comes first: findings and overview before the details, within 4,600 pixels", async (t) => {
  const page = await visit({ viewport: { width: 1280, height: 900 } });
  const top = await page.evaluate(() => document.querySelector("#details").getBoundingClientRect().top + scrollY);
  t.diagnostic(`the details begin at ${Math.round(top)} px`);
  assert.ok(top < 4600, `the details begin at ${top} px`);
  const leading = await page.locator(".lead-findings > .finding").count();
  assert.ok(leading >= 1 && leading <= 7, `${leading} findings lead`);
  assert.equal(await page.locator("details.benchmark[open]").count(), 0, "details are open");
  await page.context().close();
});

test("the overview sorts, filters, and opens the details of a curve", async () => {
  const page = await visit();
  const first = () => page.locator("#grid > li:not([hidden])").first();
  const numbers = (key) => page.locator("#grid > li").evaluateAll((cells, name) => cells.map((cell) => Number(cell.dataset[name])), key);
  await page.locator("#sort").selectOption("growth");
  const growths = await numbers("growth");
  assert.deepEqual(growths, [...growths].sort((a, b) => b - a));
  await page.locator("#sort").selectOption("outcome");
  const outcomes = await numbers("outcome");
  assert.deepEqual(outcomes, [...outcomes].sort((a, b) => a - b));
  await page.locator("#sort").selectOption("index");
  const button = page.locator(".classes .class").first();
  const [shown, kind] = [await page.locator("#grid > li:not([hidden])").count(), await button.getAttribute("data-class")];
  await button.click();
  assert.equal(await page.locator(`#grid > li[data-class=${kind}]:not([hidden])`).count(), 0);
  await button.click();
  assert.equal(await page.locator("#grid > li:not([hidden])").count(), shown);
  const link = first().locator("a");
  const target = (await link.getAttribute("href")).slice(1);
  await link.focus();
  await page.keyboard.press("Enter");
  const figure = page.locator(`#${target} figure.chart`).first();
  await figure.locator("canvas").waitFor();
  assert.equal(await page.locator(`#${target}`).evaluate((one) => one.open), true);
  await page.context().close();
});

test("a chart's data can be saved as a CSV file", async () => {
  const page = await visit({ acceptDownloads: true });
  const figure = await curve(page);
  const [download] = await Promise.all([page.waitForEvent("download"), figure.getByRole("button", { name: "CSV" }).click()]);
  const lines = (await readFile(await download.path(), "utf8")).trimEnd().split("\n").map((line) => line.split(","));
  assert.deepEqual(lines[0].slice(0, 5), ["curve", "n_first", "n_last", "pass", "median_ns"]);
  assert.ok(lines.length > 10 && lines.every((line) => line.length === lines[0].length));
  assert.ok(lines.slice(1).every((line) => Number(line[4]) > 0 && Number(line[5]) <= Number(line[4])));
  await page.context().close();
});

test("no cell of a CSV file becomes a formula or ends its line", async () => {
  // A page with a table as a record from an untrusted source may fill it.
  const cells = ["=1+1", "+1", "-1", "@a", "&#9;a", "&#13;b", "c&#13;d", "a=b"].map((cell) => `<td>${cell}</td>`).join("");
  const table = `<table id="foreign"><tr>${cells}</tr></table><button type="button" class="csv" data-table="foreign">Foreign</button>`;
  const folder = await mkdtemp(join(tmpdir(), "landau-page-"));
  const path = join(folder, "page.html");
  await writeFile(path, (await readFile(new URL(address), "utf8")).replace("</h1>", () => `</h1>${table}`));
  const page = await visit({ acceptDownloads: true }, addressOf(path));
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Foreign" }).click()]);
  const text = await readFile(await download.path(), "utf8");
  assert.equal(text, `'=1+1,'+1,'-1,'@a,'\ta,"'\rb","c\rd",a=b\n`);
  await page.context().close();
  await rm(folder, { recursive: true });
});

test("up and down are one loop, and the page states their ratio halfway", async () => {
  const page = await visit();
  await unfold(page);
  const looped = page.locator("details.case figure.chart[data-kind=curve]", { hasText: "in a loop" });
  assert.ok(await looped.count() > 0, "no case has both directions");
  for (const text of await looped.locator(".words").allInnerTexts()) {
    assert.match(text, /Halfway, at n = [\d,]+, \S+ \(down\) costs [\d.,]+ times/);
  }
  await page.context().close();
});

test("variants are compared in a table: cost, ratio, outcome, law or constant", async () => {
  const page = await visit();
  await unfold(page);
  const table = page.locator("table.variants").first();
  const heads = await table.locator("thead th").allInnerTexts();
  assert.deepEqual(heads, ["Phase", "Settings", "Cost at large n", "Ratio to the default", "Outcome", "Law or constant"]);
  const rows = await page.locator("table.variants tbody tr:not(.base)").evaluateAll((all) => all.map((one) => [...one.cells].map((cell) => cell.textContent)));
  for (const [phase, settings, , ratio, outcome] of rows) {
    assert.ok(phase && settings.includes("=") && outcome, `${phase} ${settings}`);
    assert.match(ratio, /^((ø )?×[\d.,e-]+ \([\d.,e-]+–[\d.,e-]+\)|no difference shown)$/);
  }
  await page.context().close();
});

test("two records share the drawing of each timeline", { skip: !compared }, async (t) => {
  const page = await visit({ viewport: { width: 1280, height: 900 } }, compared);
  const top = await page.evaluate(() => document.querySelector("#details").getBoundingClientRect().top + scrollY);
  t.diagnostic(`the details begin at ${Math.round(top)} px`);
  assert.ok(top < 4000, `the details begin at ${top} px`);
  await unfold(page);
  const drawings = page.locator("figure.overlaid svg.drawing");
  const timelines = await page.locator("p.timeline").count();
  assert.equal(timelines, 2 * await drawings.count());
  for (let i = 0; i < await drawings.count(); i += 1) {
    const tones = await drawings.nth(i).locator("polyline").evaluateAll((all) => all.map((one) => one.getAttribute("class")));
    assert.deepEqual([...new Set(tones)].sort(), ["tone-0", "tone-1"]);
  }
  assert.deepEqual(await broken(page), []);
  await page.context().close();
});

test("the confounder ladders of two records are side by side", { skip: !compared }, async (t) => {
  const page = await visit({ viewport: { width: 1280, height: 900 } }, compared);
  const table = page.locator("table.ladder.several");
  if (await table.count() === 0) return t.skip("the records have no ladder");
  await unfold(page);
  const groups = await table.locator("tbody").evaluateAll((all) => all.map((one) => one.rows.length - 1));
  assert.deepEqual(groups, [4, 3, 1, 4]);
  const rows = await table.locator("tbody tr:not(:first-child)").evaluateAll((all) => all.map((one) => [...one.cells].map((cell) => cell.textContent)));
  for (const [name, first, second] of rows) {
    assert.match(first, /\d/, name);
    assert.equal(first, second, `${name}: a record and its copy differ`);
  }
  const drawings = page.locator("figure.ladders svg.drawing");
  assert.equal(await drawings.count(), 4);
  for (let i = 0; i < 4; i += 1) {
    assert.equal(await drawings.nth(i).locator("polyline").count(), 2);
    const box = await drawings.nth(i).boundingBox();
    assert.ok(box.width > 300 && box.height > 100, `${box.width} by ${box.height} px`);
  }
  const [needed, there] = await widths(page);
  assert.ok(needed <= there, `${needed} px wide on ${there}`);
  await page.context().close();
});

test("the outcomes differ without colour", async () => {
  const page = await visit();
  const signs = await page.locator("#grid > li").evaluateAll((cells) => cells.map((cell) => [cell.dataset.class, cell.querySelector(".sign").textContent]));
  const classes = new Map();
  for (const [name, sign] of signs) classes.set(sign, (classes.get(sign) ?? new Set()).add(name));
  for (const [sign, names] of classes) assert.equal(names.size, 1, `${sign} stands for ${[...names]}`);
  await page.context().close();
});

test("no complaint in the console, no request", () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
});
