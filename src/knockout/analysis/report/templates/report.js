"use strict";
(() => {
  const words = document.body.dataset;
  const said = document.getElementById("said");
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

  // Light or dark: the reader's choice goes before the system's, and is kept where the browser allows it.
  const root = document.documentElement;
  const kept = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("knockout-theme");
      localStorage.setItem("knockout-theme", value);
    } catch { /* file:// without storage */ }
    return value;
  };
  const wanted = kept();
  if (wanted === "light" || wanted === "dark") root.dataset.theme = wanted;
  const toggle = document.getElementById("theme");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    kept(root.dataset.theme);
  });

  // A link to a section opens what it is folded into.
  const show = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    const own = target.querySelector(":scope > details");
    if (own) own.open = true;
    for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", show);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) show();
  });

  // The contents stand open where there is room beside the text; on paper everything is open.
  const contents = document.getElementById("contents");
  contents.open = matchMedia("(min-width: 1180px)").matches;
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("main details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });

  // Copying, also from a file:// page, where some browsers have no clipboard.
  const copy = async (text, button) => {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.setAttribute("readonly", "");
      document.body.append(area);
      area.select();
      try { done = document.execCommand("copy"); } catch { done = false; }
      area.remove();
      button.focus();
    }
    said.textContent = done ? words.copied : words.notCopied;
    const label = button.textContent;
    button.textContent = said.textContent;
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  const buttonTo = (label, name, text) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `${label}: ${name}`);
    button.addEventListener("click", () => copy(text(), button));
    return button;
  };
  const after = (element, buttons) => {
    const row = document.createElement("div");
    row.className = "buttons";
    row.append(...buttons);
    element.after(row);
  };
  for (const listing of document.querySelectorAll(".listing")) {
    const pre = listing.querySelector("pre");
    after(pre, [buttonTo(listing.dataset.copy, listing.dataset.name, () => pre.textContent)]);
  }
  const cellText = (cell) => {
    const parts = [];
    const walk = (node) => {
      if (node.nodeType === Node.TEXT_NODE) parts.push(node.data);
      else if (node.classList.contains("tag")) parts.push(`; ${node.textContent}`);
      else node.childNodes.forEach(walk);
    };
    walk(cell);
    return parts.join("").replaceAll("\u00a0", " ").trim().replace(/^; /, "");
  };
  const quoted = (text, separator) => {
    const safe = /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
    if (separator === "\t") return safe.replace(/[\t\r\n]+/g, " ");
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const tableText = (table, separator) =>
    [...table.rows]
      .filter((row) => !row.hidden)
      .map((row) => [...row.cells].map((cell) => quoted(cellText(cell), separator)).join(separator))
      .join("\n") + "\n";
  for (const region of document.querySelectorAll("div.scroll:has(> table)")) {
    const table = region.querySelector("table");
    const name = region.getAttribute("aria-label");
    after(region, [
      buttonTo(words.csv, name, () => tableText(table, ",")),
      buttonTo(words.tsv, name, () => tableText(table, "\t")),
    ]);
  }

  // The table of verdicts: sorted by its numbers, filtered by text and by verdict; the baseline's row stays first.
  for (const table of document.querySelectorAll("table.main")) {
    const body = table.tBodies[0];
    const [base, ...rows] = body.rows;
    const heads = [...table.tHead.rows[0].cells];
    const key = (row, column) => {
      const cell = row.cells[column];
      if (heads[column].classList.contains("n") || cell.dataset.sort !== undefined)
        return cell.dataset.sort === undefined ? null : Number(cell.dataset.sort);
      return cellText(cell).toLocaleLowerCase();
    };
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sorted = rows
          .map((row, place) => ({ row, place, key: key(row, column) }))
          .sort((a, b) => {
            if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
            const order = typeof a.key === "number" ? a.key - b.key : a.key.localeCompare(b.key);
            return (up ? order : -order) || a.place - b.place;
          });
        body.replaceChildren(base, ...sorted.map((one) => one.row));
        said.textContent = fill(words.sorted, {
          column: button.textContent, direction: up ? words.ascending : words.descending,
        });
      });
    });
    const form = table.closest("section").querySelector("form.filter");
    if (!form) continue;
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    const filter = () => {
      const text = form.elements.text.value.trim().toLocaleLowerCase();
      const verdict = form.elements.verdict.value;
      for (const row of rows) {
        const badge = row.querySelector(".verdict");
        row.hidden = !cellText(row.cells[0]).toLocaleLowerCase().includes(text)
          || (verdict !== "" && !(badge && badge.classList.contains(verdict)));
      }
      const shown = rows.filter((row) => !row.hidden).length;
      said.textContent = fill(words.rows, { shown, all: rows.length });
      form.querySelector(".rows").textContent = said.textContent;
    };
    form.addEventListener("input", filter);
  }
  show();
})();
