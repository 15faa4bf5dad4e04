"""SQL procedures for PostgreSQL: one call writes a charge, releases its locks, and waits for the disk.

Each procedure commits twice. The first commit, like every commit of the session, does not wait for the disk, and
releases the locks. The second commit waits for the disk; it uses the statement by which ``backends`` flushes. The
procedures run with the rights of the caller, so they can write only what the caller's role could write by its own SQL.
"""

# a whole row of charges; its result is the number of its log entry
RESERVE_AT_ONCE = """
CREATE PROCEDURE reserve_at_once(INOUT charge jsonb) LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO charges SELECT * FROM jsonb_populate_record(NULL::charges, charge) RETURNING entry INTO number;
    COMMIT;
    PERFORM set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'privacy_ledger', '');
    charge := to_jsonb(number);
END $$
"""
# columns of one charge, none of which goes back to NULL, if it still is what `expected` says; its result is the new row
# with the terms of its account, or NULL
CHANGE_AT_ONCE = """
CREATE PROCEDURE change_at_once(INOUT charge jsonb, of_charge text, expected jsonb) LANGUAGE plpgsql AS $$
DECLARE
    changed jsonb;
BEGIN
    UPDATE charges AS old SET
        state = coalesce(charge ->> 'state', state),
        manifest_sha256 = coalesce(charge ->> 'manifest_sha256', manifest_sha256),
        settled_at = coalesce(charge ->> 'settled_at', settled_at),
        drawn_events = coalesce(charge ->> 'drawn_events', drawn_events),
        figures = coalesce(charge ->> 'figures', figures),
        runs = coalesce((charge ->> 'runs')::integer, runs),
        open_runs = coalesce(charge ->> 'open_runs', open_runs),
        draw_sha256 = coalesce(charge ->> 'draw_sha256', draw_sha256),
        changed_by = coalesce(charge ->> 'changed_by', ''),
        change_reason = coalesce(charge ->> 'change_reason', '')
    FROM accounts AS payer
    WHERE old.id = of_charge AND payer.name = old.account
        AND jsonb_build_object('state', state, 'runs', runs, 'open_runs', open_runs, 'draw_sha256', draw_sha256,
            'drawn', draw_sha256 IS NOT NULL) @> expected
    RETURNING jsonb_build_object('charges', to_jsonb(old), 'accounts', jsonb_build_object('blocks', payer.blocks,
        'neighbours', payer.neighbours, 'unit_column', payer.unit_column, 'unit_max_rows', payer.unit_max_rows))
        INTO changed;
    COMMIT;
    PERFORM set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'privacy_ledger', '');
    charge := changed;
END $$
"""
