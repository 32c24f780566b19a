"use strict";
// The searchable vocabulary. Every text reaches the page as text, never as mark-up.
(async () => {
  const byId = (id) => document.getElementById(id);
  const unfold = byId("unfold");
  if (unfold) {
    unfold.addEventListener("click", () => {
      const folds = [...document.querySelectorAll("details.fold")];
      const open = folds.some((fold) => !fold.open);
      for (const fold of folds) fold.open = open;
      unfold.textContent = open ? "Fold them again" : "Show every folded list";
      unfold.setAttribute("aria-pressed", String(open));
    });
    unfold.hidden = false;
  }
  const prompt = byId("prompt");
  if (prompt) {
    prompt.addEventListener("change", () => {
      for (const article of document.querySelectorAll("article[data-prompt]")) {
        article.hidden = prompt.value !== "" && article.dataset.prompt !== prompt.value;
        const rest = article.closest("details.more");
        if (rest && prompt.value !== "" && !article.hidden) rest.open = true;
      }
      document.dispatchEvent(new CustomEvent("prompt", { detail: prompt.value }));
    });
    byId("prompt-control").hidden = false;
  }
  if (!byId("vocabulary-data")) return;
  const status = byId("vocabulary-status");
  if (typeof DecompressionStream === "undefined") {
    status.textContent = "This browser is too old to unpack the vocabulary table.";
    return;
  }

  const PAGE = 100;
  const meta = JSON.parse(byId("vocabulary-meta").textContent);
  const { texts, ids, kinds, roundtrips, scores } = await unpack(byId("vocabulary-data").textContent);
  const lower = texts.map((text) => text.toLowerCase());
  const ranks = new Map();
  const state = { prompt: 0, key: "rank", ascending: true, page: 0, rows: [] };

  async function unpack(base64) {
    const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = await new Response(stream).arrayBuffer();
    let at = 0;
    const take = (count) => bytes.slice(at, (at += count));
    return {
      texts: new TextDecoder().decode(take(meta.text_bytes)).split("\n").slice(0, meta.rows),
      ids: new Int32Array(take(4 * meta.rows)),
      kinds: new Uint8Array(take(meta.rows)),
      roundtrips: new Uint8Array(take(meta.rows)),
      scores: meta.prompts.map(() => new Float32Array(take(4 * meta.rows))),
    };
  }

  // Rank 1 is the best; tokens without a score come last and have none.
  function ranksOf(prompt) {
    if (!ranks.has(prompt)) {
      const score = scores[prompt];
      const order = Uint32Array.from(score.keys()).sort((a, b) => compareScores(score[a], score[b]) || a - b);
      const rank = new Uint32Array(meta.rows);
      order.forEach((row, place) => { rank[row] = place + 1; });
      ranks.set(prompt, rank);
    }
    return ranks.get(prompt);
  }

  function compareScores(a, b) {
    const missing = Number.isNaN(a) - Number.isNaN(b);
    return missing || (Number.isNaN(a) ? 0 : b - a);
  }

  function select() {
    const typed = byId("vocabulary-search").value;
    const query = typed.toLowerCase().replaceAll(" ", "␣");
    const id = /^#\d+$/.test(typed.trim()) ? Number(typed.trim().slice(1)) : null;
    const kind = byId("vocabulary-kind").value;
    const rows = [];
    for (let row = 0; row < meta.rows; row += 1) {
      if (kind !== "" && kinds[row] !== Number(kind)) continue;
      if (id !== null ? ids[row] === id : lower[row].includes(query)) rows.push(row);
    }
    const rank = ranksOf(state.prompt);
    const compare = {
      rank: (a, b) => rank[a] - rank[b],
      token: (a, b) => (lower[a] < lower[b] ? -1 : Number(lower[a] > lower[b])) || ids[a] - ids[b],
      id: (a, b) => ids[a] - ids[b],
      kind: (a, b) => kinds[a] - kinds[b] || rank[a] - rank[b],
    }[state.key];
    rows.sort(state.ascending ? compare : (a, b) => compare(b, a));
    state.rows = rows;
    state.page = 0;
    show();
  }

  function show() {
    const { mean, sd } = meta.prompts[state.prompt];
    const rank = ranksOf(state.prompt);
    const first = state.page * PAGE;
    const shown = state.rows.slice(first, first + PAGE).map((row) => {
      const score = scores[state.prompt][row];
      const scored = Number.isFinite(score);
      const line = document.createElement("tr");
      const token = document.createElement("bdi");
      token.className = "token";
      token.textContent = texts[row];
      const cells = [
        [scored ? rank[row].toLocaleString("en") : "–", "num"], [token, ""],
        [ids[row], "num"], [meta.kinds[kinds[row]], ""],
        [scored ? score.toPrecision(5) : "–", "num"],
        [scored && sd > 0 ? ((score - mean) / sd).toFixed(2) : "–", "num"],
        [roundtrips[row] ? "yes" : "no", ""],
      ];
      for (const [content, name] of cells) {
        const cell = line.insertCell();
        cell.className = name;
        cell.append(content);
      }
      return line;
    });
    byId("vocabulary-rows").replaceChildren(...shown);
    const total = state.rows.length;
    status.textContent = total === 0 ? "No token matches."
      : `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${total.toLocaleString("en")} tokens`;
    byId("vocabulary-previous").disabled = first === 0;
    byId("vocabulary-next").disabled = first + PAGE >= total;
    for (const button of document.querySelectorAll("[data-sort]")) {
      const header = button.parentElement;
      if (button.dataset.sort === state.key) {
        header.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
      } else header.removeAttribute("aria-sort");
    }
  }

  function turn(pages) {
    state.page += pages;
    show();
    byId("vocabulary-scroll").scrollTop = 0;
  }

  let waiting;
  byId("vocabulary-search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(select, 120);
  });
  byId("vocabulary-kind").addEventListener("change", select);
  byId("vocabulary-prompt").addEventListener("change", (event) => {
    state.prompt = Number(event.target.value);
    select();
  });
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      state.ascending = key === state.key ? !state.ascending : true;
      state.key = key;
      select();
    });
  }
  byId("vocabulary-previous").addEventListener("click", () => turn(-1));
  byId("vocabulary-next").addEventListener("click", () => turn(1));
  select();
  byId("vocabulary-table").hidden = false;
})();
