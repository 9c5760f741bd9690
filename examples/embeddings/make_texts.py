"""Makes texts to embed, as JSON lines: short notes about five topics.

    python make_texts.py FOLDER [FIRST] [COUNT]    by default 300 texts, from 1

The same texts on every machine.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

WORDS = {
    "sailing": "sail boat harbour wind mast anchor tide sailor deck rope",
    "baking": "bread oven flour dough yeast crust butter bake loaf sugar",
    "astronomy": "star telescope planet orbit moon galaxy comet sky lens night",
    "gardening": "soil seed rose prune compost leaf root spade tomato hedge",
    "chess": "knight bishop pawn castle opening endgame check queen board clock",
}
SENTENCES = [
    "The {} and the {} come first, then the {}.",
    "She told us about a {} beside the {}, and a {} we had not seen.",
    "No {} without a {}: that is what the {} taught me.",
    "Every {} needs its {}; some days a {} is enough.",
]


def text_of(number: int) -> dict[str, object]:
    chance = random.Random(f"text {number}")
    topic = chance.choice(sorted(WORDS))
    sentences = [
        chance.choice(SENTENCES).format(*chance.sample(WORDS[topic].split(), 3)) for _ in range(2)
    ]
    return {"id": number, "topic": topic, "text": " ".join(sentences)}


def main(folder: Path, first: int, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"texts-{first}.jsonl"
    lines = [json.dumps(text_of(number)) for number in range(first, first + count)]
    file.write_text("\n".join(lines) + "\n")
    print(f"{count} texts in {file}")


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[2:4]]
    main(Path(sys.argv[1]), *(given + [1, 300][len(given) :]))
