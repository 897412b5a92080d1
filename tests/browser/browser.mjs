// Starts Chromium, collects its warnings, errors and requests, and checks the accessibility rules on a page.
//
// CHROMIUM is the path of the browser; the default is Debian's.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// The warnings and errors, and the network requests, of the pages of this process.
export const complaints = [];
export const requests = [];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });

export const addressOf = (path) => pathToFileURL(resolve(path)).href;

// Opens a page in a new browser context.
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

// Opens the page of a record, and waits until its scripts have run.
export async function reader(browser, where, options) {
  const page = await visit(browser, where, options);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
  return page;
}

// The rules that depend on colours. They take two thirds of the time of all rules.
export const ofColours = ["color-contrast", "link-in-text-block"];

// Returns the violations that axe-core (from npm) finds. Without a list of rules, it checks its default set.
export async function broken(page, rules) {
  await page.evaluate(await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8"));
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(options), options);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

// The width of the page's content and that of the window.
export const widths = (page) => page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
