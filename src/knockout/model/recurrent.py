"""A recurrent encoder. B texts, T tokens, D d_model, H hidden units in each direction."""

import warnings

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from knockout.model.dropout import Dropout


class Recurrent(nn.Module):
    """Bidirectional LSTM layers (Hochreiter & Schmidhuber 1997), then dropout. cuDNN computes them on a GPU.

    Texts are packed: both directions start and end at real tokens, so padding has no effect. Packing reads the lengths
    on the host, which a GPU waits for once a batch.
    """

    def __init__(self, inputs: int, hidden: int, *, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, num_layers, batch_first=True, bidirectional=True)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) and the mask of real tokens (B, T), which come first -> (B, T, 2 * H), 0 at padding."""
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        with warnings.catch_warnings():
            # The trainer keeps all parameters in one vector, which is not cuDNN's order: it copies them at each call.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            y, _ = self.lstm(packed)
        states, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        out: Tensor = self.dropout(states)
        return out
