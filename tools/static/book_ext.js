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
});
