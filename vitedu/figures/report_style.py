"""The looks of a run's report: on a phone, on a desk, in the dark, on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f4f5f7; --ink: #1c1e21; --soft: #565c65;
  --line: #d5d8dc; --link: #2a639e;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #15171a; --card: #1f2226; --ink: #e6e8eb; --soft: #a6adb6;
    --line: #3a3f46; --link: #7fb2e5;
  }
}
* { box-sizing: border-box }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
main, footer { max-width: 72rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem }
h1, h2, h3, p, li, dd, figcaption, th[scope=row], .words td {
  overflow-wrap: anywhere;
}
p, ul { max-width: 44rem; margin: .5rem 0 }
.soft, footer, dt, figcaption .file { color: var(--soft) }
.numbers { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0 }
.numbers div {
  background: var(--card); border-radius: .5rem; padding: .6rem 1rem;
}
.numbers dt { font-size: .85rem }
.numbers dd { margin: 0; font-size: 1.2rem }
.charts {
  display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr));
}
.charts svg { width: 100%; max-width: 30rem; height: auto }
.cards {
  display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr));
}
figure { margin: 0 }
.cards figure {
  background: var(--card); border-radius: .5rem; padding: .75rem;
  break-inside: avoid;
}
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .25rem }
.pair img { width: 100%; height: auto; display: block }
figcaption { margin: .4rem 0; font-size: .95rem }
figcaption .file { display: block; font-size: .85rem }
.scroll { overflow: auto; max-height: 36rem; max-width: 100% }
.scroll:focus-visible, summary:focus-visible {
  outline: 2px solid var(--link); outline-offset: 2px;
}
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td { white-space: nowrap }
.words td { white-space: normal }
th, td {
  padding: .3rem .6rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line);
}
th { font-weight: 600 }
th:first-child, .words th, .words td { text-align: left }
th[scope=row] { min-width: 7rem; max-width: 20rem }
.matrix td { min-width: 2.6rem; text-align: center }
.matrix th + th[scope=col] { text-align: center }
thead th { position: sticky; top: 0; background: var(--ground) }
.matrix th[scope=row] {
  position: sticky; left: 0; background: var(--ground);
}
.scroll:has(.matrix) { max-height: none }
.matrix td, .matrix tr { print-color-adjust: exact }
pre {
  background: var(--card); border-radius: .5rem; padding: .75rem 1rem;
  overflow-x: auto; font: .9rem/1.5 ui-monospace, Consolas, monospace;
  max-width: 44rem;
}
code { font-family: ui-monospace, Consolas, monospace }
.note { border-left: 4px solid var(--link); padding-left: .75rem }
summary { cursor: pointer; margin: .75rem 0 }
footer {
  font-size: .85rem; border-top: 1px solid var(--line); margin-top: 3rem;
}
@media (max-width: 30rem) {
  th, td { padding: .3rem; font-size: .95rem }
  th[scope=row] { min-width: 4rem }
  .matrix th[scope=row] { min-width: 5.5rem; max-width: 8rem }
}
@media print {
  .scroll { max-height: none; overflow: visible }
  h2, h3 { break-after: avoid }
  tr, .numbers, .charts figure { break-inside: avoid }
  pre { white-space: pre-wrap }
}
"""
