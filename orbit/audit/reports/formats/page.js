"use strict";
(function () {
  const CHUNK = 150;
  const all = (root, selector) => Array.from(root.querySelectorAll(selector));

  // one target at a time, chosen by the page's fragment; without scripts all of them stand one below the other
  const targets = all(document, "article.target");
  const tabs = all(document, ".tabs a");
  function choose() {
    const wanted = decodeURIComponent(location.hash.slice(1)).split("-")[0];
    const chosen = targets.find((target) => target.id === wanted) || targets[0];
    targets.forEach((target) => { target.hidden = target !== chosen; });
    tabs.forEach((tab) => {
      if (chosen && tab.hash === "#" + chosen.id) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    });
  }
  if (targets.length > 1) {
    window.addEventListener("hashchange", () => {
      choose();
      const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (place && !place.matches("article")) place.scrollIntoView();
    });
    choose();
  }

  // the coverage matrix: filter and sort rows that are already there
  all(document, ".controls[data-for]").forEach((controls) => {
    const table = document.getElementById(controls.dataset.for);
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const search = controls.querySelector("[data-role=search]");
    const gaps = controls.querySelector("[data-role=gaps]");
    const count = controls.querySelector("[data-role=count]");
    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row) => {
        const name = row.dataset.file.toLowerCase();
        const keep = words.every((word) => name.includes(word)) && !(gaps.checked && row.dataset.gap === "0");
        row.hidden = !keep;
        if (keep) shown += 1;
      });
      count.textContent = shown === rows.length ? "" : shown + " of " + rows.length + " files";
    }
    search.addEventListener("input", filter);
    gaps.addEventListener("change", filter);
    all(table, "thead button").forEach((button) => {
      button.addEventListener("click", () => {
        const text = button.dataset.kind === "text";
        const up = button.dataset.order ? button.dataset.order !== "up" : text;
        all(table, "thead button").forEach((other) => { delete other.dataset.order; });
        button.dataset.order = up ? "up" : "down";
        const key = button.dataset.sort;
        const sign = up ? 1 : -1;
        rows.sort((a, b) => {
          const one = a.dataset[key];
          const two = b.dataset[key];
          if (text) return one < two ? -sign : one > two ? sign : 0;
          return sign * (Number(one) - Number(two)) || Number(b.dataset.size) - Number(a.dataset.size);
        });
        body.append(...rows);
      });
    });
  });

  // the loader table: thousands of rows as data, drawn a chunk at a time
  all(document, ".card.loader").forEach((card) => {
    const data = JSON.parse(document.getElementById(card.dataset.source).textContent);
    const strings = data.strings;
    const lower = strings.map((string) => string.toLowerCase());
    const rows = data.rows.slice().sort((a, b) => a[3] - b[3]);
    const body = card.querySelector("tbody");
    const search = card.querySelector("input");
    const buttons = all(card, "button[data-how]");
    const count = card.querySelector("[data-role=count]");
    const more = card.querySelector("[data-role=more]");
    let found = rows;
    let drawn = 0;

    function cell(row, text, className) {
      const made = document.createElement("td");
      const inner = document.createElement("span");
      inner.className = className;
      inner.textContent = text;
      if (text) made.append(inner);
      row.append(made);
    }
    function draw() {
      const part = document.createDocumentFragment();
      found.slice(drawn, drawn + CHUNK).forEach((values) => {
        const row = document.createElement("tr");
        const how = data.hows[values[3]];
        cell(row, strings[values[0]], "path");
        cell(row, strings[values[1]], "path");
        cell(row, how, "how " + (/^[a-z]+$/.test(how) ? how : "other"));
        cell(row, strings[values[2]], "path muted");
        part.append(row);
      });
      drawn = Math.min(found.length, drawn + CHUNK);
      body.append(part);
      more.hidden = drawn >= found.length;
      more.textContent = "show more (" + (found.length - drawn).toLocaleString("en") + " left)";
    }
    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const hows = new Set(buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => Number(b.dataset.how)));
      found = rows.filter((values) => (
        (!hows.size || hows.has(values[3])) &&
        words.every((word) => lower[values[0]].includes(word) || lower[values[1]].includes(word) || lower[values[2]].includes(word))
      ));
      count.textContent = found.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " rows";
      body.replaceChildren();
      card.querySelector(".scroll").scrollTop = 0;
      drawn = 0;
      draw();
    }
    search.addEventListener("input", filter);
    buttons.forEach((button) => {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
        filter();
      });
    });
    more.addEventListener("click", draw);
    card.querySelector(".scroll").addEventListener("scroll", (event) => {
      const box = event.currentTarget;
      if (drawn < found.length && box.scrollTop + box.clientHeight > box.scrollHeight - 300) draw();
    }, { passive: true });
    filter();
  });

  // a link to a card inside a fold, and paper, need the folds open
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = all(document, "details:not([open])");
    opened.forEach((fold) => { fold.open = true; });
    targets.forEach((target) => { target.hidden = false; });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((fold) => { fold.open = false; });
    if (targets.length > 1) choose();
  });
}());
