"use strict";
/*
 * The grading page. The answers, in the order in which they were given, are all that it remembers: which picture comes
 * next follows from them, so a reload, another tab or a saved file goes on where the answers end.
 */
(() => {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  const itemOf = new Map(data.items.map((item) => [item.token, item]));
  const hasPractice = data.items.some((item) => item.practice);
  const storageKey = `sparring-grading:${data.plan}:${data.rater}`;
  const SCREENS = ["start", "counting", "item", "break", "done", "unfit", "broken"];
  const USUAL_MILLISECONDS = 4000; // what an answer takes, until this rater's own answers say it
  const OWN_PACE_FROM = 5;

  let answers = [];
  let savedCount = 0;
  let screen = "start"; // what the rater is at; an unfit display hides it
  let review = null; // how many answers before the last one the rater went back, null where at the next item
  let shown = null; // the item on the screen
  let choice = {};
  let painted = null; // when its pictures were painted, in milliseconds; null until they are
  let turn = 0; // counts what was shown, so that a picture decoded late is not taken for the next
  let unfit = "";
  let downloadAddress = "";
  let storage = openStorage();

  // ---- The answers, and what follows from them

  const isTooFast = (answer) => answer.milliseconds < data.minimum;
  const isPractice = (answer) => itemOf.get(answer.token).practice;

  /**
   * Returns the items that still need an answer: first those without one, then those whose last answer was too fast.
   * The latter come back once: after a second answer that was too fast they are left.
   */
  function pendingItems(practice) {
    const last = new Map();
    const fast = new Map();
    for (const answer of answers) {
      last.set(answer.token, answer);
      if (isTooFast(answer)) fast.set(answer.token, (fast.get(answer.token) ?? 0) + 1);
    }
    const items = data.items.filter((item) => item.practice === practice);
    const comesBack = (token) => last.has(token) && isTooFast(last.get(token)) && fast.get(token) === 1;
    return [...items.filter((item) => !last.has(item.token)), ...items.filter((item) => comesBack(item.token))];
  }

  const nextItem = () => pendingItems(true)[0] ?? pendingItems(false)[0] ?? null;
  const inPractice = () => pendingItems(true).length > 0;
  const countingItems = () => data.items.filter((item) => !item.practice).length;
  const doneItems = () => countingItems() - pendingItems(false).length;

  /** Returns the tokens of this part's answered items, the latest first: the way back. */
  function wayBack() {
    const practice = inPractice();
    const tokens = answers.filter((answer) => isPractice(answer) === practice).map((answer) => answer.token);
    return [...new Set(tokens.reverse())];
  }

  function minutesLeft() {
    const own = answers.filter((answer) => !isTooFast(answer)).map((answer) => answer.milliseconds);
    own.sort((one, other) => one - other);
    const pace = own.length < OWN_PACE_FROM ? USUAL_MILLISECONDS : own[Math.floor(own.length / 2)];
    return Math.ceil(((pendingItems(true).length + pendingItems(false).length) * pace) / 60000);
  }

  // ---- Files

  const answerFile = () => ({ version: 1, plan: data.plan, rater: data.rater, answers });

  function answerTable() {
    const yesNo = (value) => (value === null ? "" : value ? "yes" : "no");
    const rows = answers.map((answer) => [
      data.plan,
      data.rater,
      data.token_prefix + answer.token,
      answer.class_index ?? "",
      yesNo(answer.proper),
      answer.grade ?? "",
      answer.milliseconds,
      answer.device_pixel_ratio,
    ]);
    return [data.columns, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
  }

  /** Returns an answer with exactly the fields of the file, or throws where it is none to an item of this page. */
  function checkedAnswer(answer) {
    const item = itemOf.get(answer?.token);
    const { class_index = null, proper = null, grade = null, milliseconds, device_pixel_ratio = 1 } = answer ?? {};
    const within = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
    const isValid = item?.task === "quality"
      ? within(grade, 1, 5) && class_index === null && proper === null
      : typeof proper === "boolean" && grade === null && (class_index === null || within(class_index, 0, data.classes - 1));
    const isMeasured = within(milliseconds, 0, Infinity) && Number.isFinite(device_pixel_ratio) && device_pixel_ratio > 0;
    if (item === undefined || !isValid || !isMeasured) throw new Error("an answer in it is damaged or to no picture of this page");
    return { token: item.token, class_index, proper, grade, milliseconds, device_pixel_ratio };
  }

  /** Returns the answers of a saved file. Throws an Error that says why it is none of this page's. */
  function readAnswers(text) {
    let file;
    try {
      file = JSON.parse(text);
    } catch {
      throw new Error("it is not a JSON file that this page saved");
    }
    if (file?.version !== 1 || !Array.isArray(file.answers)) throw new Error("it is not a file that this page saved");
    if (file.plan !== data.plan) throw new Error("it belongs to another grading plan");
    if (file.rater !== data.rater) throw new Error("it is another rater's");
    return file.answers.map(checkedAnswer);
  }

  /** Returns all answers of two lists that began alike; those that only ours has come last. */
  function merged(theirs, ours) {
    const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
    let common = 0;
    while (common < Math.min(theirs.length, ours.length) && same(theirs[common], ours[common])) common += 1;
    return [...theirs, ...ours.slice(common)];
  }

  function download(name, type, text) {
    URL.revokeObjectURL(downloadAddress);
    downloadAddress = URL.createObjectURL(new Blob([text], { type }));
    const link = document.createElement("a");
    link.href = downloadAddress;
    link.download = name;
    link.click();
    savedCount = answers.length;
  }

  function save(kind) {
    const name = `answers-${data.rater}.${kind}`;
    if (kind === "csv") download(name, "text/csv", answerTable());
    else download(name, "application/json", `${JSON.stringify(answerFile(), null, 1)}\n`);
    say("kept", `Saved as ${name}: ${counted(answers.length, "answer")}, practice included. The file is where this browser puts downloads.`);
  }

  async function load(file) {
    try {
      const found = readAnswers(await file.text());
      answers = merged(found, answers);
      keep();
      say("kept", `Loaded ${file.name}: ${counted(found.length, "answer")}. You go on after them.`);
    } catch (error) {
      say("kept", `${file.name} was not loaded: ${error.message}. Your answers here are as they were.`);
      return;
    }
    restart();
  }

  // ---- What the browser keeps

  function openStorage() {
    try {
      localStorage.setItem(`${storageKey}:probe`, "1");
      localStorage.removeItem(`${storageKey}:probe`);
      return localStorage;
    } catch {
      return null;
    }
  }

  function keep() {
    if (storage === null) return;
    try {
      storage.setItem(storageKey, JSON.stringify(answerFile()));
    } catch {
      storage = null;
      say("kept", "This browser has no room for your answers any more. Save them now, and often from here on.");
    }
  }

  /** Takes over what the browser keeps. What cannot be read is put aside, not thrown away. */
  function recall() {
    const text = storage?.getItem(storageKey) ?? null;
    if (text === null) return;
    try {
      answers = merged(readAnswers(text), answers);
    } catch (error) {
      storage.setItem(`${storageKey}:unreadable`, text);
      say("kept", `What this browser kept cannot be used: ${error.message}. Load your last saved file.`);
    }
  }

  // ---- Screens

  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  function say(id, text) {
    element(id).textContent = text;
  }

  function reveal(name) {
    for (const id of SCREENS) element(id).hidden = id !== name;
    element("head").hidden = name === "item";
    element("save-csv").disabled = answers.length === 0;
  }

  /** Shows what the rater is at, or why the display is unfit for it. */
  function render() {
    turn += 1;
    painted = null;
    shown = null;
    element("stage").removeAttribute("data-painted");
    if (unfit) {
      say("unfit-text", unfit);
      reveal("unfit");
      return;
    }
    const item = review === null ? nextItem() : itemOf.get(wayBack()[review]);
    if (screen === "item" && item !== null) {
      showItem(item);
      return;
    }
    const name = screen === "item" ? "done" : screen;
    if (name === "start") describeStart();
    if (name === "break") say("break-text", `${doneItems()} of ${countingItems()} are done, about ${counted(minutesLeft(), "minute")} are left.`);
    reveal(name);
    element(name).querySelector("[data-first]").focus();
  }

  function describeStart() {
    element("not-kept").hidden = storage !== null;
    const begun = answers.length > 0;
    say("begin", begun ? "Go on" : hasPractice ? "Begin with practice" : "Begin");
    say("begun", begun
      ? `${doneItems()} of ${countingItems()} are done, about ${counted(minutesLeft(), "minute")} are left.`
      : `${counted(countingItems(), "item")}, about ${counted(minutesLeft(), "minute")}.`);
  }

  /** Goes on from the start page, or after an answer: a word between practice and what counts, a break, or an item. */
  function goOn() {
    const begun = answers.some((answer) => !isPractice(answer));
    screen = hasPractice && !inPractice() && !begun ? "counting" : "item";
    render();
  }

  function restart() {
    screen = "start";
    review = null;
    render();
  }

  async function showItem(item) {
    const now = turn;
    shown = item;
    choice = {};
    describeItem(item);
    reveal("item");
    element("stage").classList.add("waiting");
    element(`question-${item.task}`).focus({ preventScroll: true });
    window.scrollTo(0, 0);
    const pictures = [[element("picture"), item.picture]];
    if (item.task === "quality") pictures.push([element("original"), item.original]);
    try {
      for (const [image, png] of pictures) image.src = `data:image/png;base64,${png}`;
      await Promise.all(pictures.map(([image]) => image.decode()));
    } catch {
      if (now !== turn) return;
      say("broken-token", item.token);
      reveal("broken");
      return;
    }
    if (now !== turn) return;
    element("stage").classList.remove("waiting");
    // The first frame is asked for before the pictures are painted, the second one after it.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (now !== turn) return;
      painted = performance.now();
      element("stage").dataset.painted = item.token;
    }));
  }

  function describeItem(item) {
    for (const part of element("item").querySelectorAll("[data-task]")) part.hidden = part.dataset.task !== item.task;
    for (const button of choiceButtons()) button.setAttribute("aria-pressed", "false");
    element("practice").hidden = !item.practice;
    element("back").disabled = wayBack().length <= (review ?? -1) + 1;
    element("forward").hidden = review === null;
    const total = item.practice ? data.items.length - countingItems() : countingItems();
    const done = total - pendingItems(item.practice).length;
    element("progress").max = total;
    element("progress").value = done;
    const place = review === null ? `${done + 1} of ${total}` : "An earlier picture";
    say("progress-text", `${place}, about ${counted(minutesLeft(), "minute")} left`);
    if (review !== null) say("message", `Your answer was: ${answerText(item)}. Answer again, or leave it as it is.`);
  }

  /** Returns an item's last answer as the buttons call it. */
  function answerText(item) {
    const answer = answers.findLast((one) => one.token === item.token);
    const label = (kind, value) => choiceButtons().find((button) => button.dataset.kind === kind && button.dataset.value === value)
      .querySelector("span").textContent;
    if (item.task === "quality") return label("grade", String(answer.grade));
    const seen = label("class_index", answer.class_index === null ? "none" : String(answer.class_index));
    return `${seen}, ${answer.proper ? "a proper picture" : "no proper picture"}`;
  }

  // ---- Answering

  /** Returns the buttons of the item's task. */
  function choiceButtons() {
    return [...element("item").querySelectorAll("[data-task]:not([hidden]) [data-kind]")];
  }

  /** Takes a choice. An event before the pictures were painted is no answer to them. */
  function choose(button, time) {
    if (painted === null || time < painted) return;
    const { kind, value } = button.dataset;
    const meanings = { none: null, yes: true, no: false };
    choice[kind] = value in meanings ? meanings[value] : Number(value);
    for (const other of choiceButtons()) {
      if (other.dataset.kind === kind) other.setAttribute("aria-pressed", String(other === button));
    }
    const needed = shown.task === "quality" ? ["grade"] : ["class_index", "proper"];
    if (needed.every((part) => part in choice)) record(Math.round(time - painted));
  }

  function record(milliseconds) {
    const { class_index = null, proper = null, grade = null } = choice;
    const answer = { token: shown.token, class_index, proper, grade, milliseconds, device_pixel_ratio: window.devicePixelRatio };
    const before = doneItems();
    const wasReview = review !== null;
    const wasPractice = shown.practice;
    answers.push(answer);
    review = null;
    say("message", isTooFast(answer) ? `That was too quick to count (${milliseconds} ms). ${afterTooFast(answer)}` : "");
    keep();
    const done = doneItems();
    screen = "item";
    if (wasPractice) goOn();
    else {
      if (!wasReview && done > before && done % data.session_size === 0 && nextItem() !== null) screen = "break";
      render();
    }
  }

  function afterTooFast(answer) {
    const comesBack = pendingItems(isPractice(answer)).some((item) => item.token === answer.token);
    return comesBack ? "The picture comes back later." : "It does not come back again.";
  }

  function goBack() {
    const next = (review ?? -1) + 1;
    if (!["item", "break"].includes(screen) || next >= wayBack().length) return;
    review = next;
    screen = "item";
    render();
  }

  function goForward() {
    if (review === null) return;
    review = null;
    say("message", "");
    render();
  }

  function onKey(event) {
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || unfit) return;
    const back = ["Backspace", "ArrowLeft"].includes(event.key);
    const forward = event.key === "ArrowRight";
    if (back) goBack();
    if (forward) goForward();
    const pressed = shown === null ? undefined : choiceButtons().find((button) => button.dataset.key === event.key.toLowerCase());
    if (pressed !== undefined) choose(pressed, event.timeStamp);
    if (back || forward || pressed !== undefined) event.preventDefault();
  }

  // ---- The display

  /** Returns what is wrong with the display and how to mend it, "" where nothing is. */
  function displayProblem() {
    const { clientWidth, clientHeight } = document.documentElement;
    const remedy = "Press Ctrl and 0 (on a Mac, Command and 0) to show the page at 100 %";
    if (window.devicePixelRatio < 1) return `The page is zoomed out (device pixel ratio ${window.devicePixelRatio.toFixed(2)}), so pixels of the pictures would be lost. ${remedy}.`;
    if (clientWidth < data.pair_width) return `The window shows ${clientWidth} pixels in width, and the pictures need ${data.pair_width}. Make it wider. ${remedy}.`;
    if (clientHeight < data.picture_height) return `The window shows ${clientHeight} pixels in height, and the pictures need ${data.picture_height}. Make it higher. ${remedy}.`;
    return "";
  }

  function checkDisplay() {
    const before = unfit;
    unfit = displayProblem();
    if (Boolean(before) !== Boolean(unfit)) render();
    else say("unfit-text", unfit);
  }

  /** A query holds for one ratio, so each change asks for the next. */
  function watchPixelRatio() {
    const query = window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    query.addEventListener("change", () => { watchPixelRatio(); checkDisplay(); }, { once: true });
  }

  // ---- Begin

  function listen() {
    document.addEventListener("keydown", onKey);
    element("item").addEventListener("click", (event) => {
      const button = event.target.closest("[data-kind]");
      if (button !== null && shown !== null) choose(button, event.timeStamp);
    });
    element("begin").addEventListener("click", goOn);
    element("back").addEventListener("click", goBack);
    element("correct").addEventListener("click", goBack);
    element("forward").addEventListener("click", goForward);
    for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", () => { screen = "item"; render(); });
    for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => save(button.dataset.save));
    element("load").addEventListener("change", (event) => { if (event.target.files.length) load(event.target.files[0]); });
    window.addEventListener("resize", checkDisplay);
    window.addEventListener("storage", (event) => { if (event.key === storageKey && event.newValue !== null) { recall(); review = null; render(); } });
    window.addEventListener("beforeunload", (event) => { if (storage === null && savedCount < answers.length) event.preventDefault(); });
    watchPixelRatio();
  }

  element("tools").hidden = false;
  say("kept", storage === null
    ? "This browser does not keep your answers: save them before you close the page."
    : "This browser keeps your answers after each picture, on this computer, until you clear its data.");
  recall();
  listen();
  unfit = displayProblem();
  render();
})();
