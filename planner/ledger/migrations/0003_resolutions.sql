-- Schema 3: the application's event that ends a dispute about a fact (R156).
--
-- A CHECK cannot be changed in place, so the two tables that list the kinds of events and the causes of touches are
-- made again with one name more. `migrate` has switched foreign keys off meanwhile and checks them before the commit.

CREATE TABLE event_3 (
    event INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    branch INTEGER NOT NULL,           -- 0 where the fact is of no branch
    revision INTEGER NOT NULL,         -- of the conversation, after this event
    kind TEXT NOT NULL CHECK (kind IN (
        'conversation', 'branch', 'generation', 'policy',
        'message', 'edit', 'protection', 'legacy',
        'turn', 'state', 'cancel', 'withdraw', 'mark', 'supersede', 'item', 'material',
        'refusal', 'retention', 'resolution',
        'plan', 'summary', 'adoption', 'invalidation', 'rejection')),
    place INTEGER NOT NULL,            -- message: sequence, turn: ordinal, else 0; with it the fact is found by key
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    chain BLOB NOT NULL CHECK (length(chain) = 32)
) STRICT;

INSERT INTO event_3 SELECT event, conversation, branch, revision, kind, place, digest, chain FROM event;
DROP TABLE event;
ALTER TABLE event_3 RENAME TO event;

CREATE TRIGGER event_stays BEFORE UPDATE ON event BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER event_kept BEFORE DELETE ON event BEGIN SELECT raise(ABORT, 'append-only'); END;

CREATE TABLE touch_3 (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    sequence INTEGER NOT NULL,         -- of the turn that is touched
    event INTEGER NOT NULL REFERENCES event (event),
    cause TEXT NOT NULL CHECK (cause IN ('edit', 'protection', 'state', 'constraint', 'item', 'purge', 'fact')),
    causing_id TEXT NOT NULL,          -- message, turn, constraint, item or key of a fact
    PRIMARY KEY (conversation, branch, sequence, event, causing_id)
) STRICT, WITHOUT ROWID;

INSERT INTO touch_3 SELECT conversation, branch, sequence, event, cause, causing_id FROM touch;
DROP TABLE touch;
ALTER TABLE touch_3 RENAME TO touch;

CREATE TRIGGER touch_stays BEFORE UPDATE ON touch BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER touch_kept BEFORE DELETE ON touch BEGIN SELECT raise(ABORT, 'append-only'); END;

CREATE TABLE resolution (
    event INTEGER PRIMARY KEY REFERENCES event (event),
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    branch INTEGER NOT NULL REFERENCES branch (key),
    fact_key TEXT NOT NULL,
    decision TEXT NOT NULL CHECK (decision IN ('keep', 'replace')),
    resolved_by TEXT NOT NULL CHECK (resolved_by IN ('user', 'rule')),
    confirmation_id TEXT NOT NULL,     -- of the application's event
    through_sequence INTEGER NOT NULL, -- the conversation's last when it was decided
    part TEXT NOT NULL,                -- key of values, sentence and sources in part, kind fact
    digest BLOB NOT NULL,
    UNIQUE (conversation, confirmation_id)
) STRICT;

CREATE INDEX resolution_conversation ON resolution (conversation, branch, event);

CREATE TRIGGER resolution_stays BEFORE UPDATE ON resolution BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER resolution_kept BEFORE DELETE ON resolution BEGIN SELECT raise(ABORT, 'append-only'); END;
