// Checks the accessibility rules on a page of one record, at three widths, in light and dark.
//
// These tests take as long as all other tests of that page, so they are in a separate file, which runs in parallel.
// LANDAU_PAGE is the path of the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { addressOf, broken, complaints, launch, ofColours, reader, requests, widths } from "./browser.mjs";

const address = addressOf(process.env.LANDAU_PAGE ?? "landau.html");

let browser;

before(async () => { browser = await launch(); });
after(() => browser?.close());

// Dark differs from light only in its colours, and they are the same at 2,560 and 1,280 pixels.
for (const [colorScheme, everyWidth, rules] of [["light", [390, 1280, 2560], undefined], ["dark", [390, 1280], ofColours]]) {
  for (const width of everyWidth) {
    test(`no accessibility rule is broken, ${width} pixels wide, ${colorScheme}`, async () => {
      const page = await reader(browser, address, { viewport: { width, height: 900 }, colorScheme });
      assert.deepEqual(await broken(page, rules), []);
      await page.locator("details.benchmark > summary").first().click();
      await page.evaluate(() => document.querySelectorAll("details.benchmark[open] details").forEach((one) => { one.open = true; }));
      const figure = page.locator("details.benchmark[open] figure.chart[data-kind]").first();
      await figure.evaluate((one) => one.scrollIntoView({ behavior: "instant", block: "center" }));
      await figure.locator("canvas").waitFor();
      assert.deepEqual(await broken(page, rules), []);
      await page.context().close();
    });

    test(`the figures of the study of 2001 break no accessibility rule, ${width} pixels wide, ${colorScheme}`, async (t) => {
      const page = await reader(browser, address, { viewport: { width, height: 900 }, colorScheme });
      const figures = page.locator("figure.study-2001");
      if (await figures.count() === 0) return t.skip("the record has no benchmark of the study");
      await page.evaluate(() => document.querySelectorAll("figure.study-2001, figure.over-time").forEach((one) => {
        one.closest("details.benchmark").open = true;
        one.querySelectorAll("details").forEach((details) => { details.open = true; });
      }));
      for (let i = 0; i < await figures.count(); i += 1) {
        assert.ok(await figures.nth(i).locator("rect.published").count() >= 2, "no published bars");
        assert.ok(await figures.nth(i).locator("svg.drawing").count() >= 2, "not drawn beside today's");
      }
      assert.ok(await page.locator("figure.over-time polyline").count() >= 1, "no throughput over time");
      const [needed, there] = await widths(page);
      assert.ok(needed <= there, `${needed} px wide on ${there}`);
      assert.deepEqual(await broken(page, rules), []);
      await page.context().close();
    });
  }
}

test("no complaint in the console, no request", () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
});
