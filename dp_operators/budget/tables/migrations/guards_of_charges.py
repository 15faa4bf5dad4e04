"""SQL for PostgreSQL: the server checks each charge that is written or changed, and logs it.

A role that may charge can write only charges.
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
            OR NEW.drawn_events IS NOT NULL OR NEW.figures IS NOT NULL OR NEW.draw_sha256 IS NOT NULL
            THEN 'a charge begins as reserved'
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
        -- as nearly every charge of an account without blocks; the same written otherwise is checked below
        WHEN NEW.blocks = '["all"]' AND (payer.expression IS NULL OR NOT payer.by_block) THEN NULL
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
        WHEN NOT ends AND (NEW.manifest_sha256, NEW.settled_at, NEW.drawn_events, NEW.figures)
            IS DISTINCT FROM (OLD.manifest_sha256, OLD.settled_at, OLD.drawn_events, OLD.figures)
            THEN 'a settled charge stays as it is'
        WHEN runs_change::integer + (draw_changes AND NOT ends)::integer + ends::integer > 1 THEN 'one change at a time'
        WHEN octet_length(NEW.changed_by) > 500 OR octet_length(NEW.change_reason) > 500
            OR octet_length(NEW.manifest_sha256) > 500
            OR concat(NEW.changed_by, NEW.change_reason, NEW.manifest_sha256) ~ '[[:cntrl:]]'
            THEN 'texts are short and printable'
        WHEN ends AND (NEW.drawn_events IS NOT NULL AND NOT is_events(NEW.drawn_events)) THEN 'events are a short list'
        WHEN ends AND NEW.figures IS NOT NULL AND NOT (NEW.state = 'committed' AND is_events(NEW.figures))
            THEN 'figures are a short list, of what is committed'
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
            || coalesce('"figures":' || NEW.figures || ',', '')
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
