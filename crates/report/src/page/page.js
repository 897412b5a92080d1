// Starts the page: draws charts shortly before they scroll into view, and handles the theme, downloads and printing.
const figures = [...document.querySelectorAll("figure.chart[data-kind]")];
const views = { curve: curveView, density: densityView };

function draw(figure) {
  const data = frames.has(figure) ? undefined : compose(figure);
  if (data) {
    frames.set(figure, new Frame(figure, data, views[figure.dataset.kind]));
    figure.dataset.drawn = "yes";
  }
}

async function prepare(figure) {
  await unpackFigure(figure);
  draw(figure);
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    watcher.unobserve(entry.target);
    prepare(entry.target);
  }
}, { rootMargin: "600px 0px" });
figures.forEach((figure) => watcher.observe(figure));

// Unpacks the remaining data when idle, so that printing finds all of it.
const whenIdle = window.requestIdleCallback ?? ((act) => setTimeout(act, 50));
async function unpackNext(index) {
  if (index >= figures.length) {
    document.documentElement.dataset.unpacked = "yes";
    return;
  }
  await unpackFigure(figures[index]);
  whenIdle(() => unpackNext(index + 1));
}
whenIdle(() => unpackNext(0));

function redraw() {
  for (const frame of frames.values()) frame.plot.redraw(false, true);
}

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
}

function nameTheme() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
}

themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
  redraw();
});
system.addEventListener("change", () => {
  nameTheme();
  redraw();
});
nameTheme();

// Opens the benchmark and the case that contain the target of a link.
function reveal() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  target.scrollIntoView();
  target.querySelector("summary")?.focus({ preventScroll: true });
}
addEventListener("hashchange", reveal);
// A second click on the same link does not change the hash.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#']");
  if (link && link.hash === location.hash) reveal();
});

const folded = () => [...document.querySelectorAll("details:not(.points):not(.facts-of-case):not(.settings)")];
const unfold = document.getElementById("unfold");
unfold?.addEventListener("click", () => {
  const every = folded().filter((one) => one.closest("#details"));
  const isOpening = every.some((one) => !one.open);
  every.forEach((one) => { one.open = isOpening; });
  unfold.textContent = isOpening ? "Close all" : "Open all";
});

// Prints in light colours, with all charts drawn and all details open.
let before = null;
addEventListener("beforeprint", () => {
  before = { theme: root.dataset.theme, folded: folded().filter((one) => !one.open) };
  root.dataset.theme = "light";
  before.folded.forEach((one) => { one.open = true; });
  root.classList.add("printing");
  figures.forEach(draw);
  for (const frame of frames.values()) frame.build();
});
addEventListener("afterprint", () => {
  if (!before) return;
  root.classList.remove("printing");
  if (before.theme) root.dataset.theme = before.theme;
  else delete root.dataset.theme;
  before.folded.forEach((one) => { one.open = false; });
  before = null;
  for (const frame of frames.values()) frame.build();
});

for (const button of document.querySelectorAll("button.download")) {
  button.addEventListener("click", async () => {
    const record = document.getElementById(button.dataset.record);
    save(record.dataset.fileName, [await unpackBytes(record.id)], "application/x-ndjson");
  });
}

reveal();
root.dataset.ready = Math.round(performance.now());
