// Loads parts of a page again that say how often: <section data-refresh="/address" data-seconds="5">. Without this
// script a page shows what was so when it was loaded. The server answers 304 where nothing changed, and 204 at the end.
"use strict";

async function refresh(part) {
  const headers = part.dataset.tag ? { "If-None-Match": part.dataset.tag } : {};
  let answer;
  try {
    answer = await fetch(part.dataset.refresh, { headers, credentials: "same-origin", cache: "no-store" });
  } catch {
    return true; // no network at this moment: later
  }
  if (answer.status === 204) return false;
  if (answer.ok) {
    part.innerHTML = await answer.text(); // escaped by the server, as every page is
    part.dataset.tag = answer.headers.get("ETag") ?? "";
  }
  return answer.status < 400 || answer.status >= 429;
}

function follow(part) {
  const wait = 1000 * Number(part.dataset.seconds);
  const next = () => setTimeout(async () => {
    if (document.hidden || await refresh(part)) next();
  }, wait);
  next();
}

document.querySelectorAll("[data-refresh]").forEach(follow);
