// Draws a box on the picture: by dragging, by two clicks, or with keys. The four numbers are what is sent; the page works without this.
"use strict";

(() => {
  const box = document.getElementById("box");
  const figure = document.getElementById("picture");
  const picture = figure.querySelector("img");
  const state = document.getElementById("box-state");
  const drawing = box.querySelector("button");
  const width = Number(box.dataset.width);
  const height = Number(box.dataset.height);
  const field = (edge) => document.getElementById(`box.${edge}`);
  const fields = ["left", "top", "right", "bottom"].map(field);
  const CLICK = 4; // CSS pixels: a pointer that moved less was clicked, not dragged
  let corner = null; // the first corner, while the second one is awaited
  let pressed = null; // where the pointer went down, in CSS pixels
  let cursor = null; // the corner that keys move; null while they draw nothing

  // ---- What is shown

  const create = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const canvas = create("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const outlines = ["under", "over"].map((kind) => create("rect", { class: kind, "vector-effect": "non-scaling-stroke" }));
  const cross = create("path", { class: "cross", "vector-effect": "non-scaling-stroke" });
  canvas.append(...outlines, cross);
  figure.append(canvas);
  for (const each of document.querySelectorAll(".drawing")) each.hidden = false;

  const clamp = (value, most) => Math.min(Math.max(Math.round(value), 0), most);

  function say(text) {
    state.textContent = text;
  }

  function show() {
    const typed = fields.map((each) => (each.value === "" ? NaN : Number(each.value)));
    const [left, top, right, bottom] = typed;
    const whole = typed.every(Number.isInteger) && left >= 0 && top >= 0 && left < right && top < bottom && right <= width && bottom <= height;
    for (const each of outlines) {
      each.setAttribute("visibility", whole ? "visible" : "hidden");
      if (!whole) continue;
      each.setAttribute("x", left);
      each.setAttribute("y", top);
      each.setAttribute("width", right - left);
      each.setAttribute("height", bottom - top);
    }
    const marked = cursor ?? corner;
    cross.setAttribute("d", marked === null ? "" : `M${marked.x} 0V${height}M0 ${marked.y}H${width}`);
  }

  // Writes the box between two corners; returns whether it holds a pixel.
  function write(one, other) {
    if (one.x === other.x || one.y === other.y) return false;
    const edges = [Math.min(one.x, other.x), Math.min(one.y, other.y), Math.max(one.x, other.x), Math.max(one.y, other.y)];
    fields.forEach((each, number) => { each.value = edges[number]; });
    show();
    return true;
  }

  function finish(other) {
    if (!write(corner, other)) {
      say("The corners have to differ in both directions. Choose the opposite corner.");
      return;
    }
    corner = null;
    cursor = null;
    show();
    say(`The box is drawn: left ${fields[0].value}, top ${fields[1].value}, right ${fields[2].value}, bottom ${fields[3].value}.`);
  }

  function stop() {
    corner = null;
    cursor = null;
    show();
    say("Drag over the picture, or click two opposite corners of the box.");
  }

  // ---- Pointer: drag, or click twice

  function place(event) {
    const shown = picture.getBoundingClientRect();
    return {
      x: clamp(((event.clientX - shown.left) / shown.width) * width, width),
      y: clamp(((event.clientY - shown.top) / shown.height) * height, height),
    };
  }

  const moved = (event) => Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) >= CLICK;

  canvas.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button !== 0) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    cursor = null;
    pressed = { x: event.clientX, y: event.clientY, first: corner === null };
    if (pressed.first) corner = place(event);
    show();
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!event.isPrimary || corner === null) return;
    if (pressed === null || !pressed.first || moved(event)) write(corner, place(event));
  });

  canvas.addEventListener("pointerup", (event) => {
    if (!event.isPrimary || pressed === null) return;
    const clicked = !moved(event);
    const first = pressed.first;
    pressed = null;
    if (first && clicked) say("Now click the opposite corner.");
    else finish(place(event));
  });

  canvas.addEventListener("pointercancel", () => {
    pressed = null;
    stop();
  });

  // ---- Keys: Enter begins and sets each corner, arrows move it

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  function sayCursor() {
    const which = corner === null ? "First corner" : "Opposite corner";
    say(`${which}: ${cursor.x}, ${cursor.y}. Arrow keys move it, with Shift by 10; Enter sets it; Escape ends.`);
  }

  drawing.addEventListener("click", () => {
    if (cursor === null) {
      corner = null;
      cursor = { x: clamp(width / 4, width), y: clamp(height / 4, height) };
    } else if (corner === null) {
      corner = { ...cursor };
    } else {
      finish(cursor);
      return;
    }
    show();
    sayCursor();
  });

  drawing.addEventListener("keydown", (event) => {
    if (cursor === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      stop();
      return;
    }
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const length = event.shiftKey ? 10 : 1;
    cursor = { x: clamp(cursor.x + length * step[0], width), y: clamp(cursor.y + length * step[1], height) };
    if (corner !== null) write(corner, cursor);
    show();
    sayCursor();
  });

  drawing.addEventListener("blur", () => {
    if (cursor !== null) stop();
  });

  // ---- Numbers: the arrow keys of the browser, and with Shift by 10

  box.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!event.shiftKey || step === undefined || step[1] === 0 || !fields.includes(event.target)) return;
    event.preventDefault();
    event.target.value = clamp(Number(event.target.value) - 10 * step[1], Number(event.target.max));
    show();
  });
  box.addEventListener("input", show);
  stop();
})();
