"""Floors: what the same training texts give without a deep model, on the same test texts as the study's runs.

Two of them: the commonest class of the training texts, and a linear model. The linear model sees what a trainer sees:
the token ids of the prepared data, after the cut to `max_length`, unknown tokens among them. Its features are the
presence of n-grams of ids: uni- and bigrams, of characters 1- to 3-grams; one that only a single training text has is
left out. The features are weighted by naive Bayes log-count ratios, and logistic regression does the rest (Wang &
Manning 2012: Baselines and Bigrams). With more than two classes there is one such model for each class against the
rest, and their probabilities are scaled to a sum of 1.

The strength of regularisation is chosen by the log-loss on the validation texts. The test texts are scored once.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from knockout.data.corpus import SPLITS
from knockout.data.sources import cache_folder
from knockout.files import replace_file
from knockout.job import DataRef, Floor

SIZES: Mapping[str, int] = {"word": 2, "bpe": 2, "char": 3}
"""tokens -> the longest n-gram"""

NAMES: Mapping[str, str] = {
    "word": "a linear model on word uni- and bigrams",
    "bpe": "a linear model on subword uni- and bigrams",
    "char": "a linear model on character 1- to 3-grams",
}

STRENGTHS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""scikit-learn's C, tried from the strongest regularisation on, until the validation log-loss rises."""

LEAST_TEXTS = 2
"""A feature that fewer training texts have is left out."""

MOST_GRAMS = 60_000_000
"""n-grams of the training texts times models. Beyond it no linear model is fitted: it would take minutes."""

DIGITS = 6
"""Decimals of a score: the last ones of a solver differ between machines."""

TOLERANCE = 1e-6
"""Of the gradient of the mean loss, at which the solver ends."""

Matrix = sparse.csr_array


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of one split, as token ids."""

    ids: NDArray[np.integer[Any]]
    """of all texts, one after the other"""
    offsets: NDArray[np.integer[Any]]
    """(N + 1,) where each text begins, and the end"""
    labels: NDArray[np.integer[Any]]
    """(N,)"""


def text_floors(ref: DataRef, *, tokens: str) -> tuple[Floor, ...]:
    """The floors of prepared data, computed once for each data id and kept in the cache. `tokens`: as in `[data]`."""
    path = cache_folder() / "floors" / f"{_key(ref, tokens)}.json"
    cached = _cached(path)
    if cached is not None:
        return cached
    with np.load(ref.path, allow_pickle=False) as file:
        vocabulary, classes, _ = (int(n) for n in file["shape"])
        splits = {
            name: Texts(ids=file[f"{name}_ids"], offsets=file[f"{name}_offsets"], labels=file[f"{name}_labels"])
            for name in SPLITS
        }
    floors = floors_of(splits, vocabulary=vocabulary, classes=classes, tokens=tokens)
    content = {"floors": [asdict(floor) for floor in floors]}
    path.parent.mkdir(parents=True, exist_ok=True)
    sealed = json.dumps({**content, "sha256": _seal(content)}).encode()
    replace_file(path, lambda file: file.write(sealed))
    return floors


def floors_of(splits: Mapping[str, Texts], *, vocabulary: int, classes: int, tokens: str) -> tuple[Floor, ...]:
    """The majority class and the linear model, fitted on `train`, chosen on `validation`, scored on `test`."""
    train, test = splits["train"], splits["test"]
    shares = (np.bincount(train.labels, minlength=classes) + 1) / (len(train.labels) + classes)  # none is 0
    constant = np.tile(shares, (len(test.labels), 1))
    grams = SIZES[tokens] * len(train.ids) * (1 if classes == 2 else classes)
    too_many = f"; no linear model was fitted: {grams:,} n-grams times models are more than {MOST_GRAMS:,}"
    majority = Floor(
        name="the commonest class of the training texts",
        made="always the same answer" + (too_many if grams > MOST_GRAMS else ""),
        scores=scores(constant, test.labels),
    )
    if grams > MOST_GRAMS:
        return (majority,)
    features = Features(train, longest=SIZES[tokens], vocabulary=vocabulary)
    strength, model = chosen(
        features.matrix(train), train.labels, features.matrix(splits["validation"]), splits["validation"].labels,
        classes=classes,
    )  # fmt: skip
    linear = Floor(
        name=NAMES[tokens],
        made=f"logistic regression on naive Bayes log-count ratios (Wang & Manning 2012) of {features.count:,} n-grams"
        f" of the tokens that the runs see, each in at least {LEAST_TEXTS} training texts; C = {strength:g}, chosen by"
        " the log-loss on the validation texts",
        scores=scores(model.probabilities(features.matrix(test)), test.labels),
    )
    return majority, linear


def scores(probabilities: NDArray[np.float64], labels: NDArray[np.integer[Any]]) -> dict[str, float]:
    """Accuracy and macro-F1 (0 to 1, over the classes that some label has), and log-loss (nats)."""
    from sklearn.metrics import f1_score

    predicted = probabilities.argmax(axis=1)
    macro = f1_score(labels, predicted, labels=np.unique(labels), average="macro", zero_division=0.0)
    return {
        "accuracy": round(float((predicted == labels).mean()), DIGITS),
        "macro_f1": round(float(macro), DIGITS),
        "log_loss": round(log_loss(probabilities, labels), DIGITS),
    }


def log_loss(probabilities: NDArray[np.float64], labels: NDArray[np.integer[Any]]) -> float:
    """The mean of -log p of the true label, in nats. A probability of 0 counts as the smallest float."""
    true = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(true, np.finfo(np.float64).tiny)).mean())


class Features:
    """The n-grams of token ids that enough training texts have."""

    def __init__(self, train: Texts, *, longest: int, vocabulary: int) -> None:
        self._longest = longest
        self._base = vocabulary + 1
        keys, texts = self._grams(train)
        codes, grams = pd.factorize(keys)
        present = _presence(texts, np.asarray(codes, dtype=np.int64), rows=len(train.labels), columns=len(grams))
        held = np.bincount(present.indices, minlength=len(grams)) >= LEAST_TEXTS
        self._index = pd.Index(np.asarray(grams)[held])

    @property
    def count(self) -> int:
        return len(self._index)

    def matrix(self, texts: Texts) -> Matrix:
        """(texts, features): 1 where the text has the n-gram."""
        keys, rows = self._grams(texts)
        columns = np.asarray(self._index.get_indexer(pd.Index(keys)), dtype=np.int64)
        known = columns >= 0
        return _presence(rows[known], columns[known], rows=len(texts.labels), columns=self.count)

    def _grams(self, texts: Texts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every n-gram of every text as one number, and the text it is in. None spans two texts."""
        ids = texts.ids.astype(np.int64) + 1  # 0 is for "no token here"
        text = np.repeat(np.arange(len(texts.labels), dtype=np.int64), np.diff(texts.offsets))
        keys, rows = [], []
        for size in range(1, self._longest + 1):
            count = max(0, len(ids) - size + 1)
            key = np.zeros(count, dtype=np.int64)
            for at in range(size):
                key = key * self._base + ids[at : at + count]
            inside = text[:count] == text[size - 1 : size - 1 + count]
            keys.append(key[inside])
            rows.append(text[:count][inside])
        return np.concatenate(keys), np.concatenate(rows)


