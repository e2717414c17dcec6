"""The Transformer encoder for text classification. Every factor acts at one place, named in a comment."""
