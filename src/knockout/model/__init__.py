"""The Transformer encoder for text classification. Every factor acts in one place, marked by a comment."""
