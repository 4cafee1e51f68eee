"""
Greedy decoding with a stop token
=================================

A model of letters, learned from a few words, writes a word letter by letter, always with the most likely next letter. It is a
while loop that ends at the stop token.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# Count how often one letter follows another.
words = ["code", "node", "mode", "model", "made", "lamp", "land", "camp", "noon", "moon", "cool"]
letters = ["^", *sorted(set("".join(words))), "$"]
counts = np.full((len(letters), len(letters)), 0.01)
for word in words:
    for a, b in zip(f"^{word}", f"{word}$", strict=True):
        counts[letters.index(a), letters.index(b)] += 1
logits = np.log(counts)

fig, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
ax.imshow(counts, cmap="Blues")
ax.set(xticks=range(len(letters)), yticks=range(len(letters)), xticklabels=letters, yticklabels=letters)
ax.set(xlabel="next letter", ylabel="letter")

# %%
end = letters.index("$")
found = {}
for start in "lcnm":
    run = mdf_loop.run(MODEL, first=letters.index(start), logits=logits, end=end, limit=8)
    found[start] = start + "".join(letters[k] for k in run["tokens"]).rstrip("$")
    assert run["tokens"][-1] == end  # it ended at the stop token, not at the limit
    print(f"{found[start]:<8} log probability {float(run['score']):.2f}")


# %%
def greedy(start):
    """The same loop in plain Python."""
    word, token = start, letters.index(start)
    for _ in range(8):
        token = int(np.argmax(logits[token]))
        if token == end:
            break
        word += letters[token]
    return word


assert found == {start: greedy(start) for start in "lcnm"}
never = mdf_loop.run(MODEL, first=letters.index("d"), logits=logits, end=-1, limit=8)
assert never["tokens"].shape == (8,)  # without a stop token, the limit ends it
