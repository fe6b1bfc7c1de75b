// A player in another language: the whole image protocol, version 1, with nothing but Node.
//
// As a defence it answers with the bucket that a picture's mean brightness falls into, and gives scores.
// As an attack it moves values by 1 towards the middle, as many as the budget allows, and delivers in two messages.

import process from "node:process";

const MAGIC = Buffer.from("SPI1", "latin1");
const PREFIX = 12;

// stdout is the protocol's: whatever prints must print elsewhere.
console.log = console.error;

function send(header, payload = Buffer.alloc(0)) {
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const prefix = Buffer.alloc(PREFIX);
  MAGIC.copy(prefix);
  prefix.writeUInt32LE(text.length, 4);
  prefix.writeUInt32LE(payload.length, 8);
  process.stdout.write(Buffer.concat([prefix, text, payload]));
}

// Yields [header, payload] for each whole frame on stdin.
async function* frames(stream) {
  let waiting = [];
  let held = 0;
  let wanted = PREFIX;
  for await (const chunk of stream) {
    waiting.push(chunk);
    held += chunk.length;
    while (held >= wanted) {
      const bytes = Buffer.concat(waiting, held);
      waiting = [bytes];
      if (!bytes.subarray(0, 4).equals(MAGIC)) throw new Error("stdin is not the image protocol");
      const start = PREFIX + bytes.readUInt32LE(4);
      const end = start + bytes.readUInt32LE(8);
      if (held < end) {
        wanted = end;
        break;
      }
      yield [JSON.parse(bytes.toString("utf8", PREFIX, start)), bytes.subarray(start, end)];
      waiting = [bytes.subarray(end)];
      held -= end;
      wanted = PREFIX;
    }
  }
}

// The pictures of a question, one Buffer each.
function pictures(header, payload) {
  const [count, ...axes] = header.shape;
  const size = axes.reduce((product, axis) => product * axis, 1);
  return Array.from({ length: count }, (_, n) => payload.subarray(n * size, (n + 1) * size));
}

function classify(hello, header, payload) {
  const classes = hello.task.classes.length;
  const labels = [];
  const scores = Buffer.alloc(4 * header.shape[0] * classes);
  pictures(header, payload).forEach((pixels, n) => {
    const mean = pixels.reduce((sum, value) => sum + value, 0) / pixels.length;
    labels.push(Math.floor((mean * classes) / 256));
    for (let c = 0; c < classes; c += 1) {
      scores.writeFloatLE(-Math.abs(mean - ((c + 0.5) * 256) / classes), 4 * (n * classes + c));
    }
  });
  send({ type: "answers", id: header.id, labels, dtype: "f32", shape: [header.shape[0], classes] }, scores);
}

// How many values of one picture may move by 1.
function allowed(budget, size) {
  if (budget.epsilon < 1) return 0;
  return budget.norm === "linf" ? size : Math.min(size, Math.floor(budget.epsilon ** 2));
}

function perturb(hello, header, payload) {
  const moved = pictures(header, payload).map((pixels) => {
    const candidate = Buffer.from(pixels);
    const last = allowed(hello.task.budget, pixels.length);
    for (let at = 0; at < last; at += 1) candidate[at] += candidate[at] < 128 ? 1 : -1;
    return candidate;
  });
  const half = Math.ceil(moved.length / 2);
  const positions = [...moved.keys()];
  for (const index of [positions.slice(0, half), positions.slice(half)]) {
    if (index.length === 0) continue;
    const shape = [index.length, ...header.shape.slice(1)];
    send({ type: "candidates", id: header.id, dtype: "u8", shape, index }, Buffer.concat(index.map((n) => moved[n])));
  }
}

let hello = null;
for await (const [header, payload] of frames(process.stdin)) {
  if (header.type === "hello") {
    hello = header;
    const gives = header.role === "defence" ? ["label", "scores"] : [];
    send({ type: "ready", id: header.id, name: "brightness (Node)", gives });
  } else if (header.type === "classify") {
    classify(hello, header, payload);
  } else if (header.type === "perturb") {
    perturb(hello, header, payload);
  } else if (header.type === "bye") {
    break;
  } else {
    send({ type: "fault", id: header.id, code: "unsupported", text: `no answer to ${header.type}` });
  }
}
