"""The corpora of summariser answers: runs, adversarial and honest cases (README.md)."""
