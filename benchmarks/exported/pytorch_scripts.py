"""The script modules of ``from_pytorch.py``: loops over Python's own numbers and lists, which ``torch.jit.script`` keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

CHANCE = torch.Generator().manual_seed(5)


def normal(*shape: int) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=CHANCE)


class EditDistance(nn.Module):
    """Levenshtein's, a table of the rows that are needed."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Cell by cell, written in place."""
        above = torch.arange(b.size(0) + 1)
        for i in range(a.size(0)):
            row = torch.zeros_like(above)
            row[0] = i + 1
            for j in range(b.size(0)):
                cost = (a[i] != b[j]).to(torch.int64)
                row[j + 1] = torch.minimum(torch.minimum(row[j], above[j + 1]) + 1, above[j] + cost)
            above = row
        return above


class Knapsack(nn.Module):
    """The best value for each weight."""

    def forward(self, weights: Tensor, values: Tensor) -> Tensor:
        """Item by item, a whole row at a time."""
        best = torch.zeros(81, dtype=torch.int64)
        room = torch.arange(81)
        for i in range(weights.size(0)):
            taken = best[torch.clamp(room - weights[i], min=0)] + values[i]
            best = torch.where(room >= weights[i], torch.maximum(best, taken), best)
        return best


class SelectionSort(nn.Module):
    """The smallest of the rest is put in front."""

    def forward(self, x: Tensor) -> Tensor:
        """Two values change places each time; written in place, the exporter would read what was there before the loop."""
        place = torch.arange(x.size(0))
        for i in range(x.size(0) - 1):
            j = torch.argmin(x[i:]) + i
            x = torch.where(place == i, x[j], torch.where(place == j, x[i], x))
        return x


class Life(nn.Module):
    """Conway's game by a convolution."""

    def __init__(self) -> None:
        super().__init__()
        around = torch.ones(1, 1, 3, 3)
        around[0, 0, 1, 1] = 0
        self.register_buffer("around", around)

    def forward(self, board: Tensor, generations: int) -> Tensor:
        """Some generations, without a torus."""
        for _ in range(generations):
            n = torch.conv2d(board, self.around, padding=1)
            board = ((n == 3) | ((board > 0) & (n == 2))).to(torch.float32)
        return board


class Cells(nn.Module):
    """An LSTM and a GRU on top of it, written as a loop over a list."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.Linear(28, 80), nn.Linear(32, 24)
        self.new = nn.Linear(32, 12)
        for parameter in self.parameters():
            parameter.data = normal(*parameter.shape) * 0.3

    def forward(self, x: Tensor) -> Tensor:
        """All states of the second layer."""
        h, c, g = torch.zeros(x.size(1), 20), torch.zeros(x.size(1), 20), torch.zeros(x.size(1), 12)
        found: list[Tensor] = []
        for i in range(x.size(0)):
            gates = self.lstm(torch.cat([x[i], h], dim=1))
            c = torch.sigmoid(gates[:, :20]) * c + torch.sigmoid(gates[:, 20:40]) * torch.tanh(gates[:, 40:60])
            h = torch.sigmoid(gates[:, 60:]) * torch.tanh(c)
            gates = torch.sigmoid(self.gru(torch.cat([h, g], dim=1)))
            new = torch.tanh(self.new(torch.cat([h, gates[:, 12:] * g], dim=1)))
            g = gates[:, :12] * g + (1 - gates[:, :12]) * new
            found.append(g)
        return torch.stack(found)


class GrowingCache(nn.Module):
    """A decoder whose keys and values grow by one row for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Parameter(normal(20, 12)), nn.Parameter(normal(12, 20))
        self.q, self.k, self.v = (nn.Parameter(normal(12, 12) * 0.3) for _ in range(3))

    def forward(self, token: Tensor, most: int) -> Tensor:
        """The tokens, until one that ends."""
        tokens = token.reshape(1)
        keys, values = torch.zeros(0, 12), torch.zeros(0, 12)
        going, n = True, 1
        while going and n < most:
            x = self.embed[tokens[-1]].reshape(1, 12)
            keys, values = torch.cat([keys, x @ self.k]), torch.cat([values, x @ self.v])
            seen = torch.softmax(x @ self.q @ keys.t() / 3.4, dim=-1) @ values
            new = torch.argmax((x + seen) @ self.out, dim=-1)
            tokens = torch.cat([tokens, new])
            going, n = bool(new[0] != 7), n + 1
        return tokens


