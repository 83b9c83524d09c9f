// The search's page: what is typed is looked for at once, in every passage of the book
// (passages.js, which tools/passages.py writes).
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const MOST = 40; // results
  const LONGEST = 240; // characters of a passage
  const LISTS = /\/(api|ledger|bibliography)\./; // rather looked up than read
  const field = document.querySelector(".bd-search-container input[name=q]");
  const place = document.getElementById("search-results");
  const status = document.createElement("p");
  const list = document.createElement("ul");
  status.setAttribute("role", "status");
  list.className = "search";
  place.append(status, list);

  // Every heading with its passages, and all of its words once more to look through.
  const entries = PASSAGES.flatMap(([page, title, sections]) =>
    sections.map(([id, heading, texts]) => ({
      page, title, id, heading, texts,
      // a glossary's entry, under any of its names
      names: heading.toLowerCase().split(" · "),
      words: `${title} ${heading} ${texts.join(" ")}`.toLowerCase(),
    })));

  // A word's beginning: "patches" finds a patch, "train" finds training. Where words have
  // no blanks between them, anywhere.
  function stem(word) {
    const short = word.replace(/(es|s|ing|ed)$/, "");
    return short.length >= 4 ? short : word;
  }
  const pattern = (words) => words
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .map((word) => (/^[a-z0-9]/.test(word) ? `(?<![a-z0-9])${word}` : word)).join("|");

  function rank({ page, names, title, texts, words }, asked, each) {
    if (!each.every((one) => one.test(words))) return 0;
    const among = (text) => each.every((one) => one.test(text));
    if (names.includes(asked)) return 1000;
    const inTitle = title.toLowerCase().includes(asked) ? 4 : 0;
    const inNames = Math.max(...names.map((name) =>
      (among(name) ? 50 * (asked.length / name.length) + 10 : 0)));
    const phrase = words.includes(asked) ? 5 : 0;
    const together = texts.some((text) => among(text.toLowerCase())) ? 3 : 0;
    return (1 + inTitle + inNames + phrase + together) * (LISTS.test(page) ? 0.6 : 1);
  }

  // The passage with the most of the words, cut to its surroundings.
  function quoted(texts, asked, each) {
    const worth = (text) => each.filter((one) => one.test(text.toLowerCase())).length
      + (text.toLowerCase().includes(asked) ? 0.5 : 0);
    const best = texts.reduce((one, other) =>
      (worth(other) > worth(one) ? other : one), texts[0] ?? "");
    if (best.length <= LONGEST) return best;
    const hits = each.map((one) => best.toLowerCase().search(one)).filter((i) => i >= 0);
    const hit = hits.length ? Math.min(...hits) : 0;
    let start = Math.max(0, Math.min(hit - LONGEST / 3, best.length - LONGEST));
    if (start > 0) start = best.indexOf(" ", start) + 1;
    let end = Math.min(best.length, start + LONGEST);
    if (end < best.length) end = Math.max(best.lastIndexOf(" ", end), hit + 1);
    return (start > 0 ? "… " : "") + best.slice(start, end) + (end < best.length ? " …" : "");
  }

  // Text with what was found marked.
  function marked(element, text, all) {
    let end = 0;
    for (const { 0: found, index } of text.matchAll(all)) {
      const mark = document.createElement("mark");
      mark.textContent = found;
      element.append(text.slice(end, index), mark);
      end = index + found.length;
    }
    element.append(text.slice(end));
    return element;
  }

  function result({ page, title, id, heading, texts }, asked, each, all) {
    const row = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${page}#${encodeURIComponent(id)}`;
    link.textContent = title.endsWith(heading) ? title : `${title} > ${heading}`;
    const words = document.createElement("p");
    words.className = "context";
    row.append(link, marked(words, quoted(texts, asked, each), all));
    return row;
  }

  function search() {
    const asked = field.value.trim().toLowerCase();
    const stems = asked.split(/[^\p{L}\p{N}_.-]+/u).filter(Boolean).map(stem);
    if (!stems.length) {
      status.textContent = "";
      return list.replaceChildren();
    }
    const each = stems.map((one) => new RegExp(pattern([one])));
    const found = entries
      .map((entry) => [rank(entry, asked, each), entry])
      .filter(([worth]) => worth).sort(([one], [other]) => other - one);
    const all = new RegExp(`(?:${pattern(stems)})[a-z0-9]*`, "gi"); // to a word's end
    list.replaceChildren(...found.slice(0, MOST).map(([, entry]) =>
      result(entry, asked, each, all)));
    const more = found.length > MOST ? `, the best ${MOST} of them here` : "";
    status.textContent = found.length
      ? `Found in ${found.length} ${found.length === 1 ? "place" : "places"}${more}.`
      : "Nothing found. Try another word, or fewer.";
  }

  let writing;
  field.addEventListener("input", () => {
    search();
    clearTimeout(writing);
    if (location.protocol === "file:") return; // the address can't change there
    writing = setTimeout(() => history.replaceState(null, "",
      `?q=${encodeURIComponent(field.value)}`), 300);
  });
  field.form.addEventListener("submit", (event) => event.preventDefault());
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  search();
});
