// Looks at the page of `factmem review` in Chromium, by hand: pictures, axe-core, and no foreign request.
//
//     npm install --no-save puppeteer-core axe-core
//     node tests/cli/review_in_chromium.mjs "http://127.0.0.1:8765/enter?token=..." pictures
//
// It ends with 1 if axe finds a violation of WCAG 2.2 AA, a page is wider than its window, the
// console has an error, or a page loads anything from another address.
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "noop.js"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [link, out] = process.argv.slice(2);
const origin = new URL(link).origin;
mkdirSync(out, { recursive: true });

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--font-render-hinting=none"],
});
const page = await browser.newPage();
await page.setBypassCSP(true); // for axe only; the tests check the policy
const problems = [];
page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
page.on("request", (request) => {
  if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) problems.push(`foreign: ${request.url()}`);
});
await page.goto(link);
const user = await page.$eval('.card a[href^="/user/"]', (each) => each.getAttribute("href"));
const fact = await page.$eval(".card .keyword", (each) => each.getAttribute("href"));
const name = encodeURIComponent(decodeURIComponent(user.slice("/user/".length)));
const pages = {
  inbox: "/", users: "/users", user, fact, search: "/search?q=plan", compare: `/compare?place=${name}&then=30d`,
  timeline: "/timeline", links: "/links", problem: "/user/product/none/user/none",
};
const looks = [];
for (const width of [1280, 390]) for (const scheme of ["light", "dark"]) looks.push([width, scheme]);
for (const [name, address] of Object.entries(pages)) {
  for (const [width, scheme] of looks) {
    await page.setViewport({ width, height: width > 400 ? 900 : 844, deviceScaleFactor: 1 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(origin + address);
    if (name === "problem") problems.splice(0, problems.length, ...problems.filter((each) => !each.includes("404")));
    if (name === "inbox") await page.$$eval("details", (all) => all.slice(0, 1).forEach((each) => { each.open = true; }));
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
    for (const each of found.violations) {
      problems.push(`${name} ${width} ${scheme}: ${each.id}: ${each.nodes.map((node) => node.html.slice(0, 100)).join(" | ")}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) problems.push(`${name} ${width}: ${wide} px too wide`);
    await page.screenshot({ path: `${out}/${name}-${width}-${scheme}.png` });
  }
}
await browser.close();
console.log(problems.length ? problems.join("\n") : `${Object.keys(pages).length * looks.length} views, 0 problems`);
process.exit(problems.length ? 1 : 0);
