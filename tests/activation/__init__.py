"""Another chat template for a bundle: its gate, its record, its fallback, one step back."""
