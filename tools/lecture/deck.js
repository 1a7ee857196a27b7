/* The deck: lays the sections of a lesson out on slides of 1280 × 720, in the browser, because only the browser knows how
   large text is. Then: keys, an address for every slide, notes for the speaker. Nothing is fetched. */
"use strict";
const deck = document.getElementById("deck"), slides = [];
const make = (tag, className, parent) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (parent) parent.append(element);
  return element;
};

// ------------------------------------------------------------------------------------------------------------- layout

function newSlide(section) {
  const first = slides.at(-1)?.section !== section;
  const slide = make("div", "slide " + (first ? section.className : "step"), deck);
  slide.section = section;
  slide.page = first ? 1 : slides.at(-1).page + 1;
  const head = make("header", "", slide);
  make("span", "part", head).innerHTML = section.dataset.part;
  make(slide.matches(".title") ? "h1" : "h2", "", head).innerHTML = section.dataset.title + (first ? "" : " <small>(continued)</small>");
  slide.body = make("div", "body", slide);
  make("footer", "", slide).textContent = "\u00a0";
  slides.push(slide);
  return slide;
}

const fits = body => body.scrollHeight <= body.clientHeight + 1 && body.scrollWidth <= body.clientWidth + 1;

// The pieces of a block that is longer than a slide: items of a list, rows of a table, lines of a listing.
function cut(block) {
  const shell = () => block.cloneNode(false);
  const wrap = parts => parts.map(part => { const copy = shell(); copy.append(...part); return copy; });
  if (block.matches("ul, ol")) return wrap([...block.children].map((item, i) => {
    if (block.matches("ol")) item.value = (block.start || 1) + i;
    return [item];
  }));
  if (block.matches("table")) return wrap([...block.tBodies[0].rows].map((row, i) => {
    const body = document.createElement("tbody"), head = block.tHead?.cloneNode(true);
    body.append(row);
    if (head && i) head.className = "again";
    return [...(head ? [head] : []), body];
  }));
  if (block.matches("pre")) return wrap(block.innerHTML.split("\n").map(line => {
    const span = document.createElement("span");
    span.innerHTML = line + "\n";
    return [span];
  }));
  if (block.matches("blockquote, div")) return wrap([...block.children].map(child => [child]));
  return null;
}

// Put pieces of one block back together, as many as a slide takes.
function join(target, piece) {
  if (target.matches("table")) target.tBodies[0].append(...piece.tBodies[0].rows);
  else target.append(...piece.childNodes);
}

function place(section, block) {
  let slide = slides.at(-1);
  const image = block.querySelector("img");
  if (block.matches("figure") && image.height > 0.49 * image.width) {  // it needs all the room there is
    if (slide.body.children.length) slide = newSlide(section);
    slide.classList.add("big");
  }
  slide.body.append(block);
  if (fits(slide.body)) return;
  const pieces = block.matches("figure, p") ? null : cut(block.cloneNode(true));
  const roomLeft = slide.body.clientHeight - block.offsetTop + slide.body.offsetTop;
  if (block.previousElementSibling && !(pieces?.length > 1 && roomLeft > 220 && !block.matches("pre"))) {
    block.remove();
    const lead = leadOf(slide.body, block);  // a line that announces the block goes with it
    slide = newSlide(section);
    if (lead) slide.body.append(lead);
    slide.body.append(block);
    if (fits(slide.body)) return;
    if (lead && !pieces) {
      slides.at(-2).body.append(lead);
      if (fits(slide.body)) return;
    }
  }
  if (!pieces || pieces.length < 2) return shrink(slide);
  block.remove();
  let target = null;
  for (const piece of pieces) {
    const before = target?.cloneNode(true);
    if (target) join(target, piece.cloneNode(true));
    else slide.body.append(target = piece.cloneNode(true));
    if (fits(slide.body)) continue;
    if (before) target.replaceWith(before);
    else if (slide.body.children.length > 1) target.remove();
    else { shrink(slide); target = null; slide = newSlide(section); continue; }
    slide = newSlide(section);
    slide.body.append(target = piece);
    if (!fits(slide.body)) shrink(slide);
  }
  if (!slide.body.children.length) { slides.pop(); slide.remove(); }
}

function leadOf(body, block) {
  const last = body.lastElementChild, text = last.textContent;
  const announces = last.matches("p") && (text.length < 40
    || (text.length < 300 && (/:\s*$/.test(text) || (block.matches("pre") && /^Check/.test(text)))));
  return body.children.length > 1 && announces ? last : null;
}

function shrink(slide) {
  slide.classList.add("small");
  if (!fits(slide.body)) console.error(`does not fit: ${slide.section.id}: ${slide.body.innerText.slice(0, 80)}`);
}

