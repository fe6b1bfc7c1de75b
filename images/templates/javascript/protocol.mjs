// The image protocol, version 1, with nothing but Node (schemas/protocol.md).
//
// A frame is `SPI1`, two little-endian 32-bit lengths, a JSON header and a payload of raw bytes.

import process from "node:process";

const PREFIX = 12;
const HEADER_LIMIT = 65_536;
const TEXT_LIMIT = 4_000;

// Standard output is the protocol's: whatever prints writes to standard error, your log. On Linux, writing to a pipe
// waits until there is room, so nothing piles up here.
const answer = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
process.stdout.on("error", () => process.exit(1)); // nobody reads any more

function send(header, payload = Buffer.alloc(0)) {
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const prefix = Buffer.from("SPI1\0\0\0\0\0\0\0\0", "latin1");
  prefix.writeUInt32LE(text.length, 4);
  prefix.writeUInt32LE(payload.length, 8);
  answer(Buffer.concat([prefix, text, payload]));
}

// Yields [header, payload] for each whole frame on standard input, however the pipe cut the bytes.
async function* questions() {
  let pieces = [];
  let held = 0;
  let wanted = PREFIX;
  for await (const piece of process.stdin) {
    pieces.push(piece);
    held += piece.length;
    while (held >= wanted) {
      const bytes = Buffer.concat(pieces, held);
      pieces = [bytes];
      if (bytes.toString("latin1", 0, 4) !== "SPI1") throw new Error("standard input is not the image protocol");
      const start = PREFIX + bytes.readUInt32LE(4);
      const end = start + bytes.readUInt32LE(8);
      if (start > PREFIX + HEADER_LIMIT) throw new Error(`a header of ${start - PREFIX} bytes`);
      wanted = end;
      if (held < end) break;
      yield [JSON.parse(bytes.toString("utf8", PREFIX, start)), bytes.subarray(start, end)];
      pieces = [bytes.subarray(end)];
      held -= end;
      wanted = PREFIX;
    }
  }
}

// The pictures of a question, one Buffer each.
function pictures(header, payload) {
  const [count, ...axes] = header.shape;
  const size = axes.reduce((product, axis) => product * axis, 1);
  if (payload.length !== count * size) throw new Error(`${payload.length} bytes for ${count} pictures of ${size}`);
  return Array.from({ length: count }, (_, place) => payload.subarray(place * size, (place + 1) * size));
}

// What each question is answered with. A message for each candidate: what arrived in time counts.
const replies = {
  async hello(player, header) {
    if (header.protocol !== 1) throw new Error(`this player speaks protocol 1, not ${header.protocol}`);
    if (typeof player[header.role === "attack" ? "perturb" : "classify"] !== "function") {
      throw new Error(`this player does not play ${header.role}`);
    }
    const task = { ...header.task, limits: header.limits, seed: header.seed };
    await player.load?.(task);
    const gives = header.role === "defence" ? ["label"] : [];
    send({ type: "ready", id: header.id, name: player.name, gives });
    return task;
  },
  async perturb(player, header, payload, task) {
    for (const [place, picture] of pictures(header, payload).entries()) {
      const candidate = Buffer.from(await player.perturb(task, picture, header.labels?.[place]));
      if (candidate.length !== picture.length) {
        throw new Error(`a candidate of ${candidate.length} bytes for a picture of ${picture.length}`);
      }
      const shape = [1, ...header.shape.slice(1)];
      send({ type: "candidates", id: header.id, index: [place], dtype: "u8", shape }, candidate);
    }
    return task;
  },
  async classify(player, header, payload, task) {
    const labels = [];
    for (const picture of pictures(header, payload)) {
      const label = await player.classify(task, picture);
      const valid = label === null || (Number.isInteger(label) && label >= 0 && label < task.classes.length);
      if (!valid) throw new Error(`a label must be null or from 0 to ${task.classes.length - 1}, got ${label}`);
      labels.push(label);
    }
    send({ type: "answers", id: header.id, labels });
    return task;
  },
};

// Answers the orchestrator's questions until it says `bye` or closes standard input.
//
// player: { name, load?(task), perturb(task, picture, label) -> bytes } or { name, load?(task), classify(task, picture)
// -> label, or null to abstain }; each may be async. `task` is that of `hello`, with `limits` and `seed`, which a defence must not use. A picture is a
// Buffer, channel by channel, row by row; `label` is undefined where the contest hides it. An error becomes a `fault`.
export async function serve(player) {
  let task = null;
  for await (const [header, payload] of questions()) {
    if (header.type === "bye") return;
    try {
      if (!Object.hasOwn(replies, header.type)) throw new Error(`no answer to ${header.type}`);
      task = await replies[header.type](player, header, payload, task);
    } catch (error) {
      console.error(error);
      // Through UTF-8, because the orchestrator refuses half a surrogate pair.
      const text = Buffer.from(String(error).slice(0, TEXT_LIMIT), "utf8").toString("utf8");
      send({ type: "fault", id: header.id, code: "exception", text });
    }
  }
}
