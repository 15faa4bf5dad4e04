"""SQL for PostgreSQL: the server writes the audit log, so that no role's own SQL can omit or forge an entry."""

# a text as JSON in ASCII, as Python's json writes it
JSON_TEXT = r"""
CREATE FUNCTION json_text(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    -- printable ASCII, as nearly every text is; it needs no path of its own, having no names but the system's
    IF value COLLATE "C" ~ '^[ -~]*$' THEN
        RETURN to_json(value)::text;
    END IF;
    RETURN (SELECT '"' || string_agg(CASE
        WHEN code < 127 THEN substr(to_json(letter)::text, 2, length(to_json(letter)::text) - 2)
        WHEN code < 65536 THEN '\u' || lpad(to_hex(code), 4, '0')
        ELSE '\u' || to_hex(55296 + ((code - 65536) >> 10)) || '\u' || to_hex(56320 + ((code - 65536) & 1023))
        END, '' ORDER BY place) || '"'
    FROM (SELECT letter, place, ascii(letter) AS code
        FROM regexp_split_to_table(value, '') WITH ORDINALITY AS split (letter, place)) AS letters);
END $$
"""
# numbers and hashes each entry; a frozen ledger takes few, one that was moved none
APPEND_ENTRY = """
CREATE FUNCTION append_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    head record;
BEGIN
    SELECT seq, hash, frozen, moved INTO STRICT head FROM audit_head WHERE id = 1 FOR UPDATE;
    IF head.moved <> '' AND NEW.action <> 'arrived' THEN
        RAISE SQLSTATE 'DP002' USING MESSAGE = 'the ledger is frozen: ' || head.frozen;
    END IF;
    IF jsonb_typeof(NEW.details::jsonb) <> 'object' THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table audit_log: details are an object';
    END IF;
    -- what was forgotten may be entered again, and never runs by that
    IF head.frozen <> '' AND (NEW.action IN ('thawed', 'moved', 'arrived')
        OR (NEW.action = 'reserved' AND NEW.details::jsonb ->> 'runs' = '1')
        OR (NEW.action = 'committed' AND NEW.details::jsonb ->> 'draw_sha256' = '')
        OR (NEW.action = 'steps recorded' AND NEW.details::jsonb ->> 'restored' = '1')) IS NOT TRUE
    THEN
        RAISE SQLSTATE 'DP002' USING MESSAGE = 'the ledger is frozen: ' || head.frozen;
    END IF;
    NEW.seq := head.seq + 1;
    NEW.previous := head.hash;
    NEW.hash := encode(sha256(convert_to(
        '{"account":' || json_text(NEW.account) || ',"action":' || json_text(NEW.action)
        || ',"actor":' || json_text(NEW.actor) || ',"at":' || json_text(NEW.at)
        || ',"charge":' || json_text(NEW.charge) || ',"details":' || json_text(NEW.details)
        || ',"previous":' || json_text(NEW.previous) || ',"reason":' || json_text(NEW.reason)
        || ',"seq":' || NEW.seq || '}', 'UTF8')), 'hex');
    UPDATE audit_head SET seq = NEW.seq, previous = NEW.previous, hash = NEW.hash,
        frozen = CASE NEW.action WHEN 'frozen' THEN NEW.reason WHEN 'thawed' THEN '' WHEN 'moved' THEN NEW.reason
            WHEN 'arrived' THEN NEW.details::jsonb ->> 'frozen' ELSE frozen END,
        moved = CASE NEW.action WHEN 'moved' THEN NEW.details::jsonb ->> 'to' WHEN 'arrived' THEN '' ELSE moved END
    WHERE id = 1;
    RETURN NEW;
END $$
"""
# locks out other writers during changes of several statements, without a privilege on the head
HOLD_LEDGER = """
CREATE FUNCTION hold_ledger() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
BEGIN
    PERFORM FROM audit_head WHERE id = 1 FOR UPDATE;
END $$
"""
# a seal that only the server can make proves that the log once had an entry
SEAL_ENTRY = """
CREATE FUNCTION seal_of(number integer, entry_hash text) RETURNS text LANGUAGE sql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
SELECT encode(sha256(convert_to(secret || ':' || number || ':' || entry_hash || ':' || secret, 'UTF8')), 'hex')
FROM seal_secret WHERE entry_hash ~ '^[0-9a-f]{64}$'
$$;
CREATE FUNCTION seal_entry(number integer, entry_hash text) RETURNS text LANGUAGE sql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
SELECT seal_of(seq, hash) FROM audit_log WHERE seq = number AND hash = entry_hash
$$
"""
FREEZE_FORGOTTEN = """
CREATE FUNCTION freeze_forgotten(number integer, entry_hash text, seal text, who text, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF seal IS DISTINCT FROM seal_of(number, entry_hash) OR seal IS NULL OR why = '' OR octet_length(why) > 500
        OR octet_length(who) > 500 OR concat(who, why) ~ '[[:cntrl:]]'
        OR EXISTS (SELECT FROM audit_log WHERE seq = number AND hash = entry_hash)
    THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table audit_head: no entry was forgotten';
    END IF;
    IF (SELECT frozen FROM audit_head WHERE id = 1 FOR UPDATE) = '' THEN
        INSERT INTO audit_log (at, actor, action, account, charge, reason, details) VALUES (
            to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
            who, 'frozen', '', '', why, '{}');
    END IF;
END $$
"""
