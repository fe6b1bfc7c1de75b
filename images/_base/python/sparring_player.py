"""The participant's helper: one file between your Python code and the image protocol.

Import it before anything else, write one class, and serve it:

    from sparring_player import Defence, serve

    class Mine(Defence):
        def load(self, task):
            self.model = ...                      # slow things go here, under their own time limit

        def classify(self, pixels):               # uint8 [n, channels, height, width]
            return self.model.predict(pixels)     # n labels; None abstains

    serve(Mine())

Importing this module replaces stdin and stdout, which are the orchestrator's pipes: from then on print() writes to
stderr, your log, and input() finds nothing to read. Python's garbage collector is off until `serve`. It needs only the
standard library and NumPy, and Python 3.8 or newer; copy it into your image. The specification is schemas/protocol.md.
"""

from __future__ import annotations

import gc
import os
import sys


def _take_pipes() -> tuple:
    """Returns the orchestrator's stdin and stdout as binary files; replaces them by /dev/null and stderr."""
    questions, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(questions, "rb"), os.fdopen(answers, "wb")


_questions, _answers = _take_pipes()

# Objects that imports make live to the end. Searching them for garbage takes a fifth of the time that a player with
# PyTorch needs to start and to end. So `serve` freezes them when everything is imported, and enables the collector.
gc.disable()

# Everything imported below may print: even NumPy is imported after the pipes are safe.
# isort: split
import inspect  # noqa: E402  after the pipes are safe
import json  # noqa: E402  after the pipes are safe
import struct  # noqa: E402  after the pipes are safe
import traceback  # noqa: E402  after the pipes are safe
import zlib  # noqa: E402  after the pipes are safe

import numpy as np  # noqa: E402  after the pipes are safe

MAGIC = b"SPI1"
PREFIX = struct.Struct("<4sII")
PROTOCOL_VERSION = 1
POSITIONS_LIMIT = 4096
"""The most pictures in one message, so that their positions fit into a header of 65,536 bytes."""
TEXT_LIMIT = 4000


class WrongReply(Exception):
    """The player's class returned a value that cannot be sent; the message says what is right."""


class BudgetSpent(Exception):
    """A query costs more than a picture has left; the defence was not asked, and nothing was spent."""


