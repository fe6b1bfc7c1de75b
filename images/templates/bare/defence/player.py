"""A defence without the helper: the standard library, and the protocol in protocol.py."""

from protocol import read, write  # first: from here on print() writes to your log


def classify(task, picture):
    """Returns the label of one picture, an int, or None to abstain; a picture is bytes, channel by channel."""
    return sum(picture) * len(task["classes"]) // (256 * len(picture))  # <- CHANGE THIS: it goes by brightness


while True:
    question, pixels = read()
    if question["type"] == "hello":
        task = question["task"]
        write({"type": "ready", "id": question["id"], "name": "mine", "gives": ["label"]})
    elif question["type"] == "classify":
        count = question["shape"][0]
        size = len(pixels) // count
        labels = [classify(task, pixels[place * size : (place + 1) * size]) for place in range(count)]
        write({"type": "answers", "id": question["id"], "labels": labels})
    elif question["type"] == "bye":
        break
    else:
        write({"type": "fault", "id": question["id"], "code": "unsupported", "text": question["type"]})
