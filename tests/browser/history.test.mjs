// Opens the site of a collection (`landau history --site`) in Chromium. LANDAU_SITE is the path of its index.html.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { addressOf, broken, complaints, launch, requests, visit, widths } from "./browser.mjs";

const site = process.env.LANDAU_SITE && addressOf(process.env.LANDAU_SITE);
const skip = !site;
// A busy machine is slow. The test reports the time, and fails only above this limit.
const GENEROUS_MS = 10_000;

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

// The addresses of the pages that the first table of a section links to.
const links = (page, section) => page.locator(`#${section} tbody a`).evaluateAll((all) => [...new Set(all.map((one) => one.href))]);

// A phone is 390 pixels wide.
for (const width of [390, 1280]) {
  test(`the collection loads, ${width} pixels wide, offline`, { skip }, async (t) => {
    const page = await visit(browser, site, { viewport: { width, height: 844 }, offline: true });
    const [ready, bytes] = await page.evaluate(() => [performance.getEntriesByType("navigation")[0].loadEventEnd, document.documentElement.outerHTML.length]);
    const records = await page.locator("#records tbody tr").count();
    t.diagnostic(`${records} records, ${bytes} characters, loaded after ${Math.round(ready)} ms`);
    assert.ok(records >= 100 && ready > 0 && ready < GENEROUS_MS);
    await page.context().close();
  });
}

test("the page shows values of a record as text", { skip }, async () => {
  const page = await visit(browser, site);
  const named = page.locator("a", { hasText: "<img src=hit" });
  const places = [site, ...await named.evaluateAll((all) => [...new Set(all.map((one) => one.href))])];
  assert.ok(places.length >= 3, `the site has no hostile record: ${places}`);
  for (const where of places) {
    await page.goto(where);
    await page.locator("text=<script>hit=1").first().waitFor({ state: "attached" });
    assert.deepEqual(await page.evaluate(() => [globalThis.hit, document.querySelectorAll("img").length]), [undefined, 0], where);
  }
  await page.context().close();
});

test("the filter shows the rows that contain every word", { skip }, async () => {
  const page = await visit(browser, site);
  const rows = page.locator("#curves tbody tr");
  const all = await rows.count();
  const name = (await rows.first().locator("th").innerText()).split(" ")[0];
  await page.locator("#curves input[type=search]").fill(`${name} growth`);
  const shown = page.locator("#curves tbody tr:visible");
  const count = await shown.count();
  assert.ok(count > 0 && count < all, `${count} of ${all}`);
  for (const text of await shown.allInnerTexts()) assert.ok(text.includes(name) && text.includes("growth"), text);
  await page.context().close();
});

test("every benchmark has a page with drawings, and every record a page", { skip }, async () => {
  const page = await visit(browser, site);
  const benchmarks = await links(page, "curves");
  const records = await links(page, "records");
  assert.ok(benchmarks.length > 0 && records.length > 0);
  for (const one of benchmarks) {
    const own = await visit(browser, one);
    const drawings = await own.locator("svg.drawing").evaluateAll((all) => all.map((svg) => [svg.querySelectorAll("circle").length, svg.outerHTML.includes("NaN")]));
    assert.ok(drawings.length > 0 && drawings.every(([points, isBroken]) => points > 0 && !isBroken), `${one}: ${drawings}`);
    await own.context().close();
  }
  const record = await visit(browser, records[0]);
  await record.waitForFunction(() => document.documentElement.dataset.ready);
  await record.context().close();
  await page.context().close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 1280]) {
    test(`no accessibility rule is broken and nothing is cut off, ${width} pixels wide, ${colorScheme}`, { skip }, async () => {
      const page = await visit(browser, site, { viewport: { width, height: 900 }, colorScheme });
      const [benchmark] = await links(page, "curves");
      for (const where of [site, benchmark]) {
        await page.goto(where);
        await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
        const [needed, there] = await widths(page);
        assert.ok(needed <= there, `${where}: ${needed} px wide on ${there}`);
        assert.deepEqual(await broken(page), []);
      }
      await page.context().close();
    });
  }
}

test("no complaint in the console, no request beyond the site", { skip }, () => {
  assert.deepEqual(complaints, []);
  const folder = site.replace(/[^/]*$/, "");
  assert.deepEqual(requests.filter((one) => !one.startsWith(folder)), []);
});