class Task:
    """The task and the limits, from the orchestrator's `hello`.

    `shape` is (channels, height, width) of one picture; `epsilon` is in steps of 1/255, so for `norm` "linf" it is how
    far a uint8 value may move; in a contest without attacks, `norm` is "" and `epsilon` 0. `batch` is the most pictures
    in one question and `seconds` the time for that many; `threads` is how many threads numerical libraries should use.
    `seed` is for an attack's random numbers. A defence gets another one in every sandbox: an answer that depends on it
    is found and disqualifies the defence (rule A10).

    `queries` says what an attack may ask the defence, None if the contest allows no queries: `per_picture`, the most
    that the queries for one picture of a question may cost together; `batch`, the most pictures in one query; and
    `prices`, the price of one picture, by what is asked ("decision", "scores", "gradient"). `left` is what each picture
    of the open question may still cost, int [n].
    """

    def __init__(self, hello: dict) -> None:
        task, limits = hello["task"], hello["limits"]
        self.name: str = task["name"]
        self.classes: tuple = tuple(task["classes"])
        self.shape: tuple = tuple(task["shape"])
        budget = task.get("budget") or {"norm": "", "epsilon": 0.0}
        self.norm: str = budget["norm"]
        self.epsilon: float = budget["epsilon"]
        self.role: str = hello["role"]
        self.seed: int = hello["seed"]
        self.threads: int = limits["threads"]
        self.batch: int = limits["batch"]
        self.seconds: float = limits["step_seconds"]
        self.queries: dict | None = limits.get("queries")
        self.left = np.zeros(0, np.int64)
        self._question = 0  # the id of the open one, 0 for none

    def ask(self, pixels: object, positions: object = None, want: str = "decision") -> np.ndarray:
        """Asks the defence about pictures that an attack made, uint8 [k, channels, height, width].

        `positions` says for which picture of the question each of them is asked; that picture pays the price. It may be
        left out if the question has one picture, or as many as `pixels`. A picture whose candidate was delivered has no
        position any more. The attack's time limit is paused while the defence answers.

        Returns labels int [k] for "decision", -1 where the defence gave none; float32 [k, classes] for "scores", and
        float32 like the pictures for "gradient", of the loss for the true label; NaN where the defence gave none.

        Raises BudgetSpent if a picture has not enough left for all of it: then the defence was not asked.
        """
        pixels = _array("pixels", pixels)
        pixels = _pixels(pixels, (len(pixels), *self.shape) if pixels.ndim > len(self.shape) else (1, *self.shape))
        if not self._question:
            raise WrongReply("ask belongs into perturb: queries are part of a question")
        prices = (self.queries or {}).get("prices", {})
        if want not in prices:
            raise WrongReply(f"this contest allows no queries for {want!r}, but for {sorted(prices) or 'nothing'}")
        places = self._places(len(pixels), positions)
        cost = np.bincount(places, minlength=len(self.left)) * prices[want]
        if (cost > self.left).any():
            short = np.flatnonzero(cost > self.left).tolist()
            raise BudgetSpent(f"the pictures at positions {short[:20]} have {self.left[short[:20]].tolist()} left")
        size = self.queries["batch"]
        parts = [slice(start, start + size) for start in range(0, len(pixels), size)]
        return np.concatenate([self._put_query(pixels[part], places[part], want) for part in parts])

    def _places(self, count: int, positions: object) -> np.ndarray:
        """Returns the position for which each of `count` pictures is asked."""
        if positions is None and len(self.left) == 1:
            return np.zeros(count, np.int64)
        if positions is None and count == len(self.left):
            return np.arange(count)
        if positions is None:
            raise WrongReply(f"{count} pictures for a question of {len(self.left)}: say for which, as `positions`")
        places = np.array(_positions(positions), np.int64)
        if len(places) != count or (count and not 0 <= places.min() <= places.max() < len(self.left)):
            raise WrongReply(f"positions must be {count} numbers from 0 to {len(self.left) - 1}")
        return places

    def _put_query(self, pixels: np.ndarray, places: np.ndarray, want: str) -> np.ndarray:
        header = {"type": "query", "id": self._question, "dtype": "u8", "shape": list(pixels.shape), "want": want}
        _write(dict(header, **{"for": places.tolist()}), np.ascontiguousarray(pixels).tobytes())
        answered = _read()
        if answered is None or answered[0].get("type") != "reply":
            raise BrokenPipeError  # the orchestrator is gone
        reply, payload = answered
        self.left[places] = reply["left"]
        if "refused" in reply:
            raise BudgetSpent(f"refused: {reply['refused']}")
        if want == "decision":
            return np.array([-1 if label is None else label for label in reply["labels"]], np.int64)
        return np.frombuffer(payload, "<f4").reshape(reply["shape"]).copy()

    def _begin_question(self, question: int, count: int) -> None:
        self._question = question
        self.left = np.full(count, self.queries["per_picture"] if self.queries else 0, np.int64)

    def rng(self, pixels: np.ndarray | None = None) -> np.random.Generator:
        """Returns a random generator, whose start depends on the player's role.

        For an attack it starts from the seed, the same at every call. If `pixels`, those of a question, are given, it
        starts from the seed and from them: different for each batch, and the same whichever batches came before, also
        when a job is continued in a new sandbox.

        For a defence it starts only from the picture that is given, [channels, height, width], so that the same picture
        gets the same random numbers in every sandbox. Without a picture it is the same generator for every task, seed
        and sandbox. A batch of several pictures raises ValueError: an answer must not depend on the others in it. Call
        it again for each picture: a generator that is kept from one question to the next is a memory (rule A9).
        """
        start = [self.seed] if self.role == "attack" else [0]
        if pixels is None:
            return np.random.default_rng(start[0])
        if self.role != "attack" and pixels.ndim > len(self.shape) and len(pixels) > 1:
            raise ValueError("a defence takes chance from one picture: call task.rng(pixels[i]) for each")
        return np.random.default_rng([*start, zlib.crc32(np.ascontiguousarray(pixels))])

    def within(self, pixels: np.ndarray, wanted: object) -> np.ndarray:
        """Returns the pictures `wanted`, any numbers in 0..255, as uint8 candidates that keep the budget exactly.

        For `linf` each value is moved to the nearest allowed one. For `l2` the whole change is scaled down; what
        rounding leaves of the budget goes to the values that lost most by it.
        """
        wanted = _array("candidates", wanted)
        if wanted.shape != pixels.shape:
            raise WrongReply(f"candidates must have the pixels' shape {pixels.shape}, got {wanted.shape}")
        if wanted.dtype.kind not in "uif" or np.isnan(wanted).any():
            raise WrongReply(f"candidates must be numbers and not NaN, got {_kind(wanted)}")
        change = np.rint(np.clip(wanted.astype(np.float64), 0, 255)) - pixels
        if self.norm == "linf":
            return (pixels + np.clip(change, -int(self.epsilon), int(self.epsilon))).astype(np.uint8)
        flat = np.array([_shrunk(row, self.epsilon) for row in change.reshape(len(change), -1)])
        return (pixels + flat.reshape(pixels.shape)).astype(np.uint8)


