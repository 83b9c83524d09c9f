// A question that waits for the reader: tools/predictions.py marks where it ends, and
// where its answer does. Without this script the answer stands there from the start.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".predict").forEach((mark, index) => {
    const all = following(mark);
    const end = all.findIndex((each) => each.matches(".predict-end, .predict"));
    const waits = end >= 0 && all[end].matches(".predict-end");
    new Prediction(mark, waits ? all.slice(0, end) : [], index);
  });
});

function following(element) {
  const found = [];
  while ((element = element.nextElementSibling)) found.push(element);
  return found;
}

function made(tag, attributes, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

class Prediction {
  constructor(mark, answer, index) {
    this.data = JSON.parse(mark.dataset.predict);
    this.answer = answer;
    this.place = `vitedu predict ${location.pathname.split("/").pop()} ${this.data.ask}`;
    this.word = made("p", { role: "status", class: "predict-word" });
    const name = { role: "group", "aria-label": `Your guess: ${this.data.ask}` };
    this.box = made("div", { class: "predict-box", ...name });
    this.box.append(...("right" in this.data ? this.choices(mark) : this.field(index)));
    this.again = this.button("Ask me again", () => this.reset());
    this.show = this.button("Show me", () => this.open(""));
    for (const plain of [this.again, this.show]) plain.classList.add("predict-plain");
    this.box.append(this.word, this.show, this.again);
    mark.replaceWith(this.box);
    // found by the browser's search, and by a link to a place inside
    for (const each of answer) each.addEventListener("beforematch", () => this.open(""));
    addEventListener("hashchange", () => this.openIfLinked());
    this.reset(false);
    const before = this.remembered();
    if (before !== null) this.open(before);
    this.openIfLinked();
  }

  button(words, act) {
    const button = made("button", { type: "button" }, words);
    button.addEventListener("click", act);
    return button;
  }

  // The list before the mark becomes buttons.
  choices(mark) {
    const list = mark.previousElementSibling;
    this.buttons = [...list.children].map((item, place) => {
      const button = this.button("", () => this.open(String(place + 1)));
      const paragraph = item.querySelector("p") || item;
      button.append(...paragraph.cloneNode(true).childNodes);
      // a glossary's term would be a second thing to press inside
      for (const term of button.querySelectorAll("a, [tabindex]"))
        term.replaceWith(...term.childNodes);
      return button;
    });
    list.classList.add("predict-list");
    return this.buttons;
  }

  field(index) {
    const id = `predict-${index}`;
    this.input = made("input", { id, inputmode: "decimal", autocomplete: "off", size: "8" });
    const send = () => {
      const value = number(this.input.value);
      if (Number.isFinite(value)) this.open(this.input.value.trim());
      else this.word.textContent = "That needs to be a number, such as 12 or 0.5.";
    };
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") send();
    });
    this.send = this.button("Check", send);
    return [made("label", { for: id }, "Your guess"), this.input, this.send];
  }

  remembered(value) {
    try {
      if (value === undefined) return localStorage.getItem(this.place);
      if (value === null) localStorage.removeItem(this.place);
      else localStorage.setItem(this.place, value);
    } catch {
      // a browser that stores nothing
    }
    return null;
  }

  verdict(guess) {
    const { right, number: wanted, within, why = "", says = [] } = this.data;
    if (right !== undefined) {
      if (Number(guess) === right) return ["Right.", why];
      const said = says.find(([place]) => place === Number(guess));
      return ["Not this time.", said ? said[1] : ""];
    }
    const value = number(guess);
    const off = Math.abs(value - wanted);
    const room = within * 1.0001; // 0.3 is 0.3 off 0.6
    if (off <= room) return ["Right.", why];
    const said = says.find(([other]) => Math.abs(value - other) <= room);
    if (said) return ["Not this time.", said[1]];
    return [off <= 3 * room ? "Close." : "Not this time.", ""];
  }

  // `guess` is "" if the reader only wants to see.
  open(guess) {
    const [word, more] = guess ? this.verdict(guess) : ["", ""];
    const is_right = word === "Right.";
    this.word.textContent = `${word} ${more}`.trim();
    this.box.classList.toggle("predict-right", is_right);
    for (const [place, button] of (this.buttons || []).entries()) {
      button.disabled = true;
      button.setAttribute("aria-pressed", String(String(place + 1) === guess));
    }
    if (this.input) {
      this.input.value = guess;
      this.input.disabled = this.send.disabled = true;
    }
    for (const each of this.answer) each.hidden = false;
    this.show.hidden = true;
    this.again.hidden = false;
    this.remembered(guess);
  }

  reset(forget = true) {
    this.word.textContent = "";
    this.box.classList.remove("predict-right");
    for (const button of this.buttons || []) {
      button.disabled = false;
      button.setAttribute("aria-pressed", "false");
    }
    if (this.input) {
      this.input.value = "";
      this.input.disabled = this.send.disabled = false;
    }
    for (const each of this.answer) {
      each.classList.add("predict-answer");
      each.setAttribute("hidden", "until-found");
    }
    this.show.hidden = !this.answer.length;
    this.again.hidden = true;
    if (!forget) return;
    this.remembered(null);
    (this.input || this.buttons[0]).focus();
  }

  openIfLinked() {
    const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!place || !this.answer.some((each) => each.contains(place))) return;
    this.open("");
    place.scrollIntoView();
  }
}

// 1,000 and 1000, 0.5 and .5, 45 % and 45%
function number(text) {
  const plain = text.trim().replace(/(\d),(?=\d{3}\b)/g, "$1").replace(/\s*(%|percent)$/, "");
  return /^[-+−]?(\d+\.?\d*|\.\d+)(e-?\d+)?$/i.test(plain) ? Number(plain.replace("−", "-")) : NaN;
}
