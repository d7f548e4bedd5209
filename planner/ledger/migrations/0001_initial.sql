-- Schema 1 of the conversation ledger (docs/ledger.md).
--
-- Facts      one row each in `event`, in commit order, append-only and chained; the fact itself stands in its own
--            table under the same event number. Triggers refuse to change or delete either.
-- Index rows `mark`, `touch`, `summary_source`: what a fact says, spread out so that it is found fast.
-- Derived    head, branch_head, relation, pinned, turn_chain, active_run, active_plan: may change, can be rebuilt.
-- Text of a conversation stands in message.body, part.body and summary.body, nowhere else.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    event INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,           -- 0 where the fact is of no branch
    revision INTEGER NOT NULL,         -- of the conversation, after this event
    kind TEXT NOT NULL CHECK (kind IN (
        'conversation', 'branch', 'generation', 'policy',
        'message', 'edit', 'protection', 'legacy',
        'turn', 'state', 'cancel', 'withdraw', 'mark', 'supersede', 'item', 'material',
        'refusal', 'retention',
        'plan', 'summary', 'adoption', 'invalidation', 'rejection')),
    place INTEGER NOT NULL,            -- message: sequence, turn: ordinal, else 0; with it the fact is found by key
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    chain BLOB NOT NULL CHECK (length(chain) = 32)
) STRICT;

CREATE TABLE conversation (
    event INTEGER NOT NULL UNIQUE REFERENCES event (event),
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL
) STRICT;

CREATE TABLE branch (
    event INTEGER NOT NULL UNIQUE REFERENCES event (event),
    key INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    id TEXT NOT NULL,
    parent INTEGER REFERENCES branch (key),
    at_ordinal INTEGER,                -- of the last turn that is seen of the parent
    at_sequence INTEGER,               -- of that turn
    at_event INTEGER,                  -- what the parent says later is not seen
    digest BLOB NOT NULL,
    UNIQUE (conversation, id),
    CHECK ((parent IS NULL) = (at_sequence IS NULL)),
    CHECK ((parent IS NULL) = (at_ordinal IS NULL)),
    CHECK ((parent IS NULL) = (at_event IS NULL))
) STRICT;

CREATE TABLE generation (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    generation INTEGER NOT NULL CHECK (generation >= 1),
    cause TEXT NOT NULL CHECK (cause IN ('start', 'page', 'resend', 'switch')),
    digest BLOB NOT NULL,
    UNIQUE (conversation, generation)
) STRICT;

CREATE TABLE policy (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL,
    part TEXT NOT NULL,                -- key in part, kind policy
    digest BLOB NOT NULL
) STRICT;

CREATE INDEX policy_conversation ON policy (conversation, event);

