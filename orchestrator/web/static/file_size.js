// Says before a file is sent that it is larger than its form takes. Without this script the server says so afterwards.
"use strict";

function check({ target }) {
  const size = target.files[0]?.size ?? 0;
  target.setCustomValidity(size > Number(target.dataset.mostBytes) ? target.dataset.tooLarge : "");
  target.reportValidity();
}

document.querySelectorAll("[data-most-bytes]").forEach((field) => field.addEventListener("change", check));
