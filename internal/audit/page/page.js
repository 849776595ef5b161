"use strict";
(function () {
  const paths = JSON.parse(document.getElementById("paths").textContent);
  const panel = document.getElementById("panel");
  const title = document.getElementById("panel-title");
  const steps = document.getElementById("panel-steps");
  const link = document.getElementById("panel-link");
  const marks = Array.from(document.querySelectorAll("button[data-path]"));
  const findings = Array.from(document.querySelectorAll("details.finding"));
  let from = null;

  function element(name, text, kind) {
    const e = document.createElement(name);
    e.textContent = text; // never markup: the texts are those of templates
    if (kind) e.className = kind;
    return e;
  }
  function show(button) {
    const path = paths[Number(button.dataset.path)];
    if (!path) return;
    if (from) from.setAttribute("aria-pressed", "false");
    from = button;
    button.setAttribute("aria-pressed", "true");
    panel.className = button.closest("tr").className;
    title.textContent = "Why shard " + path.s + " fails with " + (path.n || "it");
    link.setAttribute("href", "#f" + path.f);
    steps.replaceChildren();
    path.p.forEach(function (step, i) {
      const item = document.createElement("li");
      if (i > 0) item.append(element("span", (step.h || "") + " \u2192", "how"));
      const box = document.createElement("div");
      box.append(element("bdi", step.n), element("small", step.t + (step.k ? " in " + step.k : "")));
      item.append(box);
      steps.append(item);
    });
    panel.hidden = false;
    document.body.classList.add("open");
    button.scrollIntoView({ block: "nearest", inline: "nearest" }); // the panel may have come over it
  }
  function close() {
    if (panel.hidden) return;
    panel.hidden = true;
    document.body.classList.remove("open");
    if (from) {
      from.setAttribute("aria-pressed", "false");
      from.focus();
    }
    from = null;
  }
  // move goes to the next mark in a direction: along the row, or to the nearest row with a mark there.
  function move(button, right, down) {
    const cell = button.closest("td");
    const at = cell.cellIndex;
    if (right) {
      for (let c = cell; (c = right > 0 ? c.nextElementSibling : c.previousElementSibling);) {
        const found = c.querySelector("button[data-path]");
        if (found) return found;
      }
      return null;
    }
    const rows = Array.from(cell.closest("table").rows);
    for (let r = rows.indexOf(cell.parentElement) + down; r >= 0 && r < rows.length; r += down) {
      const c = rows[r].cells[at];
      const found = c && c.querySelector("button[data-path]");
      if (found) return found;
    }
    return null;
  }
  marks.forEach(function (b, i) {
    b.tabIndex = i === 0 ? 0 : -1; // one stop for the tab key, then arrows
    b.setAttribute("aria-pressed", "false");
  });
  document.addEventListener("click", function (e) {
    const b = e.target.closest("button[data-path]");
    if (b) show(b);
  });
  document.addEventListener("focusin", function (e) {
    if (!e.target.matches("button[data-path]")) return;
    marks.forEach(function (b) { if (b.tabIndex === 0) b.tabIndex = -1; });
    e.target.tabIndex = 0;
  });
  document.addEventListener("keydown", function (e) {
    if (e.key === "Escape") return close();
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[e.key];
    if (!way || !e.target.matches("button[data-path]")) return;
    e.preventDefault();
    const next = move(e.target, way[0], way[1]);
    if (!next) return;
    next.focus();
    if (!panel.hidden) show(next);
  });
  document.getElementById("panel-close").addEventListener("click", close);

  function opened() {
    const f = /^#f\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (f) f.open = true;
  }
  window.addEventListener("hashchange", opened);
  opened();

  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  if (findings.length > 1) filter.closest("p").hidden = false;
  const words = findings.map(function (f) { return f.textContent.toLowerCase(); });
  filter.addEventListener("input", function () {
    const want = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    findings.forEach(function (f, i) {
      const ok = want.every(function (w) { return words[i].includes(w); });
      f.hidden = !ok;
      if (ok) n++;
    });
    shown.textContent = n + " of " + findings.length;
  });
})();
