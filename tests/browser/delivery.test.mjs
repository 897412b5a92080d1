// Opens the report page of a `landau mail` delivery in Chromium. LANDAU_DELIVERY is the path of the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { addressOf, broken, complaints, launch, requests, visit, widths } from "./browser.mjs";

const delivery = process.env.LANDAU_DELIVERY && addressOf(process.env.LANDAU_DELIVERY);
const skip = !delivery;

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

test("the page has both drawings, and no section is empty", { skip }, async () => {
  const page = await visit(browser, delivery);
  const names = await page.locator("svg.drawing").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.deepEqual(names, ["recipients a second over time", "open connections over time"]);
  const points = await page.locator("svg.drawing polyline").evaluateAll((all) => all.map((one) => one.getAttribute("points").split(" ").length));
  assert.ok(points.every((count) => count > 1), `${points}`);
  const sections = await page.locator("main > section").evaluateAll((all) => all.map((one) => [one.id, one.innerText.split("\n").length]));
  assert.deepEqual(sections.map(([id]) => id), ["throughput", "phases", "domains", "reasons", "lost"]);
  assert.ok(sections.every(([, lines]) => lines > 1), `${sections}`);
  await page.context().close();
});

test("headings are in order", { skip }, async () => {
  const page = await visit(browser, delivery);
  const levels = await page.evaluate(() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => Number(one.tagName[1])));
  assert.deepEqual(levels, [1, 2, 2, 2, 2, 2]);
  await page.context().close();
});

test("the page can be printed", { skip }, async () => {
  const page = await visit(browser, delivery, { colorScheme: "dark" });
  const pdf = await page.pdf({ format: "A4", path: process.env.LANDAU_DELIVERY_PDF });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  await page.context().close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 1280, 2560]) {
    test(`no accessibility rule is broken and nothing is cut off, ${width} pixels wide, ${colorScheme}`, { skip }, async () => {
      const page = await visit(browser, delivery, { viewport: { width, height: 900 }, colorScheme });
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
      const [needed, there] = await widths(page);
      assert.ok(needed <= there, `${needed} px wide on ${there}`);
      assert.deepEqual(await broken(page), []);
      await page.context().close();
    });
  }
}

test("no complaint in the console, no request", { skip }, () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
});
