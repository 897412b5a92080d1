// Chromium, what it complains about, and the rules of accessibility that a page breaks.
//
// CHROMIUM names the browser, Debian's if unset.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// Whatever the console or the network said about the pages of this process.
export const complaints = [];
export const requests = [];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });

export const addressOf = (path) => pathToFileURL(resolve(path)).href;

// A fresh reader in front of a page.
export async function visit(browser, where, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1300, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("request", (request) => {
    if (request.url() !== where && !/^(blob|data):/.test(request.url())) requests.push(request.url());
  });
  await page.goto(where);
  return page;
}

// The same in front of a record's page, once its scripts have run.
export async function reader(browser, where, options) {
  const page = await visit(browser, where, options);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
  return page;
}

// The rules that a scheme of colours can break; they take two thirds of the time of all.
export const ofColours = ["color-contrast", "link-in-text-block"];

// axe-core comes from npm. Without a list of rules, every rule of its default set is applied.
export async function broken(page, rules) {
  await page.evaluate(await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8"));
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(options), options);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

// How wide the page is, and how wide the window.
export const widths = (page) => page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
