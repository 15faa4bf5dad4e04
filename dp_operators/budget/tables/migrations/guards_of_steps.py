"""SQL: the steps of a stream are recorded one after the other, each with the hash of the ones before.

On PostgreSQL the server checks the chain, and writes the log entry, by a definer's function: the SQL of a role that may
charge can neither record a fork nor change what is recorded. On SQLite triggers refuse the same.
"""

RECORD_STEPS = r"""
CREATE FUNCTION record_steps() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    payer record;
    last record;
    wrong text;
    at_form CONSTANT text := '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$';
BEGIN
    -- one after the other from here on
    PERFORM FROM audit_head WHERE id = 1 FOR UPDATE;
    SELECT account, state, runs INTO STRICT payer FROM charges WHERE id = NEW.charge;
    SELECT first + steps AS reached, object_sha256 INTO last FROM stream_steps
        WHERE charge = NEW.charge ORDER BY first DESC LIMIT 1;
    wrong := CASE
        WHEN payer.state NOT IN ('reserved', 'committed') OR payer.runs = 0 THEN 'nothing runs for its charge'
        WHEN (NEW.object_sha256 ~ '^[0-9a-f]{64}$' AND NEW.steps > 0 AND NEW.restored IN (0, 1)) IS NOT TRUE
            THEN 'no steps of a stream'
        WHEN octet_length(NEW.recorded_by) > 500 OR octet_length(NEW.reason) > 500
            OR concat(NEW.recorded_by, NEW.reason) ~ '[[:cntrl:]]' THEN 'texts are short and printable'
    END;
    IF wrong IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table stream_steps: ' || wrong;
    END IF;
    IF (NEW.first, NEW.previous_sha256)
        IS DISTINCT FROM (coalesce(last.reached, 0), coalesce(last.object_sha256, repeat('0', 64)))
    THEN
        RAISE SQLSTATE 'DP001' USING MESSAGE = 'the steps do not follow the last ones';
    END IF;
    IF (NEW.recorded_at ~ at_form) IS NOT TRUE THEN
        NEW.recorded_at := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"');
    END IF;
    INSERT INTO audit_log (at, actor, action, account, charge, reason, details) VALUES (
        NEW.recorded_at, NEW.recorded_by, 'steps recorded', payer.account, NEW.charge, NEW.reason,
        '{"first":' || NEW.first || ',"object_sha256":"' || NEW.object_sha256 || '","previous_sha256":"'
        || NEW.previous_sha256 || '","restored":' || NEW.restored || ',"steps":' || NEW.steps || '}');
    RETURN NEW;
END $$
"""
STEPS_STAY = """
CREATE FUNCTION steps_stay() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE insufficient_privilege
        USING MESSAGE = 'permission denied for table stream_steps: what is recorded stays as it is';
END $$
"""
ON_SQLITE = (
    """
CREATE TRIGGER steps_are_recorded BEFORE INSERT ON stream_steps BEGIN
    SELECT RAISE(ABORT, 'the steps do not follow the last ones') WHERE (NEW.first, NEW.previous_sha256) <> (
        coalesce((SELECT max(first + steps) FROM stream_steps WHERE charge = NEW.charge), 0),
        coalesce((SELECT object_sha256 FROM stream_steps WHERE charge = NEW.charge ORDER BY first DESC LIMIT 1),
            substr(hex(zeroblob(32)), 1, 64)));
END
""",
    *(
        f"CREATE TRIGGER steps_stay_on_{event.lower()} BEFORE {event} ON stream_steps "
        "BEGIN SELECT RAISE(ABORT, 'what is recorded stays as it is'); END"
        for event in ("UPDATE", "DELETE")
    ),
)
