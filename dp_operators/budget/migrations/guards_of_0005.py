"""SQL of schema 0005 for PostgreSQL: the server writes the audit log and checks changes of charges.

A role that may charge can write only charges. The server checks each charge that the role writes or changes and logs
it, so that the role's own SQL can neither omit a log entry nor write a false one.
"""

from dp_operators.budget.migrations.blocks_of_0005 import BLOCK_LIST, IS_BLOCK, MOVE_TOTALS

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
APPEND_ENTRY = """
CREATE FUNCTION append_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    head record;
BEGIN
    SELECT seq, hash, frozen INTO STRICT head FROM audit_head WHERE id = 1 FOR UPDATE;
    IF jsonb_typeof(NEW.details::jsonb) <> 'object' THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table audit_log: details are an object';
    END IF;
    -- what was forgotten may be entered again, and never runs by that
    IF head.frozen <> '' AND (NEW.action = 'thawed'
        OR (NEW.action = 'reserved' AND NEW.details::jsonb ->> 'runs' = '1')
        OR (NEW.action = 'committed' AND NEW.details::jsonb ->> 'draw_sha256' = '')) IS NOT TRUE
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
        frozen = CASE NEW.action WHEN 'frozen' THEN NEW.reason WHEN 'thawed' THEN '' ELSE frozen END
    WHERE id = 1;
    RETURN NEW;
END $$
"""
IS_EVENTS = """
CREATE FUNCTION is_events(value text) RETURNS boolean LANGUAGE sql SET search_path = {schema}, pg_temp AS $$
SELECT length(value) <= 1000000 AND value !~ '[0-9]{200}' AND jsonb_typeof(value::jsonb) = 'array'
    AND NOT jsonb_path_exists(value::jsonb, '$.**{20}')
$$
"""
RESERVE_CHARGE = r"""
CREATE FUNCTION reserve_charge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    payer record;
    wrong text;
    at_form CONSTANT text := '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$';
    amount CONSTANT text := '^\d{1,30}(\.\d{1,62})?$';
BEGIN
    SELECT blocks::jsonb AS expression, unit_stays = 1 AS by_block INTO STRICT payer
        FROM accounts WHERE name = NEW.account;
    wrong := CASE
        WHEN NEW.state <> 'reserved' OR NEW.manifest_sha256 IS NOT NULL OR NEW.settled_at IS NOT NULL
            OR NEW.drawn_events IS NOT NULL OR NEW.draw_sha256 IS NOT NULL THEN 'a charge begins as reserved'
        WHEN NEW.runs NOT IN (0, 1) OR NEW.open_runs <> CASE NEW.runs WHEN 0 THEN '[]' ELSE '[1]' END
            THEN 'a charge begins without runs'
        WHEN NEW.id !~ '^[A-Za-z0-9_-]{1,100}$' THEN 'no id of a charge'
        WHEN octet_length(NEW.release_key) NOT BETWEEN 1 AND 1000 OR octet_length(NEW.actor) > 500
            OR octet_length(NEW.request_sha256) > 500 OR octet_length(NEW.change_reason) > 500
            OR octet_length(NEW.allotment) > 200
            OR concat(NEW.release_key, NEW.actor, NEW.request_sha256, NEW.change_reason) ~ '[[:cntrl:]]'
            THEN 'texts are short and printable'
        WHEN (NEW.epsilon ~ amount AND NEW.delta ~ amount AND coalesce(NEW.rho, '0') ~ amount) IS NOT TRUE
            THEN 'no cost of this account'
        WHEN NOT is_events(NEW.events) THEN 'events are a short list'
        WHEN length(NEW.blocks) > 100000 OR jsonb_typeof(NEW.blocks::jsonb) <> 'array'
            OR jsonb_array_length(NEW.blocks::jsonb) NOT BETWEEN 1 AND 4000
            OR EXISTS (SELECT FROM jsonb_array_elements(NEW.blocks::jsonb) AS block
                WHERE jsonb_typeof(block) <> 'string')
            THEN 'no blocks of this account'
        WHEN NEW.blocks::jsonb = '["all"]'::jsonb AND NOT payer.by_block THEN NULL
        WHEN (SELECT count(DISTINCT block) = count(*) AND count(*) > 0
            FROM unnest(block_list(payer.expression, NEW.blocks)) AS block) IS NOT TRUE
            THEN 'no blocks of this account'
    END;
    IF wrong IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table charges: ' || wrong;
    END IF;
    NEW.epsilon := trim_scale(NEW.epsilon::numeric)::text;
    NEW.delta := trim_scale(NEW.delta::numeric)::text;
    NEW.rho := trim_scale(NEW.rho::numeric)::text;
    IF NEW.reserved_at !~ at_form THEN
        NEW.reserved_at := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"');
    END IF;
    NEW.renewed_at := NEW.reserved_at;
    NEW.changed_by := NEW.actor;
    -- one after the other from here on
    PERFORM FROM audit_head WHERE id = 1 FOR UPDATE;
    SELECT coalesce(max(generation), 0) + 1 INTO NEW.generation FROM charges
        WHERE account = NEW.account AND release_key = NEW.release_key;
    INSERT INTO audit_log (at, actor, action, account, charge, reason, details) VALUES (
        NEW.reserved_at, NEW.actor, 'reserved', NEW.account, NEW.id, NEW.change_reason,
        '{"allotment":' || json_text(NEW.allotment) || ',"blocks":' || NEW.blocks
        || ',"delta":"' || NEW.delta || '","epsilon":"' || NEW.epsilon || '","events":' || NEW.events
        || ',"generation":' || NEW.generation || ',"release_key":' || json_text(NEW.release_key)
        || ',"request_sha256":' || json_text(NEW.request_sha256)
        || ',"rho":' || coalesce('"' || NEW.rho || '"', 'null') || ',"runs":' || NEW.runs || '}'
    ) RETURNING seq INTO NEW.entry;
    RETURN NEW;
END $$
"""
GIVE_KEY = """
CREATE FUNCTION give_run_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
BEGIN
    -- 488 random bits of the server's strong source
    INSERT INTO run_keys (charge, run_key) VALUES (NEW.id, encode(sha256(
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
        || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex'))
    ON CONFLICT (charge) DO UPDATE SET run_key = EXCLUDED.run_key;
    RETURN NULL;
END $$
"""
CHANGE_CHARGE = r"""
CREATE FUNCTION change_charge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    at_form CONSTANT text := '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$';
    now_text CONSTANT text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"');
    runs_change CONSTANT boolean := NEW.runs <> OLD.runs OR NEW.open_runs <> OLD.open_runs;
    draw_changes CONSTANT boolean := NEW.draw_sha256 IS DISTINCT FROM OLD.draw_sha256;
    ends CONSTANT boolean := NEW.state <> OLD.state;
    wrong text;
    action text;
    details text;
    number integer;
BEGIN
    wrong := CASE
        WHEN OLD.state <> 'reserved' AND (ends OR draw_changes OR NEW.renewed_at <> OLD.renewed_at)
            THEN 'a settled charge stays as it is'
        WHEN (NEW.id, NEW.account, NEW.release_key, NEW.generation, NEW.entry, NEW.epsilon, NEW.delta, NEW.rho,
            NEW.blocks, NEW.events, NEW.request_sha256, NEW.actor, NEW.reserved_at, NEW.allotment)
            IS DISTINCT FROM (OLD.id, OLD.account, OLD.release_key, OLD.generation, OLD.entry, OLD.epsilon, OLD.delta,
            OLD.rho, OLD.blocks, OLD.events, OLD.request_sha256, OLD.actor, OLD.reserved_at, OLD.allotment)
            THEN 'what was charged stays as it is'
        WHEN NOT ends AND (NEW.manifest_sha256, NEW.settled_at, NEW.drawn_events)
            IS DISTINCT FROM (OLD.manifest_sha256, OLD.settled_at, OLD.drawn_events)
            THEN 'a settled charge stays as it is'
        WHEN runs_change::integer + (draw_changes AND NOT ends)::integer + ends::integer > 1 THEN 'one change at a time'
        WHEN octet_length(NEW.changed_by) > 500 OR octet_length(NEW.change_reason) > 500
            OR octet_length(NEW.manifest_sha256) > 500
            OR concat(NEW.changed_by, NEW.change_reason, NEW.manifest_sha256) ~ '[[:cntrl:]]'
            THEN 'texts are short and printable'
        WHEN ends AND (NEW.drawn_events IS NOT NULL AND NOT is_events(NEW.drawn_events)) THEN 'events are a short list'
        WHEN NEW.state = 'void' AND ends AND (OLD.draw_sha256 IS NOT NULL OR OLD.open_runs <> '[]'
            OR NEW.manifest_sha256 IS NOT NULL)
            THEN 'rows may have been read for it, so that it is never given back'
        WHEN NEW.state = 'committed' AND ends AND (NEW.draw_sha256 IS NULL
            OR (draw_changes AND NOT (OLD.draw_sha256 IS NULL AND NEW.draw_sha256 = '')))
            THEN 'its draw is not recorded'
        WHEN ends AND draw_changes AND NEW.state <> 'committed' THEN 'one change at a time'
        WHEN NEW.state = 'burnt' AND ends AND NEW.manifest_sha256 IS NOT NULL THEN 'what is burnt has no manifest'
        WHEN draw_changes AND NOT ends AND (OLD.draw_sha256 IS NULL AND NEW.draw_sha256 ~ '^[0-9a-f]{64}$') IS NOT TRUE
            THEN 'a charge has one draw'
    END;
    IF wrong IS NULL AND NEW.runs <> OLD.runs THEN
        wrong := CASE
            WHEN NEW.runs <> OLD.runs + 1 THEN 'runs follow each other'
            WHEN OLD.state NOT IN ('reserved', 'committed') THEN 'nothing runs for a charge that has ended'
        END;
        number := NEW.runs;
        NEW.open_runs :=
            CASE OLD.open_runs WHEN '[]' THEN '[' ELSE rtrim(OLD.open_runs, ']') || ',' END || number || ']';
        action := 'run started';
        details := '{"run":' || number || '}';
    ELSIF wrong IS NULL AND runs_change THEN
        SELECT opened::integer INTO number FROM jsonb_array_elements_text(OLD.open_runs::jsonb) AS opened
            WHERE replace(NEW.open_runs, ' ', '') = (
                SELECT '[' || coalesce(string_agg(kept, ',' ORDER BY place), '') || ']'
                FROM jsonb_array_elements_text(OLD.open_runs::jsonb) WITH ORDINALITY AS every (kept, place)
                WHERE kept <> opened);
        wrong := CASE
            WHEN number IS NULL THEN 'one run ends at a time'
            WHEN OLD.state <> 'reserved' THEN 'a settled charge stays as it is'
        END;
        NEW.open_runs := replace(NEW.open_runs, ' ', '');
        action := 'run ended';
        details := '{"run":' || number || '}';
    ELSIF ends THEN
        action := NEW.state;
        details := '{' || CASE WHEN draw_changes THEN '"draw_sha256":"",' ELSE '' END
            || coalesce('"events":' || NEW.drawn_events || ',', '')
            || '"manifest_sha256":' || coalesce(json_text(NEW.manifest_sha256), 'null') || '}';
        IF (NEW.settled_at ~ at_form) IS NOT TRUE THEN
            NEW.settled_at := now_text;
        END IF;
    ELSIF draw_changes THEN
        action := 'draw recorded';
        details := '{"draw_sha256":"' || NEW.draw_sha256 || '"}';
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table charges: ' || wrong;
    END IF;
    IF (NEW.renewed_at ~ at_form) IS NOT TRUE THEN
        NEW.renewed_at := now_text;
    END IF;
    IF action IS NOT NULL THEN
        INSERT INTO audit_log (at, actor, action, account, charge, reason, details) VALUES (
            CASE WHEN ends THEN NEW.settled_at ELSE now_text END, NEW.changed_by, action, NEW.account, NEW.id,
            NEW.change_reason, details);
    END IF;
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
FUNCTIONS = (
    SEAL_ENTRY,
    FREEZE_FORGOTTEN,
    JSON_TEXT,
    APPEND_ENTRY,
    IS_BLOCK,
    BLOCK_LIST,
    IS_EVENTS,
    RESERVE_CHARGE,
    MOVE_TOTALS,
    GIVE_KEY,
    CHANGE_CHARGE,
    HOLD_LEDGER,
)
NOBODYS = (
    "REVOKE ALL ON FUNCTION append_entry(), reserve_charge(), give_run_key(), change_charge(), hold_ledger(),"
    " seal_of(integer, text), seal_entry(integer, text), freeze_forgotten(integer, text, text, text, text) FROM PUBLIC"
)
TRIGGERS = (
    "DROP TRIGGER charge_begins_reserved ON charges",
    "DROP TRIGGER charge_stays_settled ON charges",
    "DROP TRIGGER thaw_is_logged ON audit_head",
    "DROP FUNCTION only_the_owner()",
    "DROP FUNCTION only_with_an_entry()",
    "CREATE TRIGGER entry_is_appended BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION append_entry()",
    "CREATE TRIGGER charge_is_reserved BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION reserve_charge()",
    "CREATE TRIGGER charge_is_given_a_key AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION give_run_key()",
    "CREATE TRIGGER charge_changes BEFORE UPDATE ON charges FOR EACH ROW EXECUTE FUNCTION change_charge()",
)
# roles that may update the head and write the log under the grants of earlier schemas
WRITERS = """
SELECT DISTINCT grantee::regrole::text, has_table_privilege(grantee, 'accounts', 'INSERT') FROM (
    SELECT (aclexplode(relacl)).grantee FROM pg_class WHERE oid IN ('audit_head'::regclass, 'audit_log'::regclass)
    UNION SELECT (aclexplode(attacl)).grantee FROM pg_attribute WHERE attrelid = 'audit_head'::regclass
) AS granted WHERE grantee NOT IN (0, (SELECT relowner FROM pg_class WHERE oid = 'audit_head'::regclass))
"""
