-- Schema 2: turns whose messages cite sources are found without reading the others (X39).
--
-- The index is kept by SQLite itself, so nothing has to be rebuilt or verified. Words of a text never match: a quote
-- inside a JSON string has a backslash before it.

CREATE INDEX message_citing ON message (conversation, branch, turn)
    WHERE turn IS NOT NULL AND instr(body, '"citationIds"') > 0;
