"use strict";
// Charts in place of drawings, and tables that sort. Every text reaches the page as text: plotly's
// own is escaped where charts are made.
(() => {
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  function unpack(id) {
    const packed = document.getElementById(id).textContent.trim();
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  let library;
  function load() {
    library ??= (async () => {
      // The page's policy knows this script by its hash.
      document.head.append(make("script", { textContent: await unpack("plotly") }));
      return window.Plotly;
    })();
    return library;
  }

  const plain = (text) => text.replaceAll("<br>", "; ").replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, line, card] = ["--ink", "--soft", "--line", "--card"]
      .map((name) => style.getPropertyValue(name).trim());
    const axis = {
      gridcolor: line, zerolinecolor: soft, linecolor: soft, automargin: true,
      title: { font: { size: 12.5 }, standoff: 8 },
    };
    return {
      ink,
      axis,
      layout: {
        paper_bgcolor: "transparent", plot_bgcolor: "transparent", hovermode: "closest",
        font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: ink },
        margin: { l: 64, r: 16, t: 12, b: 52 },
        legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom" },
        hoverlabel: { bgcolor: card, bordercolor: soft, font: { color: ink }, align: "left", namelength: -1 },
        dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
      },
    };
  }

  function themed(view) {
    const { ink, axis, layout } = theme();
    const merge = (own = {}) => ({ ...axis, ...own, title: { ...axis.title, ...own.title } });
    return {
      data: JSON.parse(JSON.stringify(view.data), (key, value) => (key === "color" && value === "ink" ? ink : value)),
      layout: { ...layout, ...view.layout, xaxis: merge(view.layout.xaxis), yaxis: merge(view.layout.yaxis) },
    };
  }

  // The values of a view in the order that the arrow keys take.
  function stops(data) {
    return data.flatMap((trace, curveNumber) => (trace.hovertext ?? []).flatMap((said, place) => (
      Array.isArray(said) ? said.map((text) => ({ text })) : [{ curveNumber, pointNumber: place, text: said }]
    )));
  }

  function prepare(figure, chart) {
    const follows = figure.dataset.follow === "prompt";
    const name = `chart-${figure.dataset.chart}`;
    const holder = make("div", { className: "chart", tabIndex: 0, id: name });
    holder.setAttribute("role", "group");
    holder.setAttribute("aria-roledescription", "chart");
    holder.setAttribute("aria-label", chart.title);
    holder.setAttribute("aria-describedby", `${name}-how`);
    const readout = make("p", { className: "readout small" });
    readout.setAttribute("role", "status");
    const how = make("span", {
      id: `${name}-how`, className: "soft",
      textContent: "Point at a value, or use the arrow keys; drag to enlarge, double-click to go back.",
    });
    const words = make("figcaption", {}, make("strong", { textContent: chart.title }), ` ${chart.caption}`);
    const parts = [words];
    const which = make("span");
    if (follows) words.append(which);
    let current = 0;
    let stop = -1;
    let Plotly;

    const draw = async () => {
      Plotly = await load();
      const { data, layout } = themed(chart.views[current]);
      await Plotly.react(holder, data, layout, {
        displayModeBar: false, responsive: true, typesetMath: false,
      });
      figure.classList.add("live");
      stop = -1;
      readout.textContent = "";
    };
    const show = (place) => {
      current = place;
      which.textContent = ` Prompt ${chart.views[place].name}.`;
      if (figure.classList.contains("live")) draw();
    };
    if (follows) {
      document.addEventListener("prompt", (event) => {
        show(Math.max(0, chart.views.findIndex((view) => view.name === event.detail)));
      });
    } else if (chart.views.length > 1) {
      const select = make("select", {}, ...chart.views.map((view) => new Option(view.name)));
      select.addEventListener("change", () => show(select.selectedIndex));
      parts.push(make("div", { className: "controls screen" }, make("label", {}, "Show", select)));
    }
    holder.addEventListener("keydown", (event) => {
      const all = stops(chart.views[current].data);
      const to = {
        ArrowRight: stop + 1, ArrowDown: stop + 1, ArrowLeft: stop - 1, ArrowUp: stop - 1,
        Home: 0, End: all.length - 1,
      }[event.key];
      if (to === undefined || !all.length || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      stop = Math.min(all.length - 1, Math.max(0, to));
      const { text, ...point } = all[stop];
      readout.textContent = plain(text);
      if (Plotly && "curveNumber" in point) Plotly.Fx.hover(holder, [point]);
    });
    holder.addEventListener("blur", () => Plotly?.Fx.unhover(holder));
    show(0);
    figure.removeAttribute("tabindex");
    figure.hidden = false;
    figure.append(make("div", { className: "screen" }, ...parts, holder, readout, make("p", { className: "small" }, how)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(current));
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      draw();
    }, { rootMargin: "400px" });
    observer.observe(figure);
  }

  if (document.getElementById("charts") && typeof DecompressionStream !== "undefined") {
    unpack("charts").then((text) => {
      const charts = JSON.parse(text);
      for (const figure of document.querySelectorAll("figure[data-chart]")) {
        prepare(figure, charts[figure.dataset.chart]);
      }
    });
  }

  const value = (row, column) => {
    const text = row.cells[column].innerText.trim();
    const number = Number.parseFloat(text.replaceAll(",", "").replace("−", "-"));
    return { text, number };
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = make("button", { type: "button" }, ...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const rising = header.getAttribute("aria-sort") !== "ascending";
        const rows = [...table.tBodies[0].rows].map((row) => ({ row, ...value(row, column) }));
        const numeric = header.classList.contains("num");
        rows.sort((a, b) => {
          // What has no number comes last either way.
          if (numeric && (Number.isNaN(a.number) || Number.isNaN(b.number))) {
            return Number.isNaN(a.number) - Number.isNaN(b.number);
          }
          const order = numeric ? a.number - b.number : a.text.localeCompare(b.text);
          return rising ? order : -order;
        });
        table.tBodies[0].append(...rows.map(({ row }) => row));
        for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", rising ? "ascending" : "descending");
      });
    });
  }
})();