function layOut() {
  for (const section of [...document.querySelectorAll("#source > section")]) {
    const blocks = [...section.children].filter(child => !child.matches("aside, .code-of"));
    newSlide(section);
    if (!blocks.length) slides.at(-1).classList.add("divider");
    for (const block of blocks) place(section, block);
  }
  slides.forEach((slide, i) => {
    slide.id = slide.section.id + (slide.page > 1 ? `/${slide.page}` : "");
    slide.setAttribute("role", "group");
    slide.setAttribute("aria-label", `slide ${i + 1} of ${slides.length}`);
    slide.querySelector("footer").textContent = `${document.title.split(":")[0]}  ·  ${i + 1} / ${slides.length}`;
  });
}

// ---------------------------------------------------------------------------------------------------------------- show

let current = 0, speaker = null;
const started = Date.now();
const panel = document.getElementById("panel");

function show(number) {
  current = Math.max(0, Math.min(slides.length - 1, number));
  slides.forEach((slide, i) => slide.classList.toggle("shown", i === current));
  try { history.replaceState(null, "", "#" + slides[current].id); } catch { /* some browsers refuse it for files */ }
  if (panel.dataset.kind) fill(panel.dataset.kind);
  tell();
}

function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720);
  deck.style.transform = `translate(${(innerWidth - 1280 * scale) / 2}px, ${(innerHeight - 720 * scale) / 2}px) scale(${scale})`;
}

const notesOf = slide => slide.section.querySelector("aside")?.innerHTML ?? "<p>No notes for this part.</p>";
const codeOf = slide => [...slide.section.querySelectorAll(".code-of")].map(code => code.innerHTML).join("") || "<p>No code here.</p>";

function contents() {
  const first = slides.map((slide, i) => [slide, i]).filter(([slide]) => slide.page === 1);
  return first.map(([slide, i]) => `<a href="#" data-go="${i}" class="${slide.section.className}">${slide.section.dataset.title}</a>`).join("");
}

function fill(kind) {
  const help = document.getElementById("help").innerHTML;
  panel.innerHTML = { notes: () => notesOf(slides[current]), code: () => codeOf(slides[current]), contents, help: () => help }[kind]();
}

function toggle(kind) {
  panel.dataset.kind = panel.dataset.kind === kind ? "" : kind;
  panel.hidden = !panel.dataset.kind;
  if (panel.dataset.kind) { fill(kind); panel.focus(); }
}

panel.addEventListener("click", event => {
  const go = event.target.closest("[data-go]")?.dataset.go;
  if (go === undefined) return;
  event.preventDefault();
  toggle("contents");
  show(+go);
});

// A second window for the lecturer's own screen: the notes, what comes next, the clock.
function openSpeaker() {
  speaker = window.open("", "speaker", "width=900,height=700");
  if (!speaker) return toggle("notes");  // pop-ups are blocked
  speaker.document.title = "Notes";
  speaker.document.body.className = "speaker";
  speaker.document.head.replaceChildren(document.querySelector("style").cloneNode(true));
  speaker.document.onkeydown = onKey;
  tell();
}

function tell() {
  if (!speaker || speaker.closed) return;
  const { section } = slides[current], next = slides[current + 1]?.section;
  const passed = Math.floor((Date.now() - started) / 60000);
  const sections = [...new Set(slides.slice(0, current + 1).map(slide => slide.section))];
  const planned = sections.reduce((sum, one) => sum + Number(one.dataset.minutes), 0);
  speaker.document.body.innerHTML = document.getElementById("glyphs").outerHTML
    + `<p class="clock">${passed} min since the deck was opened · by the end of this part: ${planned} min`
    + ` · slide ${current + 1} of ${slides.length}</p><h2>${section.dataset.title}</h2>${notesOf(slides[current])}`
    + `<p class="clock">Next: ${!next ? "the end" : next === section ? "this part goes on" : next.dataset.title}</p>`;
}
setInterval(tell, 15000);

const KEYS = {
  ArrowRight: () => show(current + 1), ArrowDown: () => show(current + 1), PageDown: () => show(current + 1), " ": () => show(current + 1),
  ArrowLeft: () => show(current - 1), ArrowUp: () => show(current - 1), PageUp: () => show(current - 1), Backspace: () => show(current - 1),
  Home: () => show(0), End: () => show(slides.length - 1),
  n: () => toggle("notes"), c: () => toggle("code"), o: () => toggle("contents"), h: () => toggle("help"), "?": () => toggle("help"),
  s: openSpeaker, f: () => document.documentElement.requestFullscreen?.(),
  Escape: () => panel.dataset.kind && toggle(panel.dataset.kind),
};

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || !KEYS[event.key]) return;
  if (!panel.hidden && ["ArrowUp", "ArrowDown", "PageUp", "PageDown", " "].includes(event.key)) return;  // they scroll the panel
  event.preventDefault();
  KEYS[event.key]();
}

document.addEventListener("keydown", onKey);
document.getElementById("back").onclick = () => show(current - 1);
document.getElementById("on").onclick = () => show(current + 1);
addEventListener("resize", fit);
layOut();
fit();
show(Math.max(0, slides.findIndex(slide => "#" + slide.id === decodeURIComponent(location.hash))));
document.body.classList.add("ready");
