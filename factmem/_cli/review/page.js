// The keyboard of the page. Everything works without it, with the mouse or with Tab.
"use strict";
const cards = [...document.querySelectorAll(".card[tabindex]")];
const keys = document.getElementById("keys");
const box = document.getElementById("keys-on");
box.checked = localStorage.getItem("keys") !== "off";
box.addEventListener("change", () => localStorage.setItem("keys", box.checked ? "on" : "off"));
const help = document.getElementById("help");
help.hidden = false;
help.addEventListener("click", () => keys.showModal());

const card = () => document.activeElement.closest(".card[tabindex]");
function move(step) {
  const now = cards.indexOf(card());
  const next = cards[now < 0 ? 0 : Math.min(Math.max(now + step, 0), cards.length - 1)];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}
document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (target.matches("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") (target.closest(".card[tabindex]") || document.body).focus();
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (event.key === "?") { keys.showModal(); return; }
  if (!box.checked) return;
  if (event.key === "j" || event.key === "k") { move(event.key === "j" ? 1 : -1); return; }
  const within = "yefo".includes(event.key) ? card() || cards[0] : document;
  const found = within && within.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!found) return;
  event.preventDefault();
  if (found.matches("input")) { found.focus(); found.select(); return; }
  found.click();
  const field = found.matches("summary") && found.parentElement.querySelector("textarea, [name=reason]");
  if (field) { field.focus(); field.select(); }
});
// After a change the next value is open.
const after = document.getElementById(location.hash.slice(1)) || cards[cards.length - 1];
if (location.hash && after) after.focus();