def _presence(rows_of: NDArray[np.int64], columns_of: NDArray[np.int64], *, rows: int, columns: int) -> Matrix:
    ones = np.ones(len(rows_of))
    matrix = sparse.csr_array((ones, (rows_of, columns_of)), shape=(rows, columns))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def log_count_ratios(features: Matrix, of_class: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(features,) log((p / |p|) / (q / |q|)): p and q count the texts of a class, and of the rest, that have a feature,
    plus 1 (Wang & Manning 2012, equation 3 on binarised counts)."""
    p = 1.0 + np.asarray(features[of_class].sum(axis=0)).ravel()
    q = 1.0 + np.asarray(features[~of_class].sum(axis=0)).ravel()
    ratios: NDArray[np.float64] = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratios


@dataclass(frozen=True, kw_only=True)
class Linear:
    """One class against the rest, fitted."""

    weights: NDArray[np.float64]
    """(features,) of the presence of each, log-count ratio and weight in one"""
    intercept: float

    def probability(self, features: Matrix) -> NDArray[np.float64]:
        """(texts,) of the class."""
        logits = np.asarray(features @ self.weights) + self.intercept
        return np.asarray(np.exp(-np.logaddexp(0.0, -logits)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A class against the rest for each class, or one for both of two."""

    parts: tuple[Linear | float, ...]
    """for each class; a number is the probability of a class that no training text has"""

    def probabilities(self, features: Matrix) -> NDArray[np.float64]:
        """(texts, classes), each row with the sum 1."""
        of = [
            np.full(features.shape[0], part) if isinstance(part, float) else part.probability(features)
            for part in self.parts
        ]
        if len(of) == 1:
            return np.column_stack((1.0 - of[0], of[0]))
        stacked = np.column_stack(of)
        return np.asarray(stacked / stacked.sum(axis=1, keepdims=True), dtype=np.float64)


def chosen(
    train: Matrix,
    labels: NDArray[np.integer[Any]],
    validation: Matrix,
    validation_labels: NDArray[np.integer[Any]],
    *,
    classes: int,
) -> tuple[float, Model]:
    """The strength of regularisation with the smallest validation log-loss, and its model."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):  # the same sums in the same order, and no core is taken from the workers
        fits = [_Path(train, labels == c) for c in ([1] if classes == 2 else range(classes))]
        best: tuple[float, float, Model] | None = None
        for strength in STRENGTHS:
            model = Model(parts=tuple(fit.at(strength) for fit in fits))
            loss = log_loss(model.probabilities(validation), validation_labels)
            if best is not None and loss >= best[0]:
                break
            best = loss, strength, model
    assert best is not None
    return best[1], best[2]


class _Path:
    """Fits of one class against the rest, each started where the one before ended."""

    def __init__(self, features: Matrix, of_class: NDArray[np.bool_]) -> None:
        from sklearn.linear_model import LogisticRegression

        self._y = of_class
        if not of_class.any():
            return
        self._ratios = log_count_ratios(features, of_class)
        self._x = sparse.csr_array(features * self._ratios[None, :])
        self._regression = LogisticRegression(solver="lbfgs", tol=TOLERANCE, max_iter=1000, warm_start=True)

    def at(self, strength: float) -> Linear | float:
        if not self._y.any():
            return 1.0 / (len(self._y) + 2)
        self._regression.C = strength
        self._regression.fit(self._x, self._y)
        weights = np.asarray(self._regression.coef_, dtype=np.float64)[0]
        return Linear(weights=weights * self._ratios, intercept=float(self._regression.intercept_[0]))


def _key(ref: DataRef, tokens: str) -> str:
    """Hash of the data's id, this module, and the versions of what fits the model."""
    versions = [importlib.metadata.version(package) for package in ("scikit-learn", "scipy", "numpy")]
    sha = hashlib.sha256(json.dumps([ref.id, tokens, versions]).encode())
    sha.update(Path(__file__).read_bytes())
    return sha.hexdigest()


def _cached(path: Path) -> tuple[Floor, ...] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("sha256") != _seal(content):
            return None
        return tuple(Floor(**floor) for floor in content["floors"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _seal(content: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
