// One item of a rater: keys, and how long the pictures were on the screen. The page works without it.
"use strict";

(() => {
  const form = document.getElementById("rating");
  const stage = form.querySelector(".stage");
  const unfit = document.querySelector(".unfit");
  const switcher = document.getElementById("keys");
  const STORED = "sparring-rating-keys";
  let painted = null; // when the pictures were on the screen, in milliseconds; null until they are
  let sent = false;

  // ---- How long somebody looked

  const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));

  async function awaitPaint() {
    await Promise.all([...stage.querySelectorAll("img")].map((picture) => picture.decode()));
    await nextFrame(); // the frame that shows them
    await nextFrame(); // it was shown
    painted = performance.now();
    form.dataset.painted = painted; // since the last answer was sent: the page's clock starts there
  }

  function shown() {
    if (stage.scrollWidth > stage.clientWidth) return "This window is too narrow for the pictures: make it wider, or turn the device.";
    if (window.devicePixelRatio < 1) return "The page is zoomed out: set it to 100 %.";
    return "";
  }

  function checkDisplay() {
    unfit.textContent = shown();
    unfit.hidden = unfit.textContent === "";
  }

  form.addEventListener("submit", (event) => {
    checkDisplay();
    if (sent || painted === null || !unfit.hidden) {
      event.preventDefault();
      return;
    }
    sent = true;
    form.elements.milliseconds.value = Math.round(performance.now() - painted);
    form.elements.device_pixel_ratio.value = window.devicePixelRatio;
  });

  // ---- Keys

  function keysOn() {
    try {
      return localStorage.getItem(STORED) !== "off";
    } catch {
      return switcher.getAttribute("aria-pressed") === "true";
    }
  }

  function showSwitch(on) {
    switcher.setAttribute("aria-pressed", String(on));
    switcher.textContent = on ? "Keys are on" : "Keys are off";
    switcher.hidden = false;
  }

  switcher.addEventListener("click", () => {
    const on = !keysOn();
    try {
      localStorage.setItem(STORED, on ? "on" : "off");
    } catch {
      // this browser keeps nothing: it holds for this page
    }
    showSwitch(on);
  });

  const isTyping = (element) => element.closest("textarea, select, [contenteditable], input:not([type=radio])") !== null;

  function press(event) {
    if (!keysOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (isTyping(event.target)) return;
    if (event.key === "Enter") {
      if (event.target.closest("a, button") !== null) return;
      event.preventDefault();
      form.requestSubmit();
      return;
    }
    const key = event.key.toLowerCase();
    const chosen = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
    if (chosen === undefined) return;
    event.preventDefault();
    if (chosen.matches("a, button")) chosen.click();
    else chosen.checked = true;
  }

  document.addEventListener("keydown", press);
  window.addEventListener("resize", checkDisplay);
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  showSwitch(keysOn());
  checkDisplay();
  awaitPaint();
})();
