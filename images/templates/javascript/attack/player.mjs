// An attack in JavaScript: random signs at the edge of the budget. Needs Node, and no packages.

import { serve } from "./protocol.mjs"; // first: from here on console.log() writes to your log

// Returns a candidate for one picture; both are bytes, channel by channel, row by row.
function perturb(task, picture, label) {
  const { norm, epsilon } = task.budget;
  const reach = Math.floor(norm === "linf" ? epsilon : epsilon / Math.sqrt(picture.length));
  const next = chance(task.seed, picture); // the same picture gets the same chance
  return picture.map((value) => {
    const wanted = value + (next() < 0.5 ? -reach : reach); // <- CHANGE THIS
    return Math.min(255, Math.max(0, wanted));
  });
}

// A generator of numbers from 0 to 1 (mulberry32) that starts from a seed and from bytes.
function chance(seed, bytes) {
  let state = bytes.reduce((hash, value) => Math.imul(hash ^ value, 16777619), (seed ^ 2166136261) | 0);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

await serve({ name: "mine", perturb });
