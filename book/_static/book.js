// Repairs that need the finished page; those made while building: tools/book_ext.py.
const bookScript = document.currentScript.src;
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);

  // WCAG 2.5.3: the words that are seen are part of a control's name. The theme's search
  // button says "Search Ctrl+K" and is called "Search"; its colour button has titled icons.
  for (const button of all(".search-button-field[aria-label]")) {
    const words = button.textContent.replace(/\s+/g, " ").trim();
    button.setAttribute("aria-label", words);
  }
  for (const button of all(".theme-switch-button")) {
    button.setAttribute("aria-label", "Color mode: Light, Dark, System Settings");
  }

  // The book's name at the top of the sidebar stands outside every landmark.
  const brand = document.querySelector(".bd-sidebar-primary .navbar-brand");
  if (brand) {
    brand.parentElement.setAttribute("role", "navigation");
    brand.parentElement.setAttribute("aria-label", "Home");
  }

  // Who reads from disk has the zip; it does not hold itself.
  if (location.protocol === "file:") {
    for (const link of all("a[href$='vitedu-site.zip']")) link.removeAttribute("href");
  }

  // What scrolls sideways can be reached by keyboard, also after it was unfolded. (The
  // theme does so for code and tables, but only when the window changes.)
  const scrolling =
    "div.math, mjx-container[display='true'], pre, .pst-scrollable-table-container";
  const reach = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (target.scrollWidth > target.clientWidth + 1) target.tabIndex = 0;
    }
  });
  const typeset = window.MathJax && MathJax.startup && MathJax.startup.promise;
  (typeset || Promise.resolve()).then(() => {
    for (const box of all(scrolling)) reach.observe(box);
  });

  // The ledger's rows and the API's names are long lists: a field that filters them, and
  // all but the beginning of each entry folded. A link to what is folded opens it.
  const LISTS = {
    "ledger.html": ["article section section section", 3, "Numbers, hardware, command"],
    "api.html": ["article section > dl.py", 1, "More"],
  };
  const [entries, shown, words] = LISTS[location.pathname.split("/").pop()] ?? [];
  if (entries) {
    const list = [...all(entries)];
    for (const entry of list) {
      const body = entry.querySelector(":scope > dd") ?? entry;
      const parts = [...body.children];
      const table = parts.findIndex((part) => part.matches(":has(table)"));
      const rest = parts.slice(table < 0 ? shown : Math.min(shown, table));
      if (!rest.length) continue;
      const fold = document.createElement("details");
      fold.append(document.createElement("summary"), ...rest);
      fold.firstChild.textContent = words;
      body.append(fold);
    }
    // The API's modules, too: what each of them has.
    const modules = [...all("article section:has(> dl.py)")].map((section) => {
      const own = [...section.querySelectorAll(":scope > dl.py")];
      const fold = document.createElement("details");
      own[0].before(fold);
      fold.append(document.createElement("summary"), ...own);
      const names = own.map((each) => each.querySelector(".descname")?.textContent);
      fold.firstChild.textContent = names.join(", ");
      return fold;
    });
    const open = () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      for (let box = target; box; box = box.parentElement) {
        if (box.matches("details")) box.open = true;
        if (box === target) box.querySelector("details")?.setAttribute("open", "");
      }
      target?.scrollIntoView();
    };
    if (location.hash) open();
    addEventListener("hashchange", open);

    const field = document.createElement("p");
    field.className = "list-filter";
    field.innerHTML = `<label>Show only <input type="search"></label>
      <span role="status"></span>`;
    document.querySelector("article h1").after(field);
    const texts = list.map((entry) => entry.textContent.toLowerCase());
    field.querySelector("input").addEventListener("input", ({ target }) => {
      const asked = target.value.toLowerCase().split(/\s+/);
      for (const fold of modules) fold.open = target.value !== "";
      list.forEach((entry, i) => {
        entry.hidden = !asked.every((word) => texts[i].includes(word));
      });
      for (const section of all("article section section")) {
        if (list.includes(section)) continue;
        const own = list.filter((entry) => section.contains(entry));
        section.hidden = own.length > 0 && own.every((entry) => entry.hidden);
      }
      const count = list.filter((entry) => !entry.hidden).length;
      field.querySelector("span").textContent = target.value
        ? `${count} of ${list.length}` : "";
    });
  }

  // Pages with a part of "Try it" load its scripts, one after the other; no other page does.
  if (document.querySelector(".try")) {
    const names = ["vit.js", "networks.js", "kernels.js", "pictures.js", "try.js"];
    const stations = "draw look break walk learn photograph shots listen".split(" ");
    const parts = [...all(".try")].map(({ dataset }) => dataset.part);
    if (parts.some((part) => !stations.includes(part))) names.push("switches.js");
    if (document.querySelector(".try[data-part=photograph]")) names.push("see.js");
    if (document.querySelector(".try[data-part=learn]")) {
      names.push("train.js", "teach.js", "tasks.js", "learner.js", "learn.js");
    }
    for (const part of ["listen", "walk"]) {
      if (document.querySelector(`.try[data-part=${part}]`)) names.push(`${part}.js`);
    }
    for (const name of names) {
      const script = document.createElement("script");
      script.src = new URL(`try/${name}`, bookScript);
      script.async = false;
      document.head.append(script);
    }
  }
});
