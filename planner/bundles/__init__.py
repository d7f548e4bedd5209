"""Model bundle files to a loaded Bundle; the only home of the tokenizer libraries."""