class Collatz(nn.Module):
    """The longest chain among the first numbers: a while loop of plain integers in a for loop."""

    def forward(self, most: int) -> tuple[Tensor, Tensor]:
        """Which, and how long."""
        best, longest = 1, 0
        for k in range(1, most):
            n, steps = k, 0
            while n != 1:
                if n % 2 == 0:  # noqa: SIM108  (an If in the model)
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps += 1
            if steps > longest:
                best, longest = k, steps
        return torch.tensor(best), torch.tensor(longest)


class Bisect(nn.Module):
    """Where a polynomial is zero."""

    def forward(self, a: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Until the interval is short."""
        while bool(high - low > 1e-4):
            middle = (low + high) / 2
            if bool(((middle * a[0] + a[1]) * middle + a[2]) * middle + a[3] > 0):
                high = middle
            else:
                low = middle
        return low


class TextHash(nn.Module):
    """A hash of each line of a text of numbers."""

    def forward(self, codes: Tensor) -> Tensor:
        """One hash for each row."""
        found = torch.zeros(codes.size(0), dtype=torch.int64)
        for i in range(codes.size(0)):
            h = torch.tensor(7)
            for j in range(codes.size(1)):
                h = (h * 131 + codes[i, j]) % 1000003
            found[i] = h
        return found


class MovingAverage(nn.Module):
    """A filter with a queue of what came last."""

    def forward(self, x: Tensor) -> Tensor:
        """One average for each value."""
        queue = torch.zeros(5)
        found: list[Tensor] = []
        for i in range(x.size(0)):
            queue = torch.cat([queue[1:], x[i : i + 1]])
            found.append(queue.mean())
        return torch.stack(found)


class MatrixChain(nn.Module):
    """The cheapest order of a chain of products: three nested loops over a table."""

    def forward(self, sizes: Tensor) -> Tensor:
        """The number of multiplications."""
        n = sizes.size(0) - 1
        cost = torch.zeros(n, n, dtype=torch.int64)
        for length in range(1, n):
            for i in range(n - length):
                j = i + length
                best = torch.tensor(1 << 40)
                for k in range(i, j):
                    best = torch.minimum(best, cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1])
                cost[i, j] = best
        return cost[0, n - 1]


class Perceptron(nn.Module):
    """Weights move where an example is on the wrong side."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Weights, and how many mistakes there were."""
        w = torch.zeros(x.size(1))
        mistakes = torch.tensor(0)
        for _ in range(5):
            for i in range(x.size(0)):
                if bool((x[i] * w).sum() * y[i] <= 0):
                    w = w + y[i] * x[i]
                    mistakes = mistakes + 1
        return w, mistakes


class LabelPath(nn.Module):
    """The best labels of a sequence: an LSTM scores, one loop makes a list of where the best came from, another goes back."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.LSTM(3, 4)
        self.following = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        """The labels."""
        scores = self.scores(x.unsqueeze(1))[0][:, 0]
        best = scores[0]
        origins: list[Tensor] = []
        for t in range(1, scores.size(0)):
            value, origin = torch.max(best.unsqueeze(1) + self.following, 0)
            best = value + scores[t]
            origins.append(origin)
        label = torch.argmax(best)
        path = label.unsqueeze(0)
        for t in range(len(origins)):
            label = origins[len(origins) - 1 - t][label]
            path = torch.cat([label.unsqueeze(0), path])
        return path


class SlidingWindow(nn.Module):
    """Outliers by a window over what came last: a list that loses its first element where it is too long."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """How far each value is from the middle of its window, and what is left in the window."""
        window: list[Tensor] = []
        found: list[Tensor] = []
        for i in range(x.size(0)):
            window.append(x[i])
            if len(window) > 9:
                window.pop(0)
            part = torch.stack(window)
            found.append((x[i] - part.mean(0)) / ((part - part.mean(0)).abs().amax(0) + 0.1))
        return torch.stack(found), torch.stack(window)


class StackMachine(nn.Module):
    """A calculator with a stack: a program puts numbers on it, and takes them off again."""

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """What is left on the stack."""
        stack: list[Tensor] = []
        for i in range(codes.size(0)):
            code = int(codes[i])
            if code < 2 or len(stack) < 2:
                stack.append(numbers[i])
            else:
                b = stack.pop()
                a = stack.pop()
                if code == 2:
                    stack.append(a + b)
                else:
                    stack.append(a * b)
        return torch.stack(stack)


class Undo(nn.Module):
    """States of a drawing that can be taken back."""

    def forward(self, strokes: Tensor, what: Tensor) -> tuple[Tensor, Tensor]:
        """The last state, and all that can be taken back."""
        states: list[Tensor] = [torch.zeros(strokes.size(1))]
        for i in range(strokes.size(0)):
            if int(what[i]) == 0:
                if len(states) > 1:
                    states.pop()
            else:
                states.append(torch.tanh(states[-1] + strokes[i]))
        return states[-1], torch.stack(states)


class DequeMaximum(nn.Module):
    """The maximum of a moving window, by a queue of those that may still become it."""

    def forward(self, x: Tensor) -> Tensor:
        """One maximum for each place."""
        values: list[Tensor] = []
        places: list[Tensor] = []
        found: list[Tensor] = []
        for i in range(x.size(0)):
            going = len(values) > 0
            while going:
                if bool(values[-1] <= x[i]):
                    values.pop()
                    places.pop()
                    going = len(values) > 0
                else:
                    going = False
            values.append(x[i])
            places.append(torch.full((), i))
            if bool(places[0] <= i - 8):
                values.pop(0)
                places.pop(0)
            found.append(values[0])
        return torch.stack(found)


class SortedInsertion(nn.Module):
    """A list that is kept in order: each number is put where it belongs."""

    def forward(self, x: Tensor) -> Tensor:
        """The numbers in order."""
        found: list[Tensor] = []
        for i in range(x.size(0)):
            place = 0
            while place < len(found) and bool(found[place] < x[i]):
                place += 1
            found.insert(place, x[i])
        return torch.stack(found)


def every() -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """Names, scripted modules, inputs."""
    letters = torch.randint(0, 5, (2, 14), generator=CHANCE)
    numbers = torch.randint(1, 30, (3, 20), generator=CHANCE)
    board = (torch.rand(1, 1, 16, 16, generator=CHANCE) < 0.4).to(torch.float32)
    clouds = normal(20, 3)
    rows: list[tuple[str, nn.Module, tuple[Any, ...]]] = [
        ("edit_distance", EditDistance(), (letters[0], letters[1, :11])),
        ("knapsack", Knapsack(), (numbers[0], numbers[1])),
        ("selection_sort", SelectionSort(), (normal(16),)),
        ("life", Life(), (board, torch.tensor(12))),
        ("cells", Cells().eval(), (normal(15, 2, 8),)),
        ("growing_cache", GrowingCache().eval(), (torch.tensor(1), torch.tensor(16))),
        ("collatz", Collatz(), (torch.tensor(30),)),
        ("bisection", Bisect(), (torch.tensor([1.0, 0, -1, -2]), torch.tensor(0.0), torch.tensor(3.0))),
        ("text_hash", TextHash(), (torch.randint(32, 127, (6, 20), generator=CHANCE),)),
        ("moving_average", MovingAverage(), (normal(60),)),
        ("matrix_chain", MatrixChain(), (numbers[2, :9],)),
        ("perceptron", Perceptron(), (clouds, torch.sign(clouds.sum(1) + 0.1))),
        ("label_path", LabelPath().eval(), (normal(16, 3),)),
        ("sliding_window", SlidingWindow(), (normal(60, 4),)),
        ("stack_machine", StackMachine(), (torch.randint(0, 4, (80,), generator=CHANCE), normal(80))),
        ("undo", Undo(), (normal(60, 6), torch.randint(0, 3, (60,), generator=CHANCE))),
        ("deque_maximum", DequeMaximum(), (normal(80),)),
        ("sorted_insertion", SortedInsertion(), (normal(30),)),
    ]
    for name, module, inputs in rows:
        yield name, torch.jit.script(module), inputs