CREATE TABLE message (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    event INTEGER NOT NULL REFERENCES event (event),
    turn INTEGER,                      -- ordinal; NULL for a record that could not be classified
    id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'unclassified')),
    protection TEXT CHECK (protection IN ('pending-confirmation', 'active-constraint', 'audit-evidence')),
    body TEXT,                         -- JSON of the content, NULL once retention took it
    salt BLOB,
    digest BLOB NOT NULL,
    PRIMARY KEY (conversation, branch, sequence, event),
    CHECK ((turn IS NULL) = (role = 'unclassified')),
    CHECK ((body IS NULL) = (salt IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX message_id ON message (conversation, id) WHERE version = 1;
CREATE UNIQUE INDEX message_version ON message (conversation, branch, sequence, version) WHERE version > 1;
CREATE INDEX message_turn ON message (conversation, branch, turn, sequence) WHERE turn IS NOT NULL;
CREATE INDEX message_protected ON message (conversation, branch, turn) WHERE protection IS NOT NULL;
CREATE INDEX message_unclassified ON message (conversation, branch, sequence) WHERE turn IS NULL;

CREATE TABLE turn (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
    event INTEGER NOT NULL REFERENCES event (event),
    id TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    version INTEGER NOT NULL CHECK (version >= 1),
    messages INTEGER NOT NULL,         -- how many it had; a turn that is no longer open gets no more
    state TEXT NOT NULL CHECK (state IN ('open', 'completed', 'cancelled', 'superseded')),
    actor TEXT,                        -- who cancelled it
    material TEXT CHECK (material IN ('chat', 'code', 'dispute', 'tool_result')),
    marks TEXT,                        -- JSON [[constraint id, key in part or null], ...], NULL where there is none
    supersedes TEXT,                   -- JSON [constraint id, ...]
    items TEXT,                        -- JSON [[item id, status], ...]
    digest BLOB NOT NULL,
    PRIMARY KEY (conversation, branch, ordinal, event)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX turn_id ON turn (conversation, id) WHERE version = 1;
CREATE INDEX turn_sequence ON turn (conversation, branch, sequence) WHERE version = 1;
CREATE INDEX turn_hidden ON turn (conversation, branch, ordinal) WHERE state IN ('cancelled', 'superseded');

CREATE TABLE refusal (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('refusal', 'revocation')),
    in_force INTEGER NOT NULL CHECK (in_force IN (0, 1)),
    digest BLOB NOT NULL
) STRICT;

CREATE INDEX refusal_message ON refusal (conversation, message_id, event);

CREATE TABLE retention (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL,
    through_sequence INTEGER NOT NULL, -- turns up to this sequence lost their originals
    turns INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    summaries INTEGER NOT NULL,
    reason TEXT NOT NULL,              -- an id, no sentence
    digest BLOB NOT NULL
) STRICT;

CREATE INDEX retention_conversation ON retention (conversation, event);

-- Index rows of facts.

CREATE TABLE mark (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    name TEXT NOT NULL,                -- id of a constraint, or of an item
    op TEXT NOT NULL CHECK (op IN ('mark', 'supersede', 'names', 'item')),
    event INTEGER NOT NULL REFERENCES event (event),
    turn INTEGER NOT NULL,             -- ordinal of the turn that says so
    sequence INTEGER NOT NULL,         -- of that turn
    part TEXT,                         -- key of a mark's wording, kind constraint
    PRIMARY KEY (conversation, branch, name, op, event)
) STRICT, WITHOUT ROWID;

CREATE TABLE touch (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    sequence INTEGER NOT NULL,         -- of the turn that is touched
    event INTEGER NOT NULL REFERENCES event (event),
    cause TEXT NOT NULL CHECK (cause IN ('edit', 'protection', 'state', 'constraint', 'item', 'purge')),
    causing_id TEXT NOT NULL,          -- message, turn, constraint or item
    PRIMARY KEY (conversation, branch, sequence, event, causing_id)
) STRICT, WITHOUT ROWID;

-- Restricted parts: originals that are no message. A key is a salted digest, or one the caller states (a request's).

CREATE TABLE part (
    conversation INTEGER NOT NULL,     -- 0 where it is of none
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    salt BLOB NOT NULL,
    body BLOB NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (conversation, kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX part_key ON part (kind, key);

-- Compaction: plans, summary versions and what became of them.

CREATE TABLE plan (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    seen_event INTEGER NOT NULL,       -- the newest event the plan saw
    policy_version TEXT NOT NULL,
    strategy_version TEXT NOT NULL,
    replaces TEXT,                     -- id of the plan it took over from
    body TEXT NOT NULL,                -- JSON of the plan: ids and numbers, no text
    digest BLOB NOT NULL,
    UNIQUE (conversation, id)
) STRICT;

CREATE TABLE summary (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    plan_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    verified_event INTEGER NOT NULL,   -- sources were verified up to this event
    covers_from INTEGER NOT NULL,
    covers_to INTEGER NOT NULL,
    through_sequence INTEGER NOT NULL,
    source_fingerprint TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    strategy_version TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('accepted', 'stale-source', 'failed')),
    cause TEXT,                        -- code, where it was not accepted
    causing_id TEXT,
    adopted_from INTEGER REFERENCES summary (event),
    diagnostics TEXT,                  -- JSON: ids, numbers, codes
    body TEXT,                         -- JSON of the record, NULL once retention took it
    salt BLOB,
    digest BLOB NOT NULL,
    CHECK (covers_from <= covers_to),
    CHECK ((body IS NULL) = (salt IS NULL))
) STRICT;

-- A save that failed leaves its record, and the same version may be saved again.
CREATE UNIQUE INDEX summary_id ON summary (conversation, id) WHERE status <> 'failed';
CREATE INDEX summary_coverage ON summary (conversation, branch, covers_from, covers_to);
CREATE INDEX summary_plan ON summary (conversation, plan_id);

CREATE TABLE summary_source (
    summary INTEGER NOT NULL REFERENCES summary (event),
    position INTEGER NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    message_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    turn_sequence INTEGER NOT NULL,
    PRIMARY KEY (summary, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX summary_source_message ON summary_source (conversation, message_id);

CREATE TABLE adoption (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    generation INTEGER NOT NULL,
    summary INTEGER NOT NULL REFERENCES summary (event),
    verified_event INTEGER NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (conversation, branch, summary)
) STRICT;

CREATE TABLE invalidation (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    summary INTEGER NOT NULL REFERENCES summary (event),
    cause TEXT NOT NULL,
    causing_id TEXT,
    covers_from INTEGER NOT NULL,
    covers_to INTEGER NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (conversation, branch, summary)
) STRICT;

CREATE TABLE rejection (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    plan_id TEXT NOT NULL,
    run INTEGER NOT NULL,              -- index of the run in its plan
    source_fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,              -- ids, numbers and codes
    ids TEXT,                          -- JSON [id, ...]
    digest BLOB NOT NULL
) STRICT;

CREATE INDEX rejection_source ON rejection (conversation, source_fingerprint);

-- Receipts are records of planning, not of the conversation: they are not chained.

CREATE TABLE receipt (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    plan_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    event INTEGER NOT NULL,            -- head of the ledger when it was planned
    request_digest TEXT,
    body BLOB NOT NULL,                -- text-free
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (conversation, plan_id)
) STRICT, WITHOUT ROWID;

-- Derived tables. Their digests find accidents; `verify` compares them with the facts.

CREATE TABLE head (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    branch INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    event INTEGER NOT NULL,            -- the newest of this conversation
    last_sequence INTEGER NOT NULL,    -- -1 while there is none
    purged_through INTEGER,            -- highest sequence of a turn whose original was purged
    digest BLOB NOT NULL
) STRICT;

CREATE TABLE branch_head (
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    turns INTEGER NOT NULL,            -- ordinals along its line are 0 .. turns - 1
    relation_sum BLOB NOT NULL,        -- exclusive or of the digests of its rows in relation
    pinned_sum BLOB NOT NULL,          -- and in pinned
    digest BLOB NOT NULL,
    PRIMARY KEY (conversation, branch)
) STRICT, WITHOUT ROWID;

CREATE TABLE relation (
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    -- live: a constraint in force; withdrawn: `other` withdraws what `turn` marks; unmarked: a message names a
    -- constraint that no turn marks; item: an unfinished item was last named there.
    kind TEXT NOT NULL CHECK (kind IN ('live', 'withdrawn', 'unmarked', 'item')),
    turn INTEGER NOT NULL,             -- ordinal
    name TEXT NOT NULL,
    other INTEGER NOT NULL,            -- ordinal, -1 where there is none
    part TEXT,
    PRIMARY KEY (conversation, branch, kind, turn, name, other)
) STRICT, WITHOUT ROWID;

CREATE INDEX relation_name ON relation (conversation, branch, name);

CREATE TABLE pinned (
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    turn INTEGER NOT NULL,             -- ordinal of an open or protected turn
    PRIMARY KEY (conversation, branch, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE turn_chain (
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    turn INTEGER NOT NULL,             -- ordinal; the chain over all turns up to it
    event INTEGER NOT NULL,            -- the newest event it takes into account
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    digest BLOB NOT NULL,
    PRIMARY KEY (conversation, branch, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE active_plan (
    conversation INTEGER PRIMARY KEY,
    plan INTEGER NOT NULL REFERENCES plan (event)
) STRICT;

CREATE TABLE active_run (
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    covers_from INTEGER NOT NULL,
    covers_to INTEGER NOT NULL,
    summary INTEGER NOT NULL REFERENCES summary (event),
    PRIMARY KEY (conversation, branch, covers_from)
) STRICT, WITHOUT ROWID;

-- Retention opens this switch inside its own transaction and closes it there; while it is closed nothing leaves.

CREATE TABLE retention_switch (
    open INTEGER PRIMARY KEY CHECK (open = 1)
) STRICT;

-- What is recorded stays as it is.

CREATE TRIGGER event_stays BEFORE UPDATE ON event BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER conversation_stays BEFORE UPDATE ON conversation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER branch_stays BEFORE UPDATE ON branch BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER generation_stays BEFORE UPDATE ON generation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER policy_stays BEFORE UPDATE ON policy BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER turn_stays BEFORE UPDATE ON turn BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER refusal_stays BEFORE UPDATE ON refusal BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER retention_stays BEFORE UPDATE ON retention BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER mark_stays BEFORE UPDATE ON mark BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER touch_stays BEFORE UPDATE ON touch BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER plan_stays BEFORE UPDATE ON plan BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER adoption_stays BEFORE UPDATE ON adoption BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER invalidation_stays BEFORE UPDATE ON invalidation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER rejection_stays BEFORE UPDATE ON rejection BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER receipt_stays BEFORE UPDATE ON receipt BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER summary_source_stays BEFORE UPDATE ON summary_source BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER event_kept BEFORE DELETE ON event BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER conversation_kept BEFORE DELETE ON conversation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER branch_kept BEFORE DELETE ON branch BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER generation_kept BEFORE DELETE ON generation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER policy_kept BEFORE DELETE ON policy BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER turn_kept BEFORE DELETE ON turn BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER refusal_kept BEFORE DELETE ON refusal BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER retention_kept BEFORE DELETE ON retention BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER mark_kept BEFORE DELETE ON mark BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER touch_kept BEFORE DELETE ON touch BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER plan_kept BEFORE DELETE ON plan BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER adoption_kept BEFORE DELETE ON adoption BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER invalidation_kept BEFORE DELETE ON invalidation BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER rejection_kept BEFORE DELETE ON rejection BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER receipt_kept BEFORE DELETE ON receipt BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER summary_source_kept BEFORE DELETE ON summary_source BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER message_kept BEFORE DELETE ON message BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER summary_kept BEFORE DELETE ON summary BEGIN SELECT raise(ABORT, 'append-only'); END;

CREATE TRIGGER message_stays BEFORE UPDATE ON message WHEN NOT (
    EXISTS (SELECT 1 FROM retention_switch) AND new.body IS NULL AND new.salt IS NULL
    AND new.conversation IS old.conversation AND new.branch IS old.branch AND new.sequence IS old.sequence
    AND new.event IS old.event AND new.turn IS old.turn AND new.id IS old.id AND new.version IS old.version
    AND new.role IS old.role AND new.protection IS old.protection AND new.digest IS old.digest
) BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER summary_stays BEFORE UPDATE ON summary WHEN NOT (
    EXISTS (SELECT 1 FROM retention_switch) AND new.body IS NULL AND new.salt IS NULL
    AND new.event IS old.event AND new.conversation IS old.conversation AND new.branch IS old.branch
    AND new.id IS old.id AND new.version IS old.version AND new.plan_id IS old.plan_id
    AND new.generation IS old.generation AND new.revision IS old.revision
    AND new.verified_event IS old.verified_event AND new.covers_from IS old.covers_from
    AND new.covers_to IS old.covers_to AND new.through_sequence IS old.through_sequence
    AND new.source_fingerprint IS old.source_fingerprint AND new.policy_version IS old.policy_version
    AND new.strategy_version IS old.strategy_version AND new.status IS old.status AND new.cause IS old.cause
    AND new.causing_id IS old.causing_id AND new.adopted_from IS old.adopted_from
    AND new.diagnostics IS old.diagnostics AND new.digest IS old.digest
) BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER part_stays BEFORE UPDATE ON part BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER part_kept BEFORE DELETE ON part WHEN NOT EXISTS (SELECT 1 FROM retention_switch)
BEGIN SELECT raise(ABORT, 'append-only'); END;