def _shrunk(change: np.ndarray, epsilon: float) -> np.ndarray:
    """Returns whole numbers near a multiple of `change`, which are whole numbers, with a length of at most epsilon."""
    allowed, squares = int(epsilon**2), (change**2).sum()
    if squares <= allowed:
        return change
    # Slightly less than epsilon, so that rounding errors of the quotient cannot make it longer.
    exact = np.abs(change) * (epsilon * (1 - 1e-12) / np.sqrt(squares))
    kept = np.floor(exact)
    order = np.argsort(kept - exact, kind="stable")
    price = np.where(exact > kept, 2 * kept + 1, np.inf)[order]  # of one step more
    kept[order] += np.cumsum(price) <= allowed - (kept**2).sum()
    return np.sign(change) * kept


class Attack:
    """A player that makes candidates. Derive from it, or write any class with the same methods."""

    name = ""

    def load(self, task: Task) -> None:
        """Prepares whatever takes long; called once, before the first question."""

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> object:
        """Returns candidates for `pixels`, uint8 [n, c, h, w], in the same shape; `labels` are the true ones, or None.

        It may instead yield pairs (positions in the batch, their candidates) as they are ready: candidates that arrived
        before the time limit count.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method perturb(pixels, labels)")


class Defence:
    """A player that classifies. Derive from it, or write any class with the same methods.

    With `scores = True`, `classify` returns a pair: labels, and floats [n, classes], larger for likelier classes. With
    a method `gradient(pixels, labels)`, which returns floats like the pixels, it also offers gradients of its loss.
    """

    name = ""
    scores = False

    def load(self, task: Task) -> None:
        """Prepares whatever takes long; called once, before the first question."""

    def classify(self, pixels: np.ndarray) -> object:
        """Returns n labels, each an int or None to abstain, for `pixels`, uint8 [n, c, h, w].

        If the method has another parameter `seeds`, it gets a secret seed for each picture, int64 [n], in contests that
        allow a defence randomness (rule U13), and None in all others.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method classify(pixels)")


def serve(player: Attack | Defence) -> None:
    """Answers the orchestrator's questions until it says `bye` or closes stdin.

    An exception in the player's code, SystemExit too, becomes a `fault` message; its traceback goes to stderr.
    """
    if _questions.isatty():
        raise SystemExit("this is a player: `sparring submission debug` starts it and talks to it")
    gc.freeze()
    gc.enable()
    speaker = _Speaker(player)
    while True:
        question = _read()
        if question is None or question[0].get("type") == "bye":
            return
        header, payload = question
        try:
            speaker.answer(header, payload)
        except BrokenPipeError:
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001  any error of the participant's code is reported
            traceback.print_exc()
            sys.stderr.flush()
            known = isinstance(error, WrongReply)
            text = _text(error) if known else f"{type(error).__name__}: {_text(error)}"
            code = "reply" if known else "exception"
            _write({"type": "fault", "id": header["id"], "code": code, "text": text[:TEXT_LIMIT]})


