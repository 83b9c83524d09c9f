// What tools/book_ext.py adds to a page.
document.addEventListener("DOMContentLoaded", () => {
  // WCAG 1.4.13: Escape takes a definition away that was shown by pointing or focus,
  // until another one is pointed at or focused.
  const tips = document.querySelectorAll(".glossary-tip");
  const away = (hidden) => document.documentElement.classList.toggle("tips-away", hidden);
  if (tips.length) {
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") away(true);
    });
  }
  for (const tip of tips) {
    tip.addEventListener("pointerenter", () => away(false));
    tip.addEventListener("focusin", () => away(false));
  }

  // Sphinx quotes whatever stands around the first hit in all that a page holds:
  // buttons, contents, headings, code. The book's search quotes the passage.
  if (typeof Search !== "undefined") Search.makeSearchSummary = summary;
});

const JUNK =
  ".headerlink, script, style, summary, [role='tooltip'], .prev-next-footer, " +
  "div.math, .cell_input, .linenos";
const BLOCKS = "p, li, dt, dd, td, pre";
const MOST = 240; // characters of a passage

function summary(html, keywords, anchor) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const article = page.querySelector("article.bd-article");
  if (!article) return null;
  for (const junk of article.querySelectorAll(JUNK)) junk.remove();
  for (const math of article.querySelectorAll("span.math")) {
    math.textContent = math.textContent.replace(/\\[()]/g, "");
  }
  const words = [...keywords].map((word) => word.toLowerCase());
  const place = anchor && page.getElementById(anchor.slice(1));
  const text = (place && passage(place, words)) || passage(article, words);
  const quoted = document.createElement("p");
  quoted.classList.add("context");
  quoted.textContent = shortened(text, words);
  return quoted;
}

// The words of a block; those of a term are its definition's too.
function written(block) {
  let text = block.textContent;
  if (block.matches("dt")) {
    let next = block.nextElementSibling;
    while (next && next.matches("dt")) next = next.nextElementSibling;
    if (next && next.matches("dd")) text += ": " + next.textContent;
  }
  return text.replace(/\s+/g, " ").trim();
}

// The first paragraph, entry or output with the most of `words`; of two with as many
// the one that has what was asked for word by word, and rather written than printed.
function passage(place, words) {
  const asked = new URLSearchParams(location.search).get("q").trim().toLowerCase();
  const rank = (block) => {
    const text = block.textContent.toLowerCase();
    const found = words.filter((word) => text.includes(word)).length;
    if (!found) return 0;
    return found + text.includes(asked) / 2 + (block.matches("dt") ? 0.3 : 0)
      - (block.matches("pre") ? 0.4 : 0);
  };
  if (place.matches("dt")) return written(place);
  const blocks = [...place.querySelectorAll(BLOCKS)].filter(
    (block) => !block.querySelector(BLOCKS)
  );
  let best = blocks[0];
  for (const block of blocks) if (rank(block) > rank(best)) best = block;
  return best ? written(best) : "";
}

// At most MOST characters around the first of `words`, cut between words.
function shortened(text, words) {
  if (text.length <= MOST) return text;
  const hits = words.map((word) => text.toLowerCase().indexOf(word)).filter((i) => i >= 0);
  const hit = hits.length ? Math.min(...hits) : 0;
  let start = Math.max(0, Math.min(hit - MOST / 3, text.length - MOST));
  if (start > 0) start = text.indexOf(" ", start) + 1;
  let end = Math.min(text.length, start + MOST);
  if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), hit + 1);
  return (start > 0 ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
}
