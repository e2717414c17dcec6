"""Other ways to train such a model. Each takes texts or ids and returns the seconds of one epoch.

Sizes, vocabulary, batch size, dropout, clipping and learning rate are those of the case; B texts, T tokens, D d_model.
"""

import logging
import math
import random
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from knockout.data.batches import Data, training_batches

BATCH, DROPOUT, RATE = 64, 0.1, 1e-3


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a model: d_model, heads, layers, d_ff, tokens of the longest text, tokens of the vocabulary."""

    D: int
    heads: int
    layers: int
    d_ff: int
    longest: int
    vocabulary: int


class Positions(nn.Module):
    """The sinusoids that the tutorials add."""

    table: Tensor

    def __init__(self, length: int, D: int) -> None:
        super().__init__()
        time_ = torch.arange(length)[:, None].float()
        rate = torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
        table = torch.zeros(length, D)
        table[:, 0::2], table[:, 1::2] = torch.sin(time_ * rate), torch.cos(time_ * rate)
        self.register_buffer("table", table[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[:, : x.shape[1]]


class TutorialBlock(nn.Module):
    """One encoder block as the tutorials build it: three maps, explicit softmax attention, Pre-LN, three dropouts."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        D = sizes.D
        self.heads, self.size = sizes.heads, D // sizes.heads
        self.w_q, self.w_k, self.w_v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.ffn = nn.Sequential(nn.Linear(D, sizes.d_ff), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(sizes.d_ff, D))
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.dropout1, self.dropout2 = nn.Dropout(DROPOUT), nn.Dropout(DROPOUT)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (w(x).view(B, T, self.heads, self.size).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = torch.matmul(q, k.transpose(-2, -1)) / (self.size**0.5)
        scores = scores.masked_fill(mask == 0, -1e9)
        y = torch.matmul(F.softmax(scores, dim=-1), v)
        out: Tensor = self.out(y.transpose(1, 2).contiguous().view(B, T, D))
        return out

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.dropout1(self.attend(self.norm1(x), mask))
        out: Tensor = x + self.dropout2(self.ffn(self.norm2(x)))
        return out


class TutorialClassifier(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.D, padding_idx=0)
        self.positions = Positions(sizes.longest, sizes.D)
        self.layers = nn.ModuleList([TutorialBlock(sizes) for _ in range(sizes.layers)])
        self.classifier = nn.Linear(sizes.D, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.positions(self.embedding(ids))
        for layer in self.layers:
            x = layer(x, mask)
        out: Tensor = self.classifier(x.mean(dim=1))
        return out


def tutorial(texts: list[str], labels: list[int], sizes: Sizes) -> float:
    """The tutorials' loop as written: every batch tokenised in Python and padded to the longest training text; Adam."""

    def tokenise(text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]+", text.lower())

    counted = Counter(token for text in texts for token in tokenise(text))
    vocabulary = {token: i + 2 for i, (token, _) in enumerate(counted.most_common(sizes.vocabulary - 2))}
    model = TutorialClassifier(sizes).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    criterion = nn.CrossEntropyLoss()
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    started = time.perf_counter()
    for start in range(0, len(order), BATCH):
        rows = []
        for i in order[start : start + BATCH]:
            ids = [vocabulary.get(token, 1) for token in tokenise(texts[i])][: sizes.longest]
            rows.append(ids + [0] * (sizes.longest - len(ids)))
        input_ids = torch.tensor(rows, dtype=torch.long)
        target = torch.tensor([labels[i] for i in order[start : start + BATCH]])
        mask = (input_ids != 0).unsqueeze(1).unsqueeze(2)
        loss = criterion(model(input_ids, mask), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        loss.item()
    return time.perf_counter() - started


class PlainClassifier(nn.Module):
    """`torch.nn.TransformerEncoder`, Pre-LN, with the mean over real tokens."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.D, padding_idx=0)
        self.positions = Positions(sizes.longest, sizes.D)
        layer = nn.TransformerEncoderLayer(sizes.D, sizes.heads, sizes.d_ff, DROPOUT, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, sizes.layers, nn.LayerNorm(sizes.D), enable_nested_tensor=False)
        self.classifier = nn.Linear(sizes.D, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.encoder(self.positions(self.embedding(ids)), src_key_padding_mask=~mask)
        x = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        out: Tensor = self.classifier(x)
        return out


def plain(data: Data, sizes: Sizes) -> float:
    """A loop over `torch.nn.TransformerEncoder` with our length buckets, on ids that are tensors already; AdamW."""
    model = PlainClassifier(sizes).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    started = time.perf_counter()
    for batch in training_batches(data.train.lengths, batch_size=BATCH, seed=0, epoch=1):
        ids, mask, labels = data.train.batch(torch.from_numpy(batch), data.train.width(batch))
        loss = F.cross_entropy(model(ids, mask), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        loss.item()
    return time.perf_counter() - started


def hugging_face(data: Data, sizes: Sizes) -> float:
    """`transformers.Trainer` with length grouping, on a BERT of the same sizes and on ids that are ready."""
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    split = data.train
    rows = []
    for i in range(split.count):
        ids = split.ids[split.offsets[i] : split.offsets[i + 1]].tolist()
        rows.append({"input_ids": ids, "labels": int(split.labels[i]), "length": len(ids)})

    def collate(batch: list[dict[str, Any]]) -> dict[str, Tensor]:
        longest = max(row["length"] for row in batch)
        ids = torch.tensor([row["input_ids"] + [0] * (longest - row["length"]) for row in batch])
        mask = (ids != 0).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([row["labels"] for row in batch])}

    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.D,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            intermediate_size=sizes.d_ff,
            max_position_embeddings=sizes.longest,
            hidden_act="relu",
            hidden_dropout_prob=DROPOUT,
            attention_probs_dropout_prob=0.0,
            num_labels=2,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=1,
            learning_rate=RATE,
            train_sampling_strategy="group_by_length",
            lr_scheduler_type="cosine",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            remove_unused_columns=False,
        )
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate)
        started = time.perf_counter()
        trainer.train()
        return time.perf_counter() - started