class _Speaker:
    """Turns questions into calls of the player's methods, and their results into replies."""

    def __init__(self, player: Attack | Defence) -> None:
        self.player = player
        self.task: Task | None = None
        self.payload_limit = 0

    def answer(self, header: dict, payload: bytes) -> None:
        kind = header["type"]
        if kind == "hello":
            self._greet(header)
            return
        if kind not in ("perturb", "classify", "gradient") or not hasattr(self.player, kind):
            raise WrongReply(f"{type(self.player).__name__} does not offer {kind!r}")
        pixels = np.frombuffer(payload, np.uint8).reshape(header["shape"]).copy()
        getattr(self, "_" + kind)(header, pixels)

    def _greet(self, header: dict) -> None:
        role, protocol = header["role"], header["protocol"]
        if protocol != PROTOCOL_VERSION:
            raise WrongReply(f"this helper speaks protocol {PROTOCOL_VERSION}, not {protocol}")
        needed = "perturb" if role == "attack" else "classify"
        if isinstance(self.player, type):
            name = self.player.__name__
            raise WrongReply(f"serve needs an object, got the class {name}; did you forget serve({name}())?")
        if not hasattr(self.player, needed):
            raise WrongReply(f"{type(self.player).__name__} plays {role} and needs a method {needed}")
        self.task = Task(header)
        self.payload_limit = header["limits"]["payload_bytes"]
        if hasattr(self.player, "load"):
            self.player.load(self.task)
        gives = []
        if role == "defence":
            gives = ["label"]
            gives += ["scores"] if getattr(self.player, "scores", False) else []
            gives += ["gradient"] if hasattr(self.player, "gradient") else []
        name = _text(getattr(self.player, "name", "") or type(self.player).__name__)
        _write({"type": "ready", "id": header["id"], "name": name[:80], "gives": gives})

    def _perturb(self, header: dict, pixels: np.ndarray) -> None:
        labels = header.get("labels")
        count, waiting = len(pixels), set(range(len(pixels)))
        self.task._begin_question(header["id"], count)  # noqa: SLF001  of this file
        made = _unwrapped(self.player.perturb(pixels, None if labels is None else np.array(labels, np.int64)))
        for piece in [(range(count), made)] if isinstance(made, np.ndarray) else _pieces(made):
            if not isinstance(piece, tuple) or len(piece) != 2:  # noqa: PLR2004  a pair
                raise WrongReply(f"perturb must yield pairs (positions, pixels), got {_kind(piece)}")
            index = _positions(piece[0])
            if len(set(index)) != len(index) or not set(index) <= waiting:
                raise WrongReply(f"positions {index} were not asked for, or came twice; the batch has {count}")
            waiting -= set(index)
            self._send_candidates(header["id"], index, _pixels(piece[1], (len(index), *self.task.shape)))
            self.task.left[index] = 0
        if waiting:
            raise WrongReply(f"perturb ended without the pictures at positions {sorted(waiting)[:20]}")

    def _send_candidates(self, question: int, index: list, pixels: np.ndarray) -> None:
        room = max(1, min(POSITIONS_LIMIT, self.payload_limit // int(np.prod(self.task.shape))))
        for start in range(0, len(index), room):
            part = pixels[start : start + room]
            header = {"type": "candidates", "id": question, "index": index[start : start + room], "dtype": "u8"}
            _write(dict(header, shape=list(part.shape)), part.tobytes())

    def _classify(self, header: dict, pixels: np.ndarray) -> None:
        chance = {}
        if "seeds" in inspect.signature(self.player.classify).parameters:
            seeds = header.get("seeds")
            chance["seeds"] = None if seeds is None else np.array(seeds, np.int64)
        result, scores = self.player.classify(pixels, **chance), None
        offered = bool(getattr(self.player, "scores", False))
        pair = isinstance(result, tuple) and len(result) == 2  # noqa: PLR2004  a pair
        paired = pair and np.ndim(_unwrapped(result[0])) > 0
        if paired != offered:
            raise WrongReply(
                f"with `scores = True` classify must return (labels, scores), got {_kind(result)}"
                if offered
                else "classify returned scores, but the class does not say `scores = True`"
            )
        if paired:
            result, scores = result
        reply = {"type": "answers", "id": header["id"], "labels": _labels(result, len(pixels), len(self.task.classes))}
        if scores is None:
            _write(reply)
            return
        values = _floats("scores", scores, (len(pixels), len(self.task.classes)))
        _write(dict(reply, dtype="f32", shape=list(values.shape)), values.tobytes())

    def _gradient(self, header: dict, pixels: np.ndarray) -> None:
        slopes = self.player.gradient(pixels, np.array(header["labels"], np.int64))
        values = _floats("gradients", slopes, pixels.shape)
        reply = {"type": "gradients", "id": header["id"], "dtype": "f32", "shape": list(values.shape)}
        _write(reply, values.tobytes())


def _pieces(made: object) -> object:
    if hasattr(made, "__next__"):
        return made
    raise WrongReply(f"perturb must return one uint8 array, or yield pairs (positions, pixels); got {_kind(made)}")


def _positions(value: object) -> list:
    places = np.atleast_1d(np.asarray(_unwrapped(value)))
    if places.ndim != 1 or (places.size and not np.issubdtype(places.dtype, np.integer)):
        raise WrongReply(f"positions must be one int or a flat list of them, got {_kind(places)}")
    return places.tolist()


def _pixels(value: object, shape: tuple) -> np.ndarray:
    """Returns candidates ready to send, or raises WrongReply with a hint how to correct them."""
    value = _array("pixels", value)
    if value.dtype != np.uint8:
        floating = np.issubdtype(value.dtype, np.floating)
        cure = "(x * 255).round().astype('uint8')" if floating else "x.clip(0, 255).astype('uint8')"
        raise WrongReply(f"pixels must be uint8 0..255, got {value.dtype}; did you forget {cure}?")
    if value.shape == shape[1:] and shape[0] == 1:
        value = value[None]
    if value.shape != shape:
        turned = value.ndim == len(shape) and value.transpose(0, 3, 1, 2).shape == shape
        hint = "; channels come first, did you forget x.transpose(0, 3, 1, 2)?" if turned else ""
        raise WrongReply(f"pixels must have shape {shape}, got {value.shape}{hint}")
    return np.ascontiguousarray(value)


def _labels(value: object, count: int, classes: int) -> list:
    """Returns labels as a JSON list, or raises WrongReply."""
    value = _unwrapped(value)
    array = isinstance(value, np.ndarray)
    if not array and not isinstance(value, (list, tuple)):
        raise WrongReply(f"classify must return a list of {count} labels, got {_kind(value)}{_tensor_hint(value)}")
    if array and value.ndim != 1:
        raise WrongReply(f"labels must be a flat list, got shape {value.shape}; did you forget .argmax(axis=1)?")
    if len(value) != count:
        raise WrongReply(f"{len(value)} labels for {count} pictures")
    return [_label(_unwrapped(label), classes) for label in value]


def _label(value: object, classes: int) -> object:
    if isinstance(value, np.ndarray) and value.ndim == 0:  # one of a list of tensors
        value = value[()]
    if value is None:
        return None
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < classes:
        got = int(value) if whole else _kind(value)
        raise WrongReply(f"a label must be an int from 0 to {classes - 1} or None, got {got}")
    return int(value)


def _floats(what: str, value: object, shape: tuple) -> np.ndarray:
    value = _array(what, value)
    if not np.issubdtype(value.dtype, np.floating):
        raise WrongReply(f"{what} must be floats, got {_kind(value)}; did you forget .astype('float32')?")
    if value.shape != tuple(shape):
        raise WrongReply(f"{what} must have shape {tuple(shape)}, got {value.shape}")
    if np.isnan(value).any():
        raise WrongReply(f"{what} must not be NaN, but {int(np.isnan(value).sum())} of {value.size} are")
    return np.ascontiguousarray(value, "<f4")


def _unwrapped(value: object) -> object:
    """Returns a PyTorch tensor, on any device, as an array, and any other value unchanged."""
    if all(callable(getattr(value, step, None)) for step in ("detach", "cpu", "numpy")):
        return value.detach().cpu().numpy()
    return value


def _array(what: str, value: object) -> np.ndarray:
    value = _unwrapped(value)
    if not isinstance(value, np.ndarray):
        listed = "; did you forget np.array(...)?" if isinstance(value, (list, tuple)) else _tensor_hint(value)
        raise WrongReply(f"{what} must be a NumPy array, got {_kind(value)}{listed}")
    return value


def _text(value: object) -> str:
    """Returns text that UTF-8 can encode: file names may contain half a surrogate pair."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    return type(value).__name__


def _tensor_hint(value: object) -> str:
    return "; did you forget .cpu().numpy()?" if hasattr(value, "detach") else ""


def _read() -> tuple | None:
    """Returns the next question's header and payload, or None at the end of stdin."""
    prefix = _questions.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    magic, header_length, payload_length = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise SystemExit("stdin does not speak the image protocol; a player is started by sparring, not by hand")
    header = _questions.read(header_length)
    payload = _questions.read(payload_length)
    if len(header) < header_length or len(payload) < payload_length:
        return None
    return json.loads(header.decode("utf-8")), payload


def _write(header: dict, payload: bytes = b"") -> None:
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("utf-8")
    _answers.write(PREFIX.pack(MAGIC, len(text), len(payload)))
    _answers.write(text)
    _answers.write(payload)
    _answers.flush()
