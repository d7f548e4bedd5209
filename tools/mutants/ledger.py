"""Mutants of the durable record and of the summaries in it (issue B, ledger)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_MESSAGES, _SUMMARIES, _SCOPE = "ledger/messages.py", "ledger/summaries.py", "ledger/scope.py"

MUTANTS = (
    Mutant(_MESSAGES, "if message.role not in ROLES:", "if False:", "R6"),
    Mutant(
        _MESSAGES,
        'if reason not in (None, "pending-confirmation", "active-constraint", "audit-evidence"):',
        "if False:",
        "R7",
    ),
    Mutant(_MESSAGES, "            protection_reason=before.protection,\n", "", "R8"),
    Mutant(
        _SCOPE,
        "            protection=message.protection_reason,\n",
        '            protection="active-constraint" if "must" in str(message.text).lower()'
        " else message.protection_reason,\n",
        "R9",
    ),
    Mutant(_MESSAGES, 'raise PlannerFault("duplicate_id", f"{path}.id is used with other fields")', "pass", "R10"),
    Mutant("ledger/transaction.py", "head = replace(head, revision=head.revision + 1)", "pass", "R11"),
    Mutant(_SCOPE, "        if taken <= last:\n", "        if False:\n", "R13"),
    Mutant(_SCOPE, "    require_generation(head, generation)\n", "", "R55@test_turns"),
    Mutant(
        "ledger/branches.py",
        "generation = scope.head.generation + 1",
        "generation = scope.head.generation",
        "R53 R54@test_turns",
    ),
    Mutant(
        "ledger/turns.py",
        'end(scope, scope.turn(turn_id), "cancelled", "cancel", actor)',
        'end(scope, scope.turn(turn_id), "cancelled", "cancel", None)',
        "R58",
    ),
    Mutant(
        "ledger/reading.py",
        "turns = ShownTurns(store, head.conversation, line, span, sorted(hidden))",
        "turns = ShownTurns(store, head.conversation, line, span, [])",
        "R60",
    ),
    Mutant(
        "ledger/lineage.py",
        "Segment(parent, min(ordinal, last.at_ordinal), min(sequence, last.at_sequence), min(event, last.at_event))",
        "Segment(parent, last.at_ordinal, last.at_sequence, min(event, last.at_event))",
        "R61",
    ),
    Mutant("ledger/lineage.py", "min(event, last.at_event)", "last.at_event", "R61"),
    Mutant(_MESSAGES, '            scope.touch(row, event, "edit", message_id)\n', "", "R18 R85@ledger"),
    Mutant(_SUMMARIES, 'return "plan_inactive", None if active is None else active[1]', "return None", "R115@ledger"),
    Mutant(_SUMMARIES, "            put_version(scope, record, fate, job.checked.event)\n", "", "R116"),
    Mutant(_SUMMARIES, "    return touched_since(scope, record, since)\n", "    return None\n", "R113 R118@ledger"),
    Mutant(_SUMMARIES, "if active.policy_version not in (None, record.policy_version):", "if False:", "R86@ledger"),
    Mutant(
        "ledger/current.py", "if active.policy_version not in (None, row.policy_version):", "if False:", "R85@ledger"
    ),
    Mutant(_SUMMARIES, "        if _delivered(scope, record) is None:\n", "        if False:\n", "R123"),
    Mutant("ledger/versions.py", "        if known is not None:\n            return False\n", "", "R154"),
    Mutant("ledger/current.py", "    problems.update(_void_layouts(connection, line, valid))\n", "", "R140@ledger"),
    Mutant("ledger/current.py", 'if not (purged_whole and cause == "purge")]', "]", "R146@test_plans"),
    Mutant(
        "ledger/plans.py",
        'invalid("$.runs", "is empty, and a plan without sources starts nothing")',
        "pass",
        "R72@ledger",
    ),
    Mutant(
        "compactor/service.py", 'notices = [] if view.boundary is None else ["history_purged"]', "notices = []", "R149"
    ),
    Mutant(
        "compactor/proposing.py",
        "            ids, reserve = tuple(answer.ids), answer.max_output_tokens\n",
        "            pass\n",
        "R215",
    ),
    Mutant(
        "ledger/resolutions.py",
        '        scope.touch(row, event, "fact", fact_key)\n',
        "        pass\n",
        "R156@compactor",
    ),
    Mutant(
        "compaction/accept.py",
        "settled(_record(parsed, turns, sources, case), case.frame.resolutions, sequences_of(turns))",
        "_record(parsed, turns, sources, case)",
        "R156@compactor",
    ),
    Mutant(
        "ledger/legacy.py",
        'return record.role in ("user", "assistant") and is_id(record.source) and text_problem(record.text) is None',
        "return text_problem(record.text) is None",
        "R14",
    ),
    Mutant(
        "ledger/receipts.py",
        "        require_generation(scope.head, generation)\n        require_generation(scope.head, made_for)\n",
        "",
        "R55@test_receipts",
    ),
    Mutant(
        "compactor/service.py",
        "= proposed(self._context, view)\n        if isinstance(plan, Unplanned):\n            return Trial(",
        "= self.propose()\n        if isinstance(plan, Unplanned):\n            return Trial(",
        "R126@compactor",
    ),
    Mutant(
        "ledger/migrations/0001_initial.sql",
        "CREATE TRIGGER turn_kept BEFORE DELETE ON turn BEGIN SELECT raise(ABORT, 'append-only'); END;",
        "",
        "R1",
    ),
    Mutant(
        "ledger/migrations/0001_initial.sql",
        "    EXISTS (SELECT 1 FROM retention_switch) AND new.body IS NULL AND"
        " new.salt IS NULL\n    AND new.conversation IS old.conversation AND new.branch IS old.branch AND new.sequence",
        "    EXISTS (SELECT 1 FROM retention_switch)\n    AND new.conversation IS old.conversation AND new.branch IS"
        " old.branch AND new.sequence",
        "R2@test_messages",
    ),
    Mutant(
        "ledger/transaction.py",
        "if kind not in NO_CHANGE_OF_CONVERSATION and conversation not in self._changed:",
        "if conversation not in self._changed:",
        "R2@test_summaries",
    ),
    Mutant(
        "ledger/summary_rows.py",
        "for place, one in enumerate(sources)",
        "for place, one in enumerate(sources[1:])",
        "R121@test_summaries",
    ),
    Mutant("ledger/summary_rows.py", "        version=version,\n", "        version=1,\n", "R76@ledger"),
    Mutant(
        "ledger/retain.py", 'if row.status == "accepted" and used is not None and', "if False and", "R146@test_plans"
    ),
    Mutant(_SUMMARIES, "    return replace(record, summary_text=text)\n", "    return record\n", "R78@ledger"),
    Mutant(
        _SUMMARIES,
        '        _refuse("its sources are not those of the run, in that order")\n',
        "        pass\n",
        "R84@ledger",
    ),
    Mutant(
        _SUMMARIES,
        "if job.plan is None or active is None or active[0] != job.plan.event:",
        "if job.plan is None or active is None:",
        "R114@ledger",
    ),
    Mutant(
        "ledger/current.py",
        "min(covers[1], part.at_sequence), after",
        "part.at_sequence, after",
        "R117@ledger R119@ledger",
    ),
    Mutant(
        "ledger/versions.py",
        'replace(entry, status="superseded" if problem is None else "stale"',
        'replace(entry, status="stale"',
        "R77",
    ),
    Mutant("values/summary.py", "    summary_text: str = field(repr=False)\n", "    summary_text: str\n", "R125"),
    Mutant(
        "ledger/store.py",
        '            raise PlannerFault("ledger_read_only", doing)\n        with mapped(doing), lock_of',
        "            pass\n        with mapped(doing), lock_of",
        "R126@ledger",
    ),
    Mutant(
        _SUMMARIES,
        "record = replace(record, branch=branch_id(scope.tx, scope.branch))",
        'record = replace(record, branch="other")',
        "R75@ledger",
    ),
    Mutant(
        "ledger/retain.py",
        'update = "UPDATE message SET body = NULL, salt = NULL WHERE',
        'update = "UPDATE message SET body = body WHERE',
        "R146@test_upkeep",
    ),
    Mutant(
        "ledger/plans.py",
        "scope = open_scope(tx, plan.conversation_id, plan.generation)",
        "scope = open_scope(tx, plan.conversation_id, None)",
        "R55@test_plans",
    ),
    Mutant("ledger/readopt.py", "record = replace(record, id=new_id,", "record = replace(record,", "R54@test_plans"),
    Mutant(
        "ledger/marks.py",
        "return tuple(dict.fromkeys((*row.supersedes, *wanted)))",
        "return row.supersedes",
        "R151@test_turns",
    ),
    Mutant(_MESSAGES, 'invalid("$.turnId", "names a turn that is no longer open")', "pass", "R59"),
    Mutant("ledger/rows.py", "for sequence in sorted(newest):", "for sequence in sorted(newest, reverse=True):", "R12"),
    Mutant("ledger/store.py", 'tx.connection.execute("COMMIT")', 'tx.connection.execute("ROLLBACK")', "R4"),
    Mutant(
        "ledger/texts.py",
        "name = hashlib.sha256(salt + body).hexdigest()",
        "name = hashlib.sha256(body).hexdigest()",
        "R189",
    ),
    Mutant(
        "prepare.py",
        "view = self._ledger.view(self._conversation_id, generation=generation, active=active)",
        "view = self._ledger.view(self._conversation_id, active=active)",
        "R55@compactor",
    ),
    Mutant(
        "ledger/store.py",
        '        with mapped(doing):\n            connection.execute("BEGIN")',
        '        with mapped(doing), lock_of(self.path).held():\n            connection.execute("BEGIN")',
        "R122",
    ),
    Mutant("ledger/bodies.py", '        body["source"] = message.source\n', "        pass\n", "R5"),
    Mutant(_SUMMARIES, 'if code != "ledger_busy":', "if False:", "R124"),
    Mutant(
        "compaction/answer.py",
        'refuse("malformed_output", problem)',
        'refuse("malformed_output", text[:200])',
        "R188@test_prepare",
    ),
    Mutant("prepare.py", "import threading\n", "import threading\n\nimport transformers\n", "R204"),
    Mutant("compactor/context.py", "        if not on:\n", "        if False:\n", "R212@compactor"),
    Mutant(
        "ledger/migrations/0001_initial.sql",
        "    actor TEXT,  ",
        "    actor TEXT, summary INTEGER,  ",
        "R3@test_messages",
    ),
    Mutant(
        "values/plan.py",
        "    prompt: str | None = field(default=None, repr=False)\n",
        "    prompt: str | None = None\n",
        "R187",
    ),
    Mutant(
        "compactor/context.py",
        "        if not on:\n",
        "        if not (on or self.switches.store):\n",
        "R212@cli",
    ),
    Mutant(
        "ledger/store.py",
        '                self.fail("in_rollback")\n                connection.execute("ROLLBACK")\n',
        '                self.fail("in_rollback")\n                connection.execute("COMMIT")\n',
        "R121@test_save_failpoints",
    ),
    Mutant(
        "ledger/marks.py",
        '        scope.touch(carrier, after.event, "constraint", constraint_id)\n',
        "        pass\n",
        "R153@ledger/test_summaries",
    ),
    Mutant(
        "ledger/summaries.py",
        "    put_sources(scope, event, sources if isinstance(sources, tuple) else ())\n",
        "    put_sources(scope, event, sources if isinstance(sources, tuple) else ())\n"
        "    connection = scope.tx.connection\n"
        '    named = "UPDATE summary_source SET message_id = ? WHERE summary = ?"\n'
        "    connection.execute(named, (stored.summary_text, event))\n",
        "R3@ledger/test_summaries",
    ),
)
