"use strict";
(function () {
  const NAME = 0, STYLE = 1, DISK = 2, PULL = 3, FILES = 4, CHILDREN = 5;
  const HEAD = 18, GAP = 2, SMALL = 4, BOXES = 5000;
  const all = (root, selector) => Array.from(root.querySelectorAll(selector));
  const size = (bytes) => {
    for (const [unit, scale, digits] of [["GB", 1e9, 2], ["MB", 1e6, 1], ["kB", 1e3, 1]]) {
      if (bytes >= scale) return (bytes / scale).toFixed(digits) + " " + unit;
    }
    return bytes + " B";
  };

  // ---- the tree ----
  const data = JSON.parse(document.getElementById("tree").textContent);
  let number = 0;
  function build(values, parent) {
    const node = {
      name: values[NAME], style: values[STYLE], sizes: { disk: values[DISK], pull: values[PULL] },
      files: values[FILES], parent: parent, level: parent ? parent.level + 1 : 0, number: number++, lower: values[NAME].toLowerCase(),
    };
    node.children = values[CHILDREN].map((child) => build(child, node));
    return node;
  }
  const root = build(data.root, null);
  const card = document.querySelector(".treemap");
  const map = card.querySelector(".map");
  const crumbs = card.querySelector(".crumbs");
  const status = card.querySelector("[data-role=status]");
  const count = card.querySelector("[data-role=count]");
  const hits = card.querySelector("[data-role=hits]");
  const search = card.querySelector("[data-role=search]");
  let measure = "disk";
  let at = root;
  let chosen = null;
  let words = [];
  let kinds = new Set();
  let drawn = [];

  const worth = (node) => node.sizes[measure];
  const sorted = (node) => {
    if (node.order !== measure) {
      node.children.sort((a, b) => worth(b) - worth(a));
      node.order = measure;
    }
    return node.children;
  };
  const path = (node) => {
    const names = [];
    for (let one = node; one && one !== root; one = one.parent) names.unshift(one.name);
    return names.join(" / ") || root.name;
  };
  const share = (node, whole) => {
    const part = worth(whole) ? 100 * worth(node) / worth(whole) : 0;
    return (part >= 10 ? part.toFixed(0) : part.toFixed(1)) + " %";
  };
  const told = (node) => {
    const parts = [path(node), size(node.sizes.disk) + " on disk"];
    if (data.measured) parts.push(size(node.sizes.pull) + " to pull");
    parts.push(share(node, root) + " of the image");
    if (node.files > 1) parts.push(node.files.toLocaleString("en") + " files");
    return parts.join(" \u00b7 ");
  };

  // ---- the layout: squarified (Bruls, Huizing, van Wijk, 2000) ----
  function squarify(nodes, box, place) {
    let total = nodes.reduce((sum, node) => sum + worth(node), 0);
    let { x, y, w, h } = box;
    let start = 0;
    while (start < nodes.length && total > 0 && w > 0 && h > 0) {
      const short = Math.min(w, h);
      const scale = w * h / total;
      let sum = 0, worst = Infinity, end = start;
      const largest = worth(nodes[start]) * scale;
      while (end < nodes.length) {
        const area = worth(nodes[end]) * scale;
        if (area <= 0) break;
        const length = (sum + area) / short;
        const ratio = Math.max(largest / (length * length), length * length / area);
        if (ratio > worst) break;
        worst = ratio;
        sum += area;
        end += 1;
      }
      if (end === start) break;
      const thick = sum / short;
      let along = 0;
      for (let i = start; i < end; i += 1) {
        const part = worth(nodes[i]) * scale / thick;
        if (w >= h) place(nodes[i], { x: x, y: y + along, w: thick, h: part });
        else place(nodes[i], { x: x + along, y: y, w: part, h: thick });
        along += part;
        total -= worth(nodes[i]);
      }
      if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
      start = end;
    }
  }

  function label(node, box, chain) {
    const name = chain.map((one) => (one.children.length ? one.name : one.name.split("/").pop())).join(" \u203a ");
    const made = document.createElement(node.children.length ? "i" : "b");
    made.textContent = name;
    if (box.w > 110) {
      const small = document.createElement("small");
      small.textContent = " " + size(worth(node));
      made.append(small);
    }
    return made;
  }

  // the style of the largest part of what is too small to be drawn
  function mostly(node) {
    let one = node;
    while (!one.style && one.children.length) one = sorted(one)[0];
    return one.style || "data";
  }

  function draw() {
    const width = map.clientWidth, height = map.clientHeight;
    const parts = document.createDocumentFragment();
    drawn = [];
    function put(first, box, level) {
      if (box.w < SMALL || box.h < SMALL || drawn.length >= BOXES) return;
      const chain = [first];
      let node = first;
      while (node.children.length === 1) { node = node.children[0]; chain.push(node); }
      const x = Math.round(box.x), y = Math.round(box.y);
      const w = Math.round(box.x + box.w) - x, h = Math.round(box.y + box.h) - y;
      const group = node.children.length > 0;
      const made = document.createElement("div");
      made.className = "box " + (group ? "group" + (level % 2 ? " odd" : "") : "leaf") + (node.style ? " k-" + node.style : "");
      made.id = "box-" + node.number;
      made.style.left = x + "px";
      made.style.top = y + "px";
      made.style.width = w + "px";
      made.style.height = h + "px";
      made.setAttribute("role", "treeitem");
      made.setAttribute("aria-level", String(level + 1));
      made.setAttribute("aria-label", told(node));
      if (group) made.setAttribute("aria-expanded", "true");
      made.title = told(node);
      made.node = node;
      const headed = h >= HEAD + 2 && w >= 34;
      if (headed) made.append(label(node, { w: w, h: h }, chain));
      parts.append(made);
      drawn.push(made);
      node.box = made;
      if (!group) return;
      const top = headed ? HEAD : GAP;
      const inner = { x: x + GAP, y: y + top, w: w - 2 * GAP, h: h - top - GAP };
      const before = drawn.length;
      squarify(sorted(node), inner, (child, place) => put(child, place, level + 1));
      if (drawn.length === before) made.classList.add("k-" + mostly(node));
    }
    if (at.children.length) squarify(sorted(at), { x: 0, y: 0, w: width, h: height }, (node, box) => put(node, box, 0));
    else put(at, { x: 0, y: 0, w: width, h: height }, 0);
    map.replaceChildren(parts);
    light();
  }

  // ---- what stands out ----
  const matches = (node) => words.length > 0 && words.every((word) => node.lower.includes(word));
  const above = (node, test) => { for (let one = node; one; one = one.parent) if (test(one)) return one; return null; };
  function light() {
    drawn.forEach((made) => {
      const node = made.node;
      const byKind = !kinds.size || kinds.has(node.style) || (!node.style && node.children.length > 0);
      const byWord = !words.length || above(node, matches) !== null || (node.children.length > 0 && node.within);
      made.classList.toggle("dim", !(byKind && byWord));
      made.classList.toggle("lit", matches(node));
      made.classList.toggle("at", node === chosen);
    });
    if (chosen && chosen.box && chosen.box.isConnected) map.setAttribute("aria-activedescendant", chosen.box.id);
    else map.removeAttribute("aria-activedescendant");
  }
  function find() {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tops = [];
    (function walk(node, covered) {
      node.within = false;
      const own = node !== root && matches(node);
      if (own && !covered) tops.push(node);
      node.children.forEach((child) => {
        walk(child, covered || own);
        if (child.within || (child !== root && matches(child))) node.within = true;
      });
    }(root, false));
    tops.sort((a, b) => worth(b) - worth(a));
    const total = tops.reduce((sum, node) => sum + worth(node), 0);
    count.textContent = words.length ? tops.length.toLocaleString("en") + (tops.length === 1 ? " place, " : " places, ") + size(total) : "";
    hits.replaceChildren(...(words.length ? tops.slice(0, 12) : []).map((node) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = path(node);
      const small = document.createElement("small");
      small.textContent = size(worth(node));
      made.append(small);
      made.addEventListener("click", () => go(node.children.length ? node : node.parent, node));
      return made;
    }));
    light();
  }
  function choose(node) {
    chosen = node;
    status.textContent = node ? told(node) : "";
    light();
  }

  // ---- walking ----
  function go(node, choice) {
    let target = node;
    while (target.children.length === 1) target = target.children[0];
    at = target.children.length ? target : target.parent || root;
    const trail = [];
    for (let one = at; one; one = one.parent) trail.unshift(one);
    crumbs.replaceChildren(...trail.flatMap((one, place) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = one === root ? "image" : one.name;
      if (one === at) made.setAttribute("aria-current", "true");
      made.addEventListener("click", () => { go(one, null); map.focus(); });
      const arrow = document.createElement("span");
      arrow.textContent = "\u203a";
      return place ? [arrow, made] : [made];
    }));
    draw();
    choose(choice || null);
  }
  const under = (event) => { const made = event.target.closest(".box"); return made ? made.node : null; };
  map.addEventListener("click", (event) => {
    const node = under(event);
    if (!node) return;
    if (node.children.length) go(node, null);
    else if (node.parent !== at && node.parent) go(node.parent, node);
    else choose(node);
  });
  map.addEventListener("mousemove", (event) => {
    const node = under(event);
    if (node) status.textContent = told(node);
  });
  map.addEventListener("mouseleave", () => { status.textContent = chosen ? told(chosen) : ""; });
  const visible = (node) => node && node.box && node.box.isConnected;
  function beside(node, step) {
    const row = sorted(node.parent || root).filter(visible);
    return row[row.indexOf(node) + step] || node;
  }
  map.addEventListener("keydown", (event) => {
    const first = sorted(at).find((node) => visible(deep(node)));
    const node = visible(chosen) ? chosen : null;
    const moves = {
      ArrowRight: () => (node ? beside(up(node), 1) : first),
      ArrowLeft: () => (node ? beside(up(node), -1) : first),
      ArrowDown: () => (node ? sorted(node).find((child) => visible(deep(child))) || node : first),
      ArrowUp: () => (node && up(node).parent !== at ? up(node).parent : node),
      Home: () => first,
    };
    if (moves[event.key]) {
      const found = moves[event.key]();
      if (found) choose(deep(found));
    } else if (event.key === "Enter" && node) {
      if (node.children.length) go(node, null);
      else go(node.parent, node);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      const left = at;
      if (at.parent) go(outer(at), left);
      else choose(null);
    } else return;
    event.preventDefault();
  });
  // boxes stand for the end of a chain of single children; what is beside one is beside the start of its chain
  function deep(node) { let one = node; while (one.children.length === 1) one = one.children[0]; return one; }
  function up(node) { let one = node; while (one.parent && one.parent !== at && one.parent.children.length === 1) one = one.parent; return one; }
  function outer(node) { let one = node.parent; while (one.parent && one.children.length === 1) one = one.parent; return one; }

  search.addEventListener("input", find);
  all(card, "[data-measure]").forEach((button) => {
    button.addEventListener("click", () => {
      measure = button.dataset.measure;
      all(card, "[data-measure]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      draw();
      find();
      choose(chosen);
    });
  });
  all(card, ".legends [data-kind]").forEach((button) => {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      if (on) kinds.add(button.dataset.kind); else kinds.delete(button.dataset.kind);
      light();
    });
  });
  let width = 0;
  new ResizeObserver(() => {
    if (map.clientWidth !== width) { width = map.clientWidth; draw(); }
  }).observe(map);
  go(root, null);

  // ---- tables ----
  all(document, "table.sortable").forEach((table) => {
    const rows = Array.from(table.tBodies[0].rows);
    all(table, "thead button").forEach((button) => {
      button.addEventListener("click", () => {
        const text = button.dataset.kind === "text";
        const rise = button.dataset.order ? button.dataset.order !== "up" : text;
        all(table, "thead button").forEach((other) => {
          delete other.dataset.order;
          other.closest("th").removeAttribute("aria-sort");
        });
        button.dataset.order = rise ? "up" : "down";
        button.closest("th").setAttribute("aria-sort", rise ? "ascending" : "descending");
        const key = button.dataset.sort;
        const sign = rise ? 1 : -1;
        rows.sort((a, b) => {
          const one = a.dataset[key], two = b.dataset[key];
          if (text) return one < two ? -sign : one > two ? sign : 0;
          return sign * (Number(one) - Number(two)) || Number(b.dataset.disk) - Number(a.dataset.disk);
        });
        table.tBodies[0].append(...rows);
      });
    });
  });
  all(document, ".controls[data-for]").forEach((controls) => {
    const rows = Array.from(document.getElementById(controls.dataset.for).tBodies[0].rows);
    const filter = controls.querySelector("[data-role=filter]");
    const shown = controls.querySelector("[data-role=count]");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let kept = 0;
      rows.forEach((row) => {
        const keep = wanted.every((word) => row.dataset.name.toLowerCase().includes(word));
        row.hidden = !keep;
        if (keep) kept += 1;
      });
      shown.textContent = kept === rows.length ? "" : kept + " of " + rows.length;
    });
  });
}());
