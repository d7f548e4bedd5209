"""JSON to values and back; the only home of pydantic."""
